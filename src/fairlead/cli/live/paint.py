"""Text with styles: the pieces of a line, cut and padded to a width in terminal cells."""

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from fairlead.compat import StrEnum


class Style(StrEnum):
    """What a piece of text means; every style is readable without colours."""

    PLAIN = "plain"
    HEAD = "head"
    DIM = "dim"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    SELECTED = "selected"
    JOB_0 = "job-0"
    JOB_1 = "job-1"
    JOB_2 = "job-2"
    JOB_3 = "job-3"
    OTHER = "other"
    FREE = "free"


JOB_STYLES = (Style.JOB_0, Style.JOB_1, Style.JOB_2, Style.JOB_3)
"""Jobs that lie side by side in a bar have different ones."""


class Piece(NamedTuple):
    """A piece of a line, with its style."""

    text: str
    style: Style = Style.PLAIN


StyledLine = tuple[Piece, ...]


class Glyphs(NamedTuple):
    """The characters that bars and marks are made of."""

    full: str
    other: str
    free: str
    more: str
    """Stands for what was cut."""


UNICODE = Glyphs("\u2588", "\u2592", "\u2591", "\u2026")
ASCII = Glyphs("=", "#", ".", "~")


def printable(text: str) -> str:
    """Return a text of another user's record without characters that would change the terminal."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def cells_of(text: str) -> int:
    """Return the terminal cells that a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int, more: str = "") -> str:
    """Return a printable text that takes at most `width` cells; `more` ends a text that was cut."""
    text = printable(text)
    if cells_of(text) <= width:
        return text
    kept, left = "", width - len(more)
    for char in text:
        left -= _cells(char)
        if left < 0:
            break
        kept += char
    return (kept + more)[: max(0, width)] if width <= len(more) else kept + more


def pad(text: str, width: int, more: str = "") -> str:
    """Return a text that takes exactly `width` cells."""
    text = clip(text, width, more)
    return text + " " * (width - cells_of(text))


def clip_line(line: Iterable[Piece], width: int, more: str = "") -> StyledLine:
    """Return a line that takes at most `width` cells."""
    kept: list[Piece] = []
    for piece in line:
        if width <= 0:
            break
        text = clip(piece.text, width, more)
        kept += [Piece(text, piece.style)] if text else []
        width -= cells_of(text)
    return tuple(kept)
