"""Build the documentation site: one static folder that needs no network, from docs/, the code and the chart.

`make docs` runs it. It ends with an error if a link leads nowhere or a page cannot be reached.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from deploy.site.generate import generated_pages
from deploy.site.layout import page_html, start_page
from deploy.site.links import check_site
from deploy.site.markdown import RenderedPage, render
from deploy.site.pages import HOUSE, LinkTable, SourcePage, read_pages
from deploy.site.search import index_of, script_of

ASSETS: Final = Path(__file__).with_name("assets")
MARK: Final = ".fairlead-docs"
"""A file of a folder that an earlier build made: only such a folder is replaced."""


def build(folder: Path) -> int:
    """Build the site into a folder; return the number of its pages."""
    _clear(folder)
    pages = [*read_pages(), *generated_pages()]
    table, needed = LinkTable.of(pages), set[str]()
    rendered = [(page, _rendered(page, table, needed)) for page in pages]
    for page, done in rendered:
        _write(folder / page.target, page_html(page, done.html, done.headings, pages))
    _write(folder / "index.html", start_page(pages))
    _write(folder / "assets/index.js", script_of(index_of(rendered)))
    for path in sorted(ASSETS.iterdir()):
        shutil.copyfile(path, folder / "assets" / path.name)
    for name in sorted(needed):
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HOUSE / name, folder / "files" / name)
    return len(pages) + 1


def _rendered(page: SourcePage, table: LinkTable, needed: set[str]) -> RenderedPage:
    """Return a page as HTML; add the files of the repository that it links to."""

    def link(target: str) -> str:
        on_site, file = table.resolve(page, target)
        needed.update([file] if file else [])
        return on_site

    return render(page.text, link)


def _clear(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise SystemExit(f"{folder}: not a site that this program built; name an empty folder")
    shutil.rmtree(folder, ignore_errors=True)
    _write(folder / MARK, "")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Build the site and check its links."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", metavar="DIR", type=Path, default=HOUSE / "build/docs", help="the folder")
    options = parser.parse_args()
    count = build(options.out)
    faults = check_site(options.out)
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write(f"{options.out}/index.html: {count} pages, {len(faults)} broken links\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
