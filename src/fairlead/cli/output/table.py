"""Tables for people: unwrapped columns for a pipe, columns fitted to the width for a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from fairlead.compat import StrEnum

_GAP: Final = 2
_LONGEST_WORD: Final = 32
"""Characters of a word that a narrow column keeps in one piece."""
_SHORTEST_PATH: Final = 16
_SHORTEST_PROSE: Final = 30


class Tone(StrEnum):
    """What a colour means; the text says the same without it."""

    HEAD = "head"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


class Fit(StrEnum):
    """How the cells of a column fit a terminal that is too narrow for them."""

    KEEP = "keep"
    WRAP = "wrap"
    MIDDLE = "middle"
    """Shorten in the middle: the start and the end of a path say most."""
    PROSE = "prose"
    """Wrap; below the row, if less than 30 characters are left beside the other columns."""


class Cell(NamedTuple):
    """The text of a cell, the number it stands for (for sorting), and its tone."""

    text: str
    value: float | None = None
    tone: Tone | None = None

    def __str__(self) -> str:
        return self.text


class Column(NamedTuple):
    """A column: its name, how it fits a terminal, and which outputs show it."""

    name: str
    fit: Fit = Fit.WRAP
    wide: bool = False
    """Shown by `-o wide` alone."""
    identity: bool = False
    """What `-o name` prints; the first column where none says so."""


class Span(NamedTuple):
    """A piece of a line, with its tone."""

    text: str
    tone: Tone | None = None


Line = tuple[Span, ...]
Row = Sequence[Any]


class Table(NamedTuple):
    """Rows under the names of their columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    headers: bool = True
    indent: int = 0

    @classmethod
    def of(cls, head: Sequence["str | Column"], rows: Iterable[Row], *, headers: bool = True) -> "Table":
        """Return a table; a plain name makes a column, and the first column is never wrapped."""
        columns = [each if isinstance(each, Column) else Column(each) for each in head]
        if columns and not isinstance(head[0], Column):
            columns[0] = Column(columns[0].name, Fit.KEEP)
        cells = tuple(tuple(_cell(each) for each in row) for row in rows)
        return cls(tuple(columns), cells, headers)

    def lines(self, width: int | None = None) -> list[Line]:
        """Return the lines; without a width every row is one line."""
        lines = self._lines(None if width is None else max(1, width - self.indent))
        return [(Span(" " * self.indent), *line) for line in lines] if self.indent else lines

    def _lines(self, width: int | None) -> list[Line]:
        widths = self._natural_widths()
        if width is not None and _total_width(widths) > width:
            fitted = self._fit_widths(widths, width)
            if fitted is None:
                return self._below(width) or list(self._records(width))
            widths = fitted
        return [line for row in self._all_rows() for line in self._row(row, widths)]

    def _natural_widths(self) -> list[int]:
        return [max(map(len, self._texts(index)), default=0) for index in range(len(self.columns))]

    def _texts(self, index: int) -> list[str]:
        # Headers count even if they are not printed: columns keep their positions.
        return [self.columns[index].name, *(row[index].text for row in self.rows)]

    def _fit_widths(self, natural: list[int], width: int) -> list[int] | None:
        """Return widths that fit, the widest columns narrowed first; None if not even single words fit."""
        least = [min(self._least_width(index), natural[index]) for index in range(len(natural))]
        if _total_width(least) > width:
            return None
        limit = max(natural)
        while _total_width(_limit_widths(natural, least, limit)) > width:
            limit -= 1
        widths = _limit_widths(natural, least, limit)
        for index, most in enumerate(natural):
            widths[index] += min(most - widths[index], width - _total_width(widths))
        return widths

    def _least_width(self, index: int) -> int:
        fit, texts = self.columns[index].fit, self._texts(index)
        if fit is Fit.KEEP:
            return max(map(len, texts))
        if fit is Fit.PROSE:
            return _SHORTEST_PROSE
        if fit is Fit.MIDDLE:
            return max(_SHORTEST_PATH, len(self.columns[index].name))
        return min(_LONGEST_WORD, max((_longest_word(text) for text in texts), default=0))

    def _row(self, row: Sequence[Cell], widths: list[int]) -> Iterable[Line]:
        columns = [_cell_lines(*each) for each in zip(row, self.columns, widths, strict=True)]
        for number in range(max(map(len, columns), default=0)):
            texts = [lines[number] if number < len(lines) else "" for lines in columns]
            yield _align(texts, row, widths)

    def _below(self, width: int) -> list[Line]:
        """Return the lines with prose below its row; none if that does not fit, or no column is prose."""
        prose = [index for index, each in enumerate(self.columns) if each.fit is Fit.PROSE]
        if not prose:
            return []
        columns = tuple(each for index, each in enumerate(self.columns) if index != prose[0])
        rows = tuple(row[: prose[0]] + row[prose[0] + 1 :] for row in self.rows)
        rest = Table(columns, rows, self.headers)
        widths = rest._natural_widths()
        fitted = widths if _total_width(widths) <= width else rest._fit_widths(widths, width)
        if fitted is None:
            return []
        head = Cell(self.columns[prose[0]].name, tone=Tone.HEAD)
        texts = [*([head] if self.headers else []), *(row[prose[0]] for row in self.rows)]
        shown = rest._all_rows()
        return [
            line
            for row, text in zip(shown, texts, strict=True)
            for line in (*rest._row(row, fitted), *_prose(text, width))
        ]

    def _all_rows(self) -> tuple[tuple[Cell, ...], ...]:
        head = tuple(Cell(each.name, tone=Tone.HEAD) for each in self.columns)
        return (head, *self.rows) if self.headers else self.rows

    def _records(self, width: int) -> Iterable[Line]:
        """Yield each row as its first cell, with names and values below: words do not fit side by side."""
        for row in self.rows:
            if row[0].text:
                yield from ((Span(text, Tone.HEAD),) for text in wrap_text(row[0].text, width))
            line: list[Span] = []
            for column, cell in zip(self.columns[1:], row[1:], strict=True):
                label = f"{column.name} " if column.name else ""
                pair = len(label) + len(cell.text.strip()) + _GAP
                if line and sum(len(span.text) for span in line) + pair > width:
                    yield tuple(line)
                    line = []
                if cell.text.strip():
                    texts = wrap_text(f"  {label}{cell.text.strip()}", width, _GAP)
                    line.append(Span(f"  {label}"))
                    line.append(Span(texts[0][len(label) + _GAP :], cell.tone))
                    for text in texts[1:]:
                        yield tuple(line)
                        line = [Span(text, cell.tone)]
            if line:
                yield tuple(line)


def _prose(cell: Cell, width: int) -> Iterable[Line]:
    for text in wrap_text(f"  {cell.text.strip()}", width) if cell.text.strip(" -") else ():
        yield (Span("  "), Span(text.strip(), cell.tone))


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Cell) else Cell(str(value))


def _total_width(widths: list[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _limit_widths(natural: list[int], least: list[int], limit: int) -> list[int]:
    return [max(low, min(most, limit)) for most, low in zip(natural, least, strict=True)]


def _longest_word(text: str) -> int:
    """Return the length of the longest word, plus the text's indent."""
    indent = len(text) - len(text.lstrip())
    return indent + max(map(len, text.split()), default=0)


def _cell_lines(cell: Cell, column: Column, width: int) -> list[str]:
    if len(cell.text) <= width:
        return [cell.text]
    return [shorten_middle(cell.text, width)] if column.fit is Fit.MIDDLE else wrap_text(cell.text, width)


def _align(texts: list[str], row: Sequence[Cell], widths: list[int]) -> Line:
    last = max((index for index, text in enumerate(texts) if text.strip()), default=-1)
    spans: list[Span] = []
    for index in range(last + 1):
        text = texts[index].rstrip() if index == last else texts[index]
        spans.append(Span(text, row[index].tone))
        if index < last:
            spans.append(Span(" " * (widths[index] - len(text) + _GAP)))
    return tuple(spans)


def wrap_text(text: str, width: int, hanging: int = 0) -> list[str]:
    """Wrap a text; its indent is kept, and further lines are indented by `hanging` more."""
    if len(text) <= width:
        return [text] if text else []
    from textwrap import wrap  # most output is not wrapped, and commands should start fast

    lead = " " * min(len(text) - len(text.lstrip()) + hanging, width // 2)
    return wrap(text, max(1, width), subsequent_indent=lead, break_on_hyphens=False)


def shorten_middle(text: str, width: int) -> str:
    """Return a text without its middle: `/home/me/.ca…/bin/kubectl`."""
    if len(text) <= width:
        return text
    tail = (2 * (width - 1)) // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:] if tail else ''}"
