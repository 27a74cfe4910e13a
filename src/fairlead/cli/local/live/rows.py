"""The table of jobs in a frame: one line for each job, and only the columns that fit."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fairlead.cli.live.paint import Piece, Style, StyledLine, cells_of, pad
from fairlead.cli.local import cells
from fairlead.cli.local.live.context import FrameContext
from fairlead.cli.local.live.controls import Controls, selected_row
from fairlead.job import LocalJob, LocalState


class JobColumn(NamedTuple):
    """A column: its name, its text, the cells that it takes at most, and how early it is left out."""

    name: str
    text: Callable[[LocalJob, FrameContext], str]
    most: int
    rank: int
    """The column of the highest rank is left out first."""


COLUMNS: Final = (
    JobColumn("ID", lambda job, _: job.id, 10, 0),
    JobColumn("NAME", lambda job, _: job.name, 16, 2),
    JobColumn("USER", lambda job, _: job.user, 10, 9),
    JobColumn("STATE", lambda job, _: job.state.value, 9, 1),
    JobColumn("DEVICE", lambda job, context: cells.device_of(job, context.labels), 14, 6),
    JobColumn("GPU-MEM", lambda job, _: cells.gpu_memory_of(job), 13, 4),
    JobColumn("CPU", lambda job, _: cells.cpu_of(job), 9, 7),
    JobColumn("MEMORY", lambda job, _: cells.memory_of(job), 13, 8),
    JobColumn("TIME", lambda job, context: cells.short_duration(context.status.seconds(job)), 7, 5),
)
_WHY: Final = 20
"""Cells of the reason, below which a column is left out for it."""
_WHY_RANK: Final = 3
_TONES: Final = {
    LocalState.RUNNING: Style.GOOD,
    LocalState.QUEUED: Style.WARN,
    LocalState.FAILED: Style.BAD,
}


def job_lines(
    context: FrameContext, rows: Sequence[LocalJob], controls: Controls | None, most: int
) -> list[StyledLine]:
    """Return the table, at most so many lines; it scrolls so that the selected row is shown."""
    if most <= 0:
        return []
    if not rows:
        empty = "no jobs" if controls is None or not controls.filter else f"no job matches {controls.filter}"
        return [(Piece(empty, Style.DIM),)]
    selected = selected_row(rows, controls) if controls is not None else -1
    space = max(1, most - 1) if most > 1 else 1
    first = max(0, min(selected - space // 2, len(rows) - space)) if selected >= 0 else 0
    shown = rows[first : first + space]
    widths = _widths(context, shown)
    lines = [
        _line(context, job, widths, selected=first + index == selected) for index, job in enumerate(shown)
    ]
    head = " ".join(pad(name, width) for name, width in widths.items())
    return [(Piece(head, Style.HEAD),), *lines] if most > 1 else lines


def _widths(context: FrameContext, shown: Sequence[LocalJob]) -> dict[str, int]:
    """Return the widths of the columns that fit; the reason takes what is left."""
    natural = {
        column.name: min(
            column.most, max(len(column.name), *(cells_of(column.text(job, context)) for job in shown))
        )
        for column in COLUMNS
    }
    kept = sorted(COLUMNS, key=lambda column: column.rank)
    while len(kept) > 1:
        total = sum(natural[column.name] + 1 for column in kept)
        reason = _WHY if len(kept) > _WHY_RANK else 0
        if total + reason <= context.width + (0 if reason else 1):
            break
        kept.pop()
    names = {column.name for column in kept}
    widths = {column.name: natural[column.name] for column in COLUMNS if column.name in names}
    left = context.width - sum(width + 1 for width in widths.values())
    return widths | ({"WHY": left} if left >= len("WHY") else {})


def _line(context: FrameContext, job: LocalJob, widths: dict[str, int], *, selected: bool) -> StyledLine:
    texts = {column.name: column.text(job, context) for column in COLUMNS if column.name in widths}
    if "WHY" in widths:
        texts["WHY"] = cells.why(job, context.status)
    padded = {name: pad(text, widths[name], context.glyphs.more) for name, text in texts.items()}
    last = next(reversed(padded))
    padded[last] = padded[last] if selected else padded[last].rstrip()
    if selected:
        return (Piece(" ".join(padded.values()), Style.SELECTED),)
    pieces: list[Piece] = []
    for name, text in padded.items():
        style = _TONES.get(job.state, Style.PLAIN) if name == "STATE" else Style.PLAIN
        if name == "ID":
            style = context.styles.get(job.id, Style.PLAIN)
        pieces += [Piece(text, style), Piece(" ")]
    return tuple(pieces[:-1])
