"""The pages of the site: Markdown of the repository, and where each stands on the site."""

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOUSE: Final = Path(__file__).parents[2]
SECTIONS: Final = {
    "tutorial": "Tutorial",
    "how-to": "How to",
    "reference": "Reference",
    "generated": "Reference, generated",
    "explanation": "Explanation",
    "decisions": "Decisions",
    "project": "Project",
}
"""The sections by their folder on the site, in the order of the navigation."""
_PROJECT: Final = ("README.md", "CHANGELOG.md", "SCOPE.md", "CONTRIBUTING.md")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_EXTERNAL: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A page: its text, where it comes from, and where it stands."""

    source: str
    """Its path in the repository; of a generated page, one that no file has."""
    target: str
    """Its path on the site."""
    text: str
    """Markdown."""

    @property
    def section(self) -> str:
        """The folder of its section."""
        return self.target.partition("/")[0]

    @property
    def title(self) -> str:
        """The first heading, without its marks."""
        found = _TITLE.search(self.text)
        return found[1].replace("`", "").strip() if found else self.target


def read_pages(house: Path = HOUSE) -> list[SourcePage]:
    """Return every page of docs/, and those of the project itself."""
    pages = []
    for path in sorted((house / "docs").rglob("*.md")):
        name = path.relative_to(house / "docs").as_posix()
        if name == "README.md":
            continue  # the start page lists every page
        target = name.replace("README.md", "index.md")
        pages.append(_page(house, path, target))
    pages += [_page(house, house / name, f"project/{name.lower()}") for name in _PROJECT]
    return pages


def _page(house: Path, path: Path, target: str) -> SourcePage:
    text = path.read_text(encoding="utf-8")
    return SourcePage(path.relative_to(house).as_posix(), target.removesuffix(".md") + ".html", text)


@dataclass(frozen=True, slots=True)
class LinkTable:
    """Turns links between files of the repository into links between pages of the site."""

    targets: Mapping[str, str]
    """By path in the repository: the page's path on the site."""
    house: Path = HOUSE

    @classmethod
    def of(cls, pages: Iterable[SourcePage], house: Path = HOUSE) -> "LinkTable":
        """Return the table of all pages."""
        targets = {page.source: page.target for page in pages}
        folders = {
            path.removesuffix("/README.md"): to for path, to in targets.items() if path.endswith("/README.md")
        }
        return cls({**targets, **folders, "docs/README.md": "index.html", "docs": "index.html"}, house)

    def resolve(self, page: SourcePage, link: str) -> tuple[str, str]:
        """Return the link on the site, and the file of the repository that it needs there; empty: none."""
        if _EXTERNAL.match(link) or link.startswith("#"):
            return link, ""
        path, mark, fragment = link.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
        target = self.targets.get(wanted)
        needed = ""
        if target is None:
            if not (self.house / wanted).is_file():
                return link, ""  # the link check names it
            target = needed = f"files/{wanted}"
        relative = posixpath.relpath(target, posixpath.dirname(page.target) or ".")
        return f"{relative}{mark}{fragment}", needed.removeprefix("files/")
