"""The door: parse the command line, run one command, turn errors into exit codes.

Exit codes: 0 done, 1 the answer is no, 2 the user must change something, 3 the cluster is away.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from fairlead import __version__
from fairlead.cli.commandline import CommandParser
from fairlead.cli.terminal import show_error
from fairlead.errors import FairleadError

COMMANDS = (
    "detect",
    "capture",
    "catalog",
    "analyze",
    "estimate",
    "calibrate",
    "profiles",
    "schedule",
    "explain",
    "simulate",
    "bench",
    "nodes",
    "snapshot",
    "doctor",
    "serve",
    "warden",
    "retract",
    "lab",
    "completion",
)
"""Each the name of its module here too."""


def parser(only: str = "") -> argparse.ArgumentParser:
    """Return the whole command line, or one command's part: a program should not wait for the others'."""
    top = CommandParser(
        prog="fairlead",
        description="Lead every neural network to the accelerator where it runs best.",
        epilog="Exit codes: 0 done, 1 the answer is no, 2 you must change something, 3 the cluster is away.",
    )
    top.add_argument("--version", action="version", version=f"fairlead {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name in (only,) if only in COMMANDS else COMMANDS:
        import_module(f"fairlead.cli.{name}").add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    options = parser(argv[0] if argv else "").parse_args(argv)
    try:
        code = options.run(options)
        print(end="", flush=True)  # a full pipe shows here; a closed one has nothing to say
        return int(code)
    except FairleadError as error:
        show_error(f"fairlead: {error}" + (f"\n  {error.hint}" if error.hint else ""))
        return error.exit_code
    except BrokenPipeError:
        _hush()  # the reader went away (| head): what it wanted it has
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        _hush()
        print(f"fairlead: the answer cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _hush() -> None:
    """Let nothing more be written where nothing can be."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> None:
    """Run as the installed program, on terminals of any alphabet."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
