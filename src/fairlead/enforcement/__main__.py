"""The limiter as a process of its own: `python -I -m fairlead.enforcement CONFIG`, in JSON.

`fairlead warden limit` executes this after parsing its options.
"""

import json
import sys

from fairlead.enforcement.server import LimiterConfig, run
from fairlead.warden.entry import exit_code, log_as


def main() -> int:
    """Serve; return the exit code."""
    say = log_as("limiter")
    return exit_code(lambda: run(LimiterConfig(**json.loads(sys.argv[1])), say), say)


if __name__ == "__main__":
    sys.exit(main())
