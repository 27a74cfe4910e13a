"""Show a view on the terminal of this process, or print a frame where there is none."""

import os
import sys
from collections.abc import Iterable
from typing import Final

from fairlead.cli.live.escapes import encode_line, glyphs_for, has_cursor, plain
from fairlead.cli.live.loop import LiveLoop, LiveView
from fairlead.cli.live.paint import StyledLine
from fairlead.cli.live.terminal import LiveTerminal
from fairlead.cli.output.terminal import Screen
from fairlead.errors import SettingsError
from fairlead.units import parse_duration

_SHORTEST: Final = 0.5
_MONOCHROME: Final = ("vt1", "vt2", "ansi-m", "xterm-mono")


def parse_delay(text: str) -> float:
    """Return the seconds between two readings; SettingsError for a time that is none, or too short."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"--delay {text}: not a time between two readings", str(error)) from None
    if seconds < _SHORTEST:
        raise SettingsError(f"--delay {text}: the shortest is {_SHORTEST:g}s")
    return seconds


def is_live() -> bool:
    """Return whether the standard output is a terminal that can move its cursor."""
    return sys.stdout is not None and sys.stdout.isatty() and has_cursor(os.environ)


def print_lines(lines: Iterable[StyledLine], screen: Screen) -> None:
    """Print a frame as text."""
    glyphs = glyphs_for(os.environ)
    for line in lines:
        text = "".join(piece.text for piece in line)
        print(encode_line(line, glyphs, color=True) if screen.color else plain(text.rstrip(), glyphs))


def run_view(view: LiveView, period: float, color: str) -> int:
    """Show a view until it ends; return the exit code."""
    terminal = os.environ.get("TERM", "")
    colored = Screen.of(sys.stdout, os.environ, color).color
    if color == "auto" and terminal.startswith(_MONOCHROME):
        colored = False
    sys.stdout.flush()
    with LiveTerminal(sys.stdout.fileno(), _keys()) as screen:
        code = LiveLoop(screen, view, period, glyphs_for(os.environ), color=colored).run()
    if code:  # the terminal may be gone: even an empty write to it would fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _keys() -> int | None:
    """Return a handle to read keys from; None: the terminal cannot be read."""
    if sys.stdin is not None and sys.stdin.isatty():
        return sys.stdin.fileno()
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
