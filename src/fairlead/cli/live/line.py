"""One line of a terminal that is updated: erased and drawn again, and never wrapped."""

import os
from contextlib import suppress
from typing import Final, TextIO

_CLEAR: Final = "\r\033[K"
_WIDTH: Final = 80


class UpdatedLine:
    """The last line of a stream. A terminal that is gone never fails it."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._drawn = False
        self.is_live = _in_foreground(stream)
        """Whether the stream is a terminal whose foreground process group is ours."""

    @property
    def width(self) -> int:
        """The cells of a line; one that takes all of them would wrap."""
        with suppress(OSError, ValueError, AttributeError):
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH  # type: ignore[union-attr]  # suppressed
        return _WIDTH

    def draw(self, text: str) -> None:
        """Show a text that is shorter than the width, in the place of the last one."""
        self._drawn = True
        self.write(f"{_CLEAR}{text}")

    def clear(self) -> None:
        """Erase the line."""
        if self._drawn:
            self._drawn = False
            self.write(_CLEAR)

    def write(self, text: str) -> None:
        """Write a text as it is."""
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()


def _in_foreground(stream: TextIO | None) -> bool:
    if stream is None or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    try:
        return os.isatty(stream.fileno()) and os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
