"""The link check: every link and anchor of the built site leads somewhere, and every page can be reached."""

import posixpath
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote

_OUTSIDE: Final = ("http:", "https:", "mailto:", "data:")


class _PageParser(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


def check_site(folder: Path) -> list[str]:
    """Return what is wrong with the links of a built site."""
    pages = {path.relative_to(folder).as_posix(): _parsed(path) for path in sorted(folder.rglob("*.html"))}
    faults, reached = [], {"index.html"}
    for name, page in pages.items():
        for link in page.links:
            target, fault = _follow(folder, pages, name, link)
            faults += [f"{name}: {link}: {fault}"] if fault else []
            if target != name:
                reached.add(target)
    return faults + [f"{name}: no page leads to it" for name in pages if name not in reached]


def _follow(folder: Path, pages: dict[str, _PageParser], name: str, link: str) -> tuple[str, str]:
    """Return the page or file that a link leads to, and what is wrong with it."""
    if link.startswith(_OUTSIDE):
        return "", ""
    path, _, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(path))) if path else name
    if target not in pages:
        return target, "" if (folder / target).is_file() else "there is no such page"
    known = not anchor or unquote(anchor) in pages[target].anchors
    return target, "" if known else "there is no such heading"


def _parsed(path: Path) -> _PageParser:
    parser = _PageParser()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser
