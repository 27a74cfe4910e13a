"""Escape sequences: what is written gives the screen that was meant, and every key is understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.live.escapes import (
    ENTER,
    LEAVE,
    KeyDecoder,
    encode_line,
    glyphs_for,
    has_cursor,
    repaint,
)
from fairlead.cli.live.keys import SpecialKey
from fairlead.cli.live.paint import ASCII, UNICODE, Piece, Style
from tests.cli.local.small_screen import SmallScreen

ROWS = st.lists(st.text("ab ", max_size=12), max_size=5)


@given(before=ROWS, after=ROWS)
def test_only_changed_rows_are_drawn_and_the_screen_is_right(before: list[str], after: list[str]) -> None:
    screen = SmallScreen(5, 12)
    screen.feed(repaint([], before))
    update = repaint(before, after)
    screen.feed(update)
    assert screen.text() == [*(row.rstrip() for row in after), *[""] * (5 - len(after))]
    longest = max(len(before), len(after))
    drawn = zip([*before, *[None] * 5][:longest], [*after, *[""] * 5][:longest], strict=True)
    assert update.count("\x1b[K") == sum(old != new for old, new in drawn)


def test_leaving_undoes_entering() -> None:
    screen = SmallScreen(5, 12)
    modes = set(screen.modes)
    screen.feed(ENTER)
    assert screen.modes == {"?1049"}
    screen.feed(LEAVE)
    assert screen.modes == modes


def test_styles_and_characters_follow_the_terminal() -> None:
    line = (Piece("é", Style.BAD), Piece("x"))
    assert encode_line(line, UNICODE, color=True) == "\x1b[31mé\x1b[0mx"
    assert encode_line(line, ASCII, color=False) == "\x1b[1m?\x1b[0mx"
    assert encode_line((Piece("x", Style.GOOD),), ASCII, color=False) == "x"


@pytest.mark.parametrize(
    ("environ", "unicode"),
    [
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "de_DE.utf8", "LC_ALL": "C"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "en_US.UTF-8"}, True),
        ({}, False),
    ],
)
def test_bars_follow_the_locale(environ: dict[str, str], unicode: bool) -> None:
    assert (glyphs_for(environ) is UNICODE) is unicode


def test_a_terminal_without_a_cursor_is_known() -> None:
    assert [has_cursor({"TERM": name}) for name in ("xterm", "vt100", "dumb", "")] == [
        True,
        True,
        False,
        False,
    ]


KEYS = {
    b"\x1b[A": SpecialKey.UP,
    b"\x1bOB": SpecialKey.DOWN,
    b"\x1b[5~": SpecialKey.PAGE_UP,
    b"\x1b[6~": SpecialKey.PAGE_DOWN,
    b"\x1b[H": SpecialKey.HOME,
    b"\x1b[4~": SpecialKey.END,
    b"\r": SpecialKey.ENTER,
    b"\x7f": SpecialKey.BACKSPACE,
    b"q": "q",
    "ü".encode(): "ü",
}


@given(st.lists(st.sampled_from(sorted(KEYS)), max_size=6), st.data())
def test_keys_are_understood_however_they_arrive(keys: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(keys)
    decoder, found = KeyDecoder(), list[str]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += decoder.feed(stream[:size])
        stream = stream[size:]
    assert found == [KEYS[key] for key in keys]
    assert not decoder.pending


def test_escape_alone_waits_for_its_rest() -> None:
    decoder = KeyDecoder()
    assert (decoder.feed(b"\x1b"), decoder.pending, decoder.flush()) == ([], True, [SpecialKey.ESCAPE])
    assert decoder.feed(b"\x1bq") == [SpecialKey.ESCAPE, "q"]
    assert decoder.feed(b"\x1b[200~x\xff") == ["x", "\ufffd"]
