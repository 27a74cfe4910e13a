"""Markdown to HTML: the door to markdown-it-py."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_WORD: Final = re.compile(r"[^\w\- ]")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_WRAPPED: Final = '<div class="table" role="region" aria-label="Table" tabindex="0"><table>'


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a page, and the name by which links find it."""

    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as HTML, with what the index and the link check need of it."""

    html: str
    headings: tuple[Heading, ...]
    text: str
    """The words of the page, without marks."""


def render(text: str, link: Callable[[str], str]) -> RenderedPage:
    """Return a page as HTML; `link` turns each of its links into one on the site."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tokens = parser.parse(_COMMENT.sub("", text))
    headings = _anchor_headings(tokens)
    for token in tokens:
        for child in token.children or ():
            for name in ("href", "src"):
                value = child.attrGet(name)
                if isinstance(value, str):
                    child.attrSet(name, link(value))
    html = parser.renderer.render(tokens, parser.options, {})
    html = html.replace("<table>", _WRAPPED).replace("</table>", "</table></div>")
    html = html.replace("<pre>", '<pre tabindex="0">').replace("<th></th>", "<td></td>")
    return RenderedPage(html, tuple(headings), " ".join(_words(tokens)))


def slug(text: str, taken: set[str]) -> str:
    """Return the anchor of a heading, as code hosts make it."""
    base = _WORD.sub("", text.lower()).replace(" ", "-")
    anchor, count = base, 0
    while anchor in taken:
        count += 1
        anchor = f"{base}-{count}"
    taken.add(anchor)
    return anchor


def inline(text: str) -> str:
    """Return a text as HTML."""
    return escape(text, quote=True)


def _anchor_headings(tokens: list[Token]) -> list[Heading]:
    headings, taken = [], set[str]()
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            text = "".join(each.content for each in content.children or ())
            anchor = slug(text, taken)
            token.attrSet("id", anchor)
            headings.append(Heading(int(token.tag[1]), anchor, text))
    return headings


def _words(tokens: list[Token]) -> list[str]:
    words = []
    for token in tokens:
        if token.type in ("fence", "code_block"):
            words.append(token.content)
        words += [child.content for child in token.children or () if child.content]
    return words
