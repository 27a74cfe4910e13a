"""Bytes to and from a terminal: styled lines as escape sequences, only the rows that changed, keys; pure."""

import codecs
import re
from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.cli.live.keys import SpecialKey
from fairlead.cli.live.paint import ASCII, UNICODE, Glyphs, Style, StyledLine

ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The other screen, without a cursor, and no line is wrapped."""
LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[999;1H\r\n\x1b[?1049l"
"""What ENTER changed; a terminal with one screen gets a new line below the frame."""
_COLORS: Final = {
    Style.HEAD: "1",
    Style.DIM: "2",
    Style.GOOD: "32",
    Style.WARN: "33",
    Style.BAD: "31",
    Style.SELECTED: "7",
    Style.JOB_0: "36",
    Style.JOB_1: "35",
    Style.JOB_2: "33",
    Style.JOB_3: "32",
    Style.FREE: "2",
}
_MONOCHROME: Final = {
    Style.HEAD: "1",
    Style.BAD: "1",
    Style.SELECTED: "7",
    Style.JOB_0: "1",
    Style.JOB_2: "1",
}
_SEQUENCES: Final = {
    "[A": SpecialKey.UP,
    "OA": SpecialKey.UP,
    "[B": SpecialKey.DOWN,
    "OB": SpecialKey.DOWN,
    "[5~": SpecialKey.PAGE_UP,
    "[6~": SpecialKey.PAGE_DOWN,
    "[H": SpecialKey.HOME,
    "OH": SpecialKey.HOME,
    "[1~": SpecialKey.HOME,
    "[F": SpecialKey.END,
    "OF": SpecialKey.END,
    "[4~": SpecialKey.END,
}
_SEQUENCE: Final = re.compile(r"\x1b(\[[0-9;?<]*[@-~]|O[@-~])")
_BEGUN: Final = re.compile(r"\x1b(\[[0-9;?<]{0,16}|O)?\Z")
_CONTROLS: Final = {
    "\r": SpecialKey.ENTER,
    "\n": SpecialKey.ENTER,
    "\x7f": SpecialKey.BACKSPACE,
    "\b": SpecialKey.BACKSPACE,
}
_COERCED: Final = "C.UTF-8"
"""What Python itself sets where the locale is C (PEP 538); the terminal does not promise it."""


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """Return the characters that the user's locale can show."""
    names = (environ.get("LC_ALL"), environ.get("LC_CTYPE"), environ.get("LANG"))
    name = next((each for each in names if each and each != _COERCED), "")
    return UNICODE if "utf8" in name.lower().replace("-", "") else ASCII


def has_cursor(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal can move its cursor."""
    return environ.get("TERM", "") not in ("", "dumb", "unknown", "emacs")


def encode_line(line: StyledLine, glyphs: Glyphs, *, color: bool) -> str:
    """Return a line with its styles; characters that the locale cannot show are replaced."""
    codes = _COLORS if color else _MONOCHROME
    parts = []
    for piece in line:
        code = codes.get(piece.style)
        parts.append(f"\x1b[{code}m{piece.text}\x1b[0m" if code else piece.text)
    return plain("".join(parts), glyphs)


def plain(text: str, glyphs: Glyphs) -> str:
    """Return a text without the characters that the locale cannot show."""
    return text if glyphs is UNICODE else text.encode("ascii", "replace").decode("ascii")


def repaint(before: Sequence[str], after: Sequence[str]) -> str:
    """Return what turns one screen into another: only rows that differ are drawn again."""
    rows = []
    for number in range(max(len(before), len(after))):
        old = before[number] if number < len(before) else None
        new = after[number] if number < len(after) else ""
        if old != new:
            rows.append(f"\x1b[{number + 1};1H\x1b[K{new}")  # cleared first: the last column stays whole
    return "".join(rows)


class KeyDecoder:
    """Turns what a terminal sends into keys; a sequence may arrive in parts."""

    def __init__(self) -> None:
        self._pending = ""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def pending(self) -> bool:
        """Whether an escape sequence has begun: Esc itself, or the start of another key."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete."""
        text = self._pending + self._utf8.decode(data)
        self._pending = ""
        keys: list[str] = []
        while text:
            if text[0] != "\x1b":
                keys += [_CONTROLS.get(text[0], text[0])]
                text = text[1:]
            elif match := _SEQUENCE.match(text):
                keys += [_SEQUENCES[match[1]]] if match[1] in _SEQUENCES else []
                text = text[match.end() :]
            elif _BEGUN.match(text):
                self._pending, text = text, ""
            else:
                keys.append(SpecialKey.ESCAPE)
                text = text[1:]
        return keys

    def flush(self) -> list[str]:
        """Return Esc if nothing followed it."""
        keys: list[str] = [SpecialKey.ESCAPE] if self._pending else []
        self._pending = ""
        return keys
