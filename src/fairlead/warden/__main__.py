"""The warden as a process of its own: `python -I -m fairlead.warden CONFIG`, a `WardenConfig` in JSON.

`fairlead warden serve` executes this after parsing its options: the command line's parser needs more memory
than the whole warden.
"""

import json
import sys

from fairlead.warden.entry import exit_code, log_as


def main() -> int:
    """Serve; return the exit code."""
    # Without it hashlib uses its own code: OpenSSL would cost 3.5 MiB for one SHA-256.
    sys.modules["_hashlib"] = None  # type: ignore[assignment]  # the documented way to forbid an import
    from fairlead.warden.server import WardenConfig, run  # noqa: PLC0415  # only after OpenSSL is forbidden

    say = log_as("warden")
    return exit_code(lambda: run(WardenConfig(**json.loads(sys.argv[1])), say), say)


if __name__ == "__main__":
    sys.exit(main())
