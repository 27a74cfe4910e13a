"""The programs `kubectl-fairlead` and `kubectl_complete-fairlead`, which kubectl finds on PATH."""

import sys
from collections.abc import Sequence
from typing import Final

from fairlead.cli import main as program
from fairlead.cli.kubectl.commandline import build_parser, flags_last, leading_flags
from fairlead.cli.shell.complete import CompletionKind, Completions, complete

DIRECTIVES: Final = {CompletionKind.WORDS: 4, CompletionKind.FILES: 0, CompletionKind.FOLDERS: 16}
"""What kubectl's completion may offer beside the words: nothing, files, or folders."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = flags_last(sys.argv[1:] if argv is None else argv)
    return program.main(words, build_parser)


def run() -> None:
    """Run as the program `kubectl-fairlead`."""
    program.prepare()
    sys.exit(main())


def run_completion() -> None:
    """Run as the program `kubectl_complete-fairlead`: kubectl calls it at every Tab with the words so far."""
    print(completion_lines(sys.argv[1:]))


def completion_lines(words: Sequence[str]) -> str:
    """Return the completions of the last word as kubectl reads them: `word<Tab>help`, then a directive."""
    from fairlead.cli.shell.names import values

    line = leading_flags(words)[1] or [""]
    found: Completions = complete(build_parser(line[0] if len(line) > 1 else ""), line, values)
    lines = [f"{each.word}\t{each.help}" if each.help else each.word for each in found.candidates]
    return "\n".join([*lines, f":{DIRECTIVES[found.kind]}"])
