"""Bars: how much of an amount each job uses, what others use, and what is free."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead.cli.live.paint import JOB_STYLES, Glyphs, Piece, Style, StyledLine, clip

_LEAST: Final = 3
"""Cells of a bar between its brackets; a narrower one says nothing."""


class Part(NamedTuple):
    """What one job uses of an amount."""

    label: str
    amount: float
    style: Style = Style.JOB_0


def parts_of(amounts: Sequence[tuple[str, float]], styles: dict[str, Style]) -> tuple[Part, ...]:
    """Return the parts of jobs, by their ids; neighbours differ in style, and a job keeps its own."""
    return tuple(
        Part(job, amount, styles.get(job, JOB_STYLES[index % len(JOB_STYLES)]))
        for index, (job, amount) in enumerate(amounts)
        if amount > 0
    )


def bar(parts: Sequence[Part], used: float, total: float, width: int, glyphs: Glyphs) -> StyledLine:
    """Return a bar of `width` cells: the jobs, then other use, then what is free.

    `used` is what everything together uses; jobs are measured by their own runners, so their sum may exceed
    it for a moment: then the larger of the two counts.
    """
    inner = width - 2
    if inner < _LEAST:
        return ()
    sums = [0.0]
    for part in parts:
        sums.append(sums[-1] + part.amount)
    used = max(used, sums[-1])
    scale = inner / max(total, used, 1e-9)
    ends = [round(amount * scale) for amount in sums]
    pieces = [Piece("[")]
    for part, begin, end in zip(parts, ends[:-1], ends[1:], strict=True):
        text = clip(f"{part.label}", end - begin) if end - begin >= len(part.label) else ""
        pieces.append(Piece(text + glyphs.full * (end - begin - len(text)), part.style))
    last = max(ends[-1], min(inner, round(used * scale)))
    pieces.append(Piece(glyphs.other * (last - ends[-1]), Style.OTHER))
    pieces.append(Piece(glyphs.free * (inner - last), Style.FREE))
    return (*(piece for piece in pieces if piece.text), Piece("]"))
