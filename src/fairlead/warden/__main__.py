"""The warden as a process of its own: `python -I -m fairlead.warden CONFIG`, a `WardenConfig` in JSON.

`fairlead warden serve` executes this after parsing its options: the command line's parser needs more memory
than the whole warden.
"""

import json
import os
import sys

from fairlead.errors import FairleadError

_FAULT = 70


def main() -> int:
    """Serve; return the exit code."""
    # Without it hashlib uses its own code: OpenSSL would cost 3.5 MiB for one SHA-256.
    sys.modules["_hashlib"] = None  # type: ignore[assignment]  # the documented way to forbid an import
    from fairlead.warden.server import WardenConfig, run  # noqa: PLC0415  # only after OpenSSL is forbidden

    try:
        run(WardenConfig(**json.loads(sys.argv[1])), _say)
    except FairleadError as error:
        _say(f"{error}\n  {error.hint}" if error.hint else str(error))
        return error.exit_code
    except Exception as error:  # the last handler, as in cli/main.py, which this process does not load
        if os.environ.get("FAIRLEAD_DEBUG", "") not in ("", "0"):
            raise
        _say(f"failed: {type(error).__name__}: {error}; FAIRLEAD_DEBUG=1 prints the traceback for a report")
        return _FAULT
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"fairlead warden: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
