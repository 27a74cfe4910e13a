"""Output for people: wrapped and coloured on a terminal, plain and unwrapped everywhere else."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TextIO

from fairlead.cli.output.table import Line, Span, Table, Tone, wrap_text

COLORS: Final = ("auto", "always", "never")
_DEFAULT_WIDTH: Final = 80
_CODES: Final = {Tone.HEAD: "1", Tone.GOOD: "32", Tone.WARN: "33", Tone.BAD: "31"}


class Screen(NamedTuple):
    """The output device: its width, and whether it shows colours."""

    width: int | None = None
    """None: no terminal; nothing is wrapped or shortened, because programs read the output."""
    color: bool = False

    @classmethod
    def of(cls, stream: TextIO | None, environ: Mapping[str, str], color: str = "auto") -> "Screen":
        """Return the screen of a stream (None: closed); `--color`, NO_COLOR and TERM decide about colour."""
        terminal = stream is not None and stream.isatty()
        usual = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return cls(
            _width(stream, environ) if stream is not None and terminal else None,
            usual if color == "auto" else color == "always",
        )

    def render(self, lines: Iterable[Line]) -> str:
        """Return lines as they are written to this screen."""
        return "\n".join("".join(self._paint(span) for span in line) for line in lines)

    def _paint(self, span: Span) -> str:
        if not self.color or span.tone is None or not span.text:
            return span.text
        return f"\033[{_CODES[span.tone]}m{span.text}\033[0m"


PIPE: Final = Screen()


class Text(NamedTuple):
    """A line of prose; on a terminal its further lines are indented by `hanging`."""

    text: str
    tone: Tone | None = None
    hanging: int = 2

    def lines(self, width: int | None = None) -> list[Line]:
        """Return the lines of it."""
        if width is None or len(self.text) <= width:
            return [(Span(self.text, self.tone),)]
        return [(Span(line, self.tone),) for line in wrap_text(self.text, width, self.hanging)]


class Reasons(NamedTuple):
    """A sentence with its reasons: one line for programs; on a narrow terminal, one line per reason."""

    sentence: str
    head: str
    items: tuple[str, ...]
    tone: Tone | None = Tone.BAD

    def lines(self, width: int | None = None) -> list[Line]:
        """Return the lines of it."""
        if width is None or len(self.sentence) <= width:
            return Text(self.sentence, self.tone).lines(width)
        below = [line for item in self.items for line in Text(f"  {item}").lines(width)]
        return [*Text(self.head, self.tone).lines(width), *below]


Block = Table | Text | Reasons


class Page(NamedTuple):
    """Tables and prose, one below the other."""

    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, *parts: "Block | Page | str | Iterable[Block | str]") -> "Page":
        """Return a page of blocks, other pages, and plain lines."""
        return cls(tuple(block for part in parts for block in _blocks(part)))

    def render(self, screen: Screen = PIPE) -> str:
        """Return the page as it is printed on a screen."""
        return screen.render(line for block in self.blocks for line in block.lines(screen.width))

    def __str__(self) -> str:
        return self.render()


def _blocks(part: "Block | Page | str | Iterable[Block | str]") -> Iterable[Block]:
    if isinstance(part, str):
        yield from (Text(line) for line in part.split("\n"))
    elif isinstance(part, Page):
        yield from part.blocks
    elif isinstance(part, Table | Text | Reasons):
        yield part
    else:
        for each in part:
            yield from _blocks(each)


def show_page(page: Page, color: str = "auto") -> None:
    """Print a page on the standard output, fitted to its width and colours."""
    print(page.render(Screen.of(sys.stdout, os.environ, color)), flush=True)


def show_error(text: str) -> None:
    """Print lines on the standard error, wrapped on a terminal."""
    if sys.stderr is None:  # closed: print would write to the standard output instead
        return
    print(Page.of(text).render(Screen.of(sys.stderr, os.environ, "never")), file=sys.stderr)


def _width(stream: TextIO, environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH
