"""`fairlead docs`: the documentation of this version."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.cli.output.show import show_rows
from fairlead.cli.shell import options as shared
from fairlead.cli.shell.commandline import nearest
from fairlead.errors import UserError

SECTIONS: Final = ("tutorial", "how-to", "reference", "explanation", "decisions")
"""The sections, in the order of the list."""
_FIRST: Final = ("reference", "how-to", "tutorial", "explanation", "decisions")
"""The order in which sections are searched for a page by its name alone."""
_SUFFIX: Final = ".md"


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "docs",
        help="print a page of the documentation",
        description="Print a page of the documentation, as Markdown, or list all pages.",
    )
    command.add_argument(
        "topic",
        metavar="TOPIC",
        nargs="?",
        help="a command or a page: schedule, how-to/install, 0009 (default: list all)",
    )
    shared.add_list(command, ("TOPIC", "TITLE"))
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    pages = _pages()
    if options.topic is not None:
        print(pages[find_page(options.topic, pages)].read_text(encoding="utf-8"), end="")
        return 0
    rows = [(name, title(path)) for name, path in pages.items()]
    show_rows(("TOPIC", "TITLE"), rows, options)
    return 0


def _pages() -> dict[str, Path]:
    """Return the pages by section and name, such as `how-to/install`."""
    from fairlead.shipped import files

    texts = ((name, path) for name, path in files("docs").items() if name.endswith(_SUFFIX))
    pages = {name.removesuffix(_SUFFIX): path for name, path in texts}
    return {
        name: path
        for section in SECTIONS
        for name, path in pages.items()
        if name.startswith(f"{section}/") and not name.endswith("/README")
    }


def find_page(topic: str, pages: Mapping[str, Path]) -> str:
    """Return the page of a topic: a page's name, a decision's number, or a command in a page's title."""
    wanted = topic.partition("#")[0].removeprefix("docs/").removesuffix(_SUFFIX).lower()
    if wanted in pages:
        return wanted
    order = sorted(pages, key=lambda name: _FIRST.index(name.partition("/")[0]))
    stems = {name: name.partition("/")[2] for name in order}
    matches = [name for name, stem in stems.items() if stem == wanted]
    matches += [
        name for name, stem in stems.items() if wanted.isdecimal() and stem.startswith(f"{wanted:0>4}-")
    ]
    matches += [name for name in order if f"`fairlead {wanted}`" in title(pages[name])]
    if matches:
        return matches[0]
    near = nearest(wanted, [*stems.values(), *pages])
    raise UserError(
        f"no page {topic!r} in the documentation",
        f"did you mean {' or '.join(near)}?" if near else "see: fairlead docs",
    )


def title(page: Path) -> str:
    """Return the first heading of a page."""
    with page.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").rstrip() for line in lines if line.startswith("# ")), "")
