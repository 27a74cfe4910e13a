"""The end of a process that runs as uid 0: errors as lines for the log, and an exit code."""

import os
import sys
from collections.abc import Callable
from typing import Final

from fairlead.errors import FairleadError

_FAULT: Final = 70


def exit_code(program: Callable[[], None], say: Callable[[str], None]) -> int:
    """Run a program and return its exit code; an error is logged, without its traceback."""
    try:
        program()
    except FairleadError as error:
        say(f"{error}\n  {error.hint}" if error.hint else str(error))
        return error.exit_code
    except Exception as error:  # the last handler, as in cli/main.py, which this process does not load
        if os.environ.get("FAIRLEAD_DEBUG", "") not in ("", "0"):
            raise
        say(f"failed: {type(error).__name__}: {error}; FAIRLEAD_DEBUG=1 prints the traceback for a report")
        return _FAULT
    return 0


def log_as(name: str) -> Callable[[str], None]:
    """Return a function that writes lines to stderr under a program's name."""

    def say(line: str) -> None:
        sys.stderr.write(f"fairlead {name}: {line}\n")
        sys.stderr.flush()

    return say
