"""A file of commands for `submit --from`: a job for each line, with options of its own before `--`."""

import argparse
import shlex
import sys
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Final, NoReturn

from fairlead.cli.local.job_options import JobOptions, add_job_options, default_name, job_options_of
from fairlead.errors import SettingsError

SHELL: Final = "/bin/sh"
MOST_LINES: Final = 4096
"""Commands of one file: as many jobs as the ledger keeps of one user."""
_END: Final = " -- "


def jobs_of_file(options: argparse.Namespace) -> list[JobOptions]:
    """Return the jobs of the file that `options.file` names; the other options hold for each of them."""
    if options.argv:
        raise SettingsError(
            f"--from {options.file}: the commands come from the file; leave out {options.argv[-1]}"
        )
    name = "the standard input" if options.file == "-" else options.file
    lines = [(number, line.strip()) for number, line in enumerate(_lines(options.file), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines or len(lines) > MOST_LINES:
        raise SettingsError(f"{name}: {len(lines)} commands; submit 1 to {MOST_LINES} at once")
    options.argv = [SHELL, "-c", ""]
    checked = job_options_of(options)
    parser = _LineParser(add_help=False)
    add_job_options(parser)
    jobs = []
    for number, line in lines:
        try:
            job = _of_line(checked, options, parser, line)
        except (SettingsError, ValueError) as error:  # a quotation that does not end is a ValueError
            raise SettingsError(f"{name}, line {number}: {error}", getattr(error, "hint", "")) from None
        jobs.append(replace(job, origin=f"{name}, line {number}"))
    return jobs


class _LineParser(argparse.ArgumentParser):
    """Parses the options of a line; an error in them is one of the file, not of the command line."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(message, "options of a line end with --: --memory 2Gi -- python train.py")


def _of_line(checked: JobOptions, options: argparse.Namespace, parser: _LineParser, line: str) -> JobOptions:
    """Return a line as a job that the shell runs; its first word but settings names the job."""
    if line.startswith("-"):
        text, end, line = f"{line} ".partition(_END)
        if not end or not line.strip():
            parser.error("no command after its options")
        own = parser.parse_args(shlex.split(text), copy(options))
        own.argv = [SHELL, "-c", ""]
        checked, line = job_options_of(own), line.strip()
    words = [word for word in line.split() if "=" not in word.split("/")[0]] or line.split()
    return replace(checked, argv=(SHELL, "-c", line), name=checked.name or default_name(words))


def _lines(file: str) -> Iterable[str]:
    if file == "-":
        if sys.stdin is None:
            raise SettingsError("--from -: the standard input is closed")
        return sys.stdin.readlines()
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            return lines.readlines()
    except OSError as error:
        raise SettingsError(f"--from {file}: {error.strerror}") from None
