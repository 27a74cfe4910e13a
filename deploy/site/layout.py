"""The frame around a page: search, navigation, theme; no script or style stands in a page itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from deploy.site.markdown import Heading, inline
from deploy.site.pages import SECTIONS, SourcePage
from fairlead import __version__

_FRAME: Final = """\
<!doctype html>
<html lang="en" data-base="{base}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - fairlead</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{base}assets/site.css">
<script src="{base}assets/search.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the page</a>
<header>
<a class="name" href="{base}index.html">fairlead {version}</a>
<form role="search"><input id="search" type="search" placeholder="Search the documentation" \
aria-label="Search the documentation" autocomplete="off"></form>
<button id="theme" type="button" hidden>Theme</button>
</header>
<section class="found" aria-label="Found pages">
<p id="found" role="status"></p><ol id="results"></ol>
</section>
<div class="body">
<nav aria-label="Pages"><details id="pages" open><summary>All pages</summary>
{navigation}
</details></nav>
<main id="main">
{content}
</main>
</div>
<footer>fairlead {version}. These pages need no network.</footer>
</body>
</html>
"""
_MANY: Final = 3
"""Sections from which a page lists its own at its top."""


def page_html(
    page: SourcePage, content: str, headings: Sequence[Heading], pages: Iterable[SourcePage]
) -> str:
    """Return a whole page."""
    base = base_of(page.target)
    sections = [each for each in headings if each.level == 2]
    if len(sections) >= _MANY:
        items = "".join(f'<li><a href="#{each.anchor}">{inline(each.text)}</a></li>' for each in sections)
        here = f'<details class="here"><summary>On this page</summary><ul>{items}</ul></details>'
        head, mark, rest = content.partition("</h1>")
        content = f"{head}{mark}\n{here}{rest}" if mark else f"{here}{content}"
    return frame(page.target, page.title, content, navigation(page.target, pages, base))


def frame(target: str, title: str, content: str, navigation_html: str) -> str:
    """Return the frame with a content."""
    return _FRAME.format(
        base=base_of(target),
        title=inline(title),
        version=__version__,
        navigation=navigation_html,
        content=content,
    )


def base_of(target: str) -> str:
    """Return the way from a page to the top of the site."""
    return "../" * target.count("/")


def navigation(current: str, pages: Iterable[SourcePage], base: str) -> str:
    """Return the navigation; the section of the page is open."""
    parts = []
    own = current.partition("/")[0] if "/" in current else "tutorial"
    for section, listed in by_section(pages).items():
        items = "".join(_item(page, current, base) for page in listed)
        opened = " open" if section == own else ""
        parts.append(
            f"<details{opened}><summary>{inline(SECTIONS[section])}</summary><ul>{items}</ul></details>"
        )
    return "\n".join(parts)


def _item(page: SourcePage, current: str, base: str) -> str:
    mark = ' aria-current="page"' if page.target == current else ""
    return f'<li><a href="{base}{page.target}"{mark}>{inline(page.title)}</a></li>'


def by_section(pages: Iterable[SourcePage]) -> Mapping[str, list[SourcePage]]:
    """Return the pages by section; tutorials and decisions by their numbers, the rest by title."""
    found: dict[str, list[SourcePage]] = {section: [] for section in SECTIONS}
    for page in pages:
        found[page.section].append(page)
    for section, listed in found.items():
        numbered = section in ("tutorial", "decisions")
        listed.sort(key=lambda page: page.target if numbered else page.title.lower())
    return found


def start_page(pages: Sequence[SourcePage]) -> str:
    """Return the start page: what fairlead is, the ways in, and every page."""
    sections = by_section(pages)
    cards = "".join(
        f'<li><a href="{page.target}">{inline(page.title)}</a></li>' for page in sections["tutorial"]
    )
    lists = []
    for section, listed in sections.items():
        items = "".join(f'<li><a href="{page.target}">{inline(page.title)}</a></li>' for page in listed)
        lists.append(f'<h2 id="{section}">{inline(SECTIONS[section])}</h2>\n<ul>{items}</ul>')
    content = (
        "<h1>fairlead</h1>\n<p>Leads every neural network to the accelerator where it runs best: on any "
        "Kubernetes, and on one machine without a cluster.</p>\n<h2>The first hour</h2>\n"
        f'<ul class="cards">{cards}</ul>\n' + "\n".join(lists)
    )
    return frame("index.html", "Documentation", content, navigation("index.html", pages, ""))
