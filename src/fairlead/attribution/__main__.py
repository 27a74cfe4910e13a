"""Attribution as a process of its own: `python -I -m fairlead.attribution CONFIG`, in JSON.

`fairlead warden attribute` executes this after parsing its options.
"""

import json
import sys

from fairlead.attribution.server import AttributionConfig, run
from fairlead.warden.entry import exit_code, log_as


def main() -> int:
    """Serve; return the exit code."""
    say = log_as("attribution")
    return exit_code(lambda: run(AttributionConfig(**json.loads(sys.argv[1])), say), say)


if __name__ == "__main__":
    sys.exit(main())
