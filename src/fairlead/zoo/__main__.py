"""Write networks as ONNX files: `python -m fairlead.zoo FOLDER [NAME...]`."""

import argparse
import os
import sys

from fairlead.errors import FairleadError
from fairlead.zoo import BUILDERS, KNOWN
from fairlead.zoo.onnxfile import write


def main(argv: list[str] | None = None) -> int:
    """Write the named networks, or every known one."""
    parser = argparse.ArgumentParser(
        prog="python -m fairlead.zoo",
        description="Write networks with made-up weights as ONNX files, to try predictions with.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="where to write them; created if it does not exist")
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help=f"some of: {', '.join(BUILDERS)} (default: the first eight)"
    )
    parser.add_argument("--batch", metavar="N", type=int, default=1, help="inputs of one run (default: 1)")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in BUILDERS]
    if unknown:
        parser.error(f"there is no network {unknown[0]!r}; there are: {', '.join(BUILDERS)}")
    if options.batch < 1:
        parser.error(f"--batch {options.batch}: at least 1")
    try:
        os.makedirs(options.folder, exist_ok=True)
        for name in options.names or KNOWN:
            path = os.path.join(options.folder, f"{name}.onnx")
            write(BUILDERS[name](options.batch, options.precision), path)
            print(path)  # noqa: T201  # this is a program
    except FairleadError as error:
        print(f"fairlead.zoo: {error}\n  {error.hint}", file=sys.stderr)  # noqa: T201  # this is a program
        return error.exit_code
    except OSError as error:
        parser.error(f"{error.filename or options.folder}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
