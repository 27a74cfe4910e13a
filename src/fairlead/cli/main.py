"""Entry point: parse the command line, run one command, turn errors into exit codes.

Exit codes: 0 done, 1 the answer is no, 2 the user must change something, 3 the cluster is unavailable, 70 a
fault of this program, 74 the disk is full; `fairlead docs exit-codes` lists them all.
"""

import argparse
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from fairlead import __version__
from fairlead.cli.output.terminal import show_error
from fairlead.cli.shell.commandline import CommandParser
from fairlead.errors import FairleadError, MissingPartError, OutputError
from fairlead.outfile import is_disk_fault

_YOUNG: Final = 50_000
"""New objects until the next collection: with 700, Python's own, a tenth of a command's start goes into
collections that find nothing, while modules are imported."""
COMMANDS: Final = {
    "run": "local.run",
    "submit": "local.submit",
    "ps": "local.ps",
    "top": "local.top",
    "dashboard": "dashboard.command",
    "logs": "local.logs",
    "cancel": "local.cancel",
    "adopt": "local.adopt",
    "pipeline": "pipeline.command",
    "augment": "augment.command",
    "device": "device.command",
    "detect": "machine.detect",
    "capture": "machine.capture",
    "catalog": "machine.catalog",
    "analyze": "model.analyze",
    "estimate": "model.estimate",
    "calibrate": "model.calibrate",
    "profiles": "model.profiles",
    "schedule": "placement.schedule",
    "explain": "placement.explain",
    "simulate": "placement.simulate",
    "reproduce": "reproduce.command",
    "rightsize": "placement.rightsize",
    "bench": "model.bench",
    "nodes": "cluster.nodes",
    "devices": "cluster.devices",
    "snapshot": "placement.snapshot",
    "doctor": "machine.doctor",
    "debug-dump": "dump.command",
    "replay": "placement.replay",
    "serve": "serve.command",
    "warden": "serve.warden",
    "retract": "cluster.retract",
    "lab": "lab.command",
    "completion": "shell.completion",
    "manifests": "shipped.manifests",
    "examples": "shipped.examples",
    "docs": "shipped.docs",
}
"""Each command, and its module below this package."""
DEBUG = "FAIRLEAD_DEBUG"
"""The environment variable; set to 1, a fault of this program prints its traceback."""
FAULT = 70
"""A fault of this program (EX_SOFTWARE of sysexits.h)."""
_INTERRUPTED = 130
ParserBuilder = Callable[[str], argparse.ArgumentParser]
"""Returns the parser of every command, or of the one that is named."""


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """Return the parser of every command, or of one alone: it does not wait for imports of the others."""
    top = CommandParser(
        prog="fairlead",
        description="Lead every neural network to the accelerator where it runs best.",
        epilog="Exit codes: 0 done, 1 the answer is no, 2 you must change something, 3 the cluster is "
        "unavailable, 70 a fault of fairlead, 74 the disk is full.",
    )
    top.add_argument("--version", action="version", version=f"fairlead {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name in (only,) if only in COMMANDS else COMMANDS:
        import_module(f"fairlead.cli.{COMMANDS[name]}").add(commands)
    return top


def main(argv: Sequence[str] | None = None, build: ParserBuilder = build_parser) -> int:
    """Run one command of this program, or of another with a parser of its own; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    options = argparse.Namespace(command="fairlead")
    try:
        code = _run_command(argv, options, build)
        if not hasattr(options, "failure_code"):  # the output of `run` is its command's
            print(end="", flush=True)  # a full disk raises here; a closed stdout does not
        return code
    except BrokenPipeError:
        _discard_output()  # the reader closed the pipe (| head): it has what it wants
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last handler: every error gets an exit code
        code = _report_error(error, options)
        return int(getattr(options, "failure_code", code))  # `run` keeps other codes for its command


def _run_command(argv: Sequence[str], options: argparse.Namespace, build: ParserBuilder) -> int:
    """Parse the arguments and run the command; --help and --version end in SystemExit."""
    try:
        build(argv[0] if argv else "").parse_args(argv, options)
    except SystemExit:
        print(end="", flush=True)
        raise
    return int(options.run(options))


def _report_error(error: Exception, options: argparse.Namespace) -> int:
    """Print the error that ended a command, and return its exit code."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]  # of several tasks that fail together the first says why
    if isinstance(error, ModuleNotFoundError):
        from fairlead.cli.shell.extras import missing_part

        error = missing_part(error, options)
    if isinstance(error, OSError) and is_disk_fault(error):
        _discard_output()
        error = OutputError(f"the answer cannot be written: {error.strerror}")
    if not isinstance(error, FairleadError):
        return _report_fault(error, options.command)
    hint = error.hint
    if isinstance(error, MissingPartError) and not hint:
        from fairlead.cli.shell.extras import advice

        hint = advice(options)
    with suppress(OSError, ValueError):  # with stderr full or closed, the exit code must do
        show_error(f"fairlead: {error}" + (f"\n  {hint}" if hint else ""))
    return error.exit_code


def _report_fault(error: Exception, command: str) -> int:
    """Print one line: this program failed, where, and how to report it."""
    import traceback

    if os.environ.get(DEBUG, "") not in ("", "0"):
        _print_error("".join(traceback.format_exception(error)).rstrip())
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if f"{os.sep}fairlead{os.sep}" in frame.filename), None)
    where = f" at {os.path.basename(last.filename)}:{last.lineno}" if last else ""
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    _print_error(
        f"fairlead: {command} failed{where}: {text}; this is a fault of fairlead {__version__}: run it again "
        f"with {DEBUG}=1, and report what it prints as `fairlead docs report-a-fault` says"
    )
    return FAULT


def _print_error(text: str) -> None:
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _discard_output() -> None:
    """Redirect the standard output to /dev/null: a further write to it would fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> None:
    """Run as the installed program."""
    prepare()
    sys.exit(main())


def prepare() -> None:
    """Prepare the process of an installed program; a character that the terminal cannot encode is escaped."""
    gc.set_threshold(_YOUNG)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
