"""The frame of `top`: lines of styled text for a terminal of any size; pure."""

from dataclasses import replace
from typing import Final

from fairlead.cli.live.paint import (
    JOB_STYLES,
    UNICODE,
    Glyphs,
    Piece,
    Style,
    StyledLine,
    clip_line,
    printable,
)
from fairlead.cli.live.terminal import Size
from fairlead.cli.local import cells
from fairlead.cli.local.live.context import FrameContext
from fairlead.cli.local.live.controls import Controls, rows_of, selected_row
from fairlead.cli.local.live.devices import device_lines, machine_lines
from fairlead.cli.local.live.rows import job_lines
from fairlead.cli.output.table import wrap_text
from fairlead.job import LocalJob
from fairlead.local.status import LocalStatus, device_labels
from fairlead.units import pluralize

HELP: Final = (
    ("up, down, j, k", "select a job"),
    ("s", "sort by the next key: arrival, gpu-mem, cpu, memory, time, name"),
    ("/", "filter by id, name, user, state or device; Enter keeps it, Esc clears it"),
    ("c", "cancel the selected job, if it is yours; asks first"),
    ("p", "pause, or go on"),
    ("h", "this help; any key closes it"),
    ("q", "quit"),
)
"""Each key, and what it does."""
_KEYS: Final = "q quit  s sort  / filter  c cancel  p pause  h help"
_LEAST_TABLE: Final = 4
"""Rows of the terminal that the devices leave for the jobs."""
_DETAIL: Final = 2
"""Lines of the selected job's reason."""
_PIPE_BARS: Final = 80
_PIPE_TABLE: Final = 100_000
_DETAIL_FROM: Final = 14
"""Rows of a terminal that has space for them."""


def frame(
    status: LocalStatus, size: Size, controls: Controls, glyphs: Glyphs = UNICODE
) -> tuple[StyledLine, ...]:
    """Return the lines of one frame: at most `size.rows`, each at most `size.columns` cells wide."""
    rows = rows_of(status, controls)
    styles = {job.id: JOB_STYLES[index % len(JOB_STYLES)] for index, job in enumerate(status.running)}
    context = FrameContext(status, size.columns, glyphs, device_labels(status.view), styles)
    foot = _foot(context, controls, rows, size)
    if controls.help:
        body = _help_lines()
    else:
        head = [_title(context, controls), *machine_lines(context)]
        space = size.rows - len(head) - len(foot) - _LEAST_TABLE
        head += device_lines(context, max(0, min(space, size.rows // 3)))
        body = [*head, *job_lines(context, rows, controls, max(0, size.rows - len(head) - len(foot)))]
        body += _foreign_lines(context)
    space = max(0, size.rows - len(foot))
    body = [*body[:space], *([()] * (space - len(body)))]
    lines = [*body, *foot][-max(0, size.rows) :] if size.rows > 0 else []
    return tuple(clip_line(line, size.columns, glyphs.more) for line in lines)


def text_frame(status: LocalStatus, width: int | None, glyphs: Glyphs) -> list[StyledLine]:
    """Return everything in one page, without keys: for a pipe, `--once`, or a terminal without a cursor.

    Without a width, as in a pipe, no line is cut.
    """
    context = FrameContext(status, width or _PIPE_BARS, glyphs, device_labels(status.view), {})
    controls = Controls()
    rows = rows_of(status, controls)
    devices = len(status.view.devices) if status.view is not None else 0
    body = [_title(context, controls), *machine_lines(context), *device_lines(context, devices)]
    table = context if width is not None else replace(context, width=_PIPE_TABLE)
    body += job_lines(table, rows, None, len(rows) + 2)
    body += [*_foreign_lines(context), *((Piece(text, Style.WARN),) for text in status.warnings)]
    return [clip_line(line, width or _PIPE_TABLE, glyphs.more) for line in body]


def _title(context: FrameContext, controls: Controls) -> StyledLine:
    status = context.status
    counts = f"{len(status.running)} running, {len(status.queued)} queued"
    pieces = [Piece("fairlead top", Style.HEAD), Piece(f"  {counts}")]
    if status.foreign:
        pieces.append(Piece(f", {pluralize(len(status.foreign), 'GPU process', 'GPU processes')} of others"))
    if controls.sort != next(iter(type(controls.sort))):
        pieces.append(Piece(f"  by {controls.sort.value}", Style.HEAD))
    if controls.filter and not controls.typing:
        pieces.append(Piece(f"  /{controls.filter}", Style.HEAD))
    return (*pieces, *([Piece("  PAUSED", Style.WARN)] if controls.paused else []))


def _foreign_lines(context: FrameContext) -> list[StyledLine]:
    """Return a line for each GPU process of others; what does not fit below the jobs is cut."""
    texts = (cells.foreign_text(process, context.labels) for process in context.status.foreign)
    return [(Piece(text, Style.WARN),) for text in texts]


def _foot(
    context: FrameContext, controls: Controls, rows: tuple[LocalJob, ...], size: Size
) -> list[StyledLine]:
    """Return the last lines: the selected job's reason, and what the keys do or ask."""
    index = selected_row(rows, controls)
    detail: list[StyledLine] = []
    if size.rows >= _DETAIL_FROM and not controls.help:
        text = _detail(rows[index], context.status) if index >= 0 else ""
        detail = [(Piece(line, Style.DIM),) for line in wrap_text(text, max(1, size.columns))[:_DETAIL]]
        detail += [()] * (_DETAIL - len(detail))
    return [*detail, (_prompt(context.status, controls),)]


def _detail(job: LocalJob, status: LocalStatus) -> str:
    reason = cells.why(job, status)
    source = printable(job.assumed.source)
    text = reason or (f"its size: {source}" if source else "")  # as `submit` writes it
    return f"{job.id} {printable(job.name)}: {text}" if text else ""


def _prompt(status: LocalStatus, controls: Controls) -> Piece:
    if controls.asking:
        return Piece(f"cancel job {controls.asking}? y/n", Style.WARN)
    if controls.typing:
        return Piece(f"/{controls.filter}_", Style.HEAD)
    if controls.message:
        return Piece(controls.message, Style.WARN)
    if status.warnings:
        return Piece(status.warnings[0], Style.WARN)
    return Piece(_KEYS, Style.DIM)


def _help_lines() -> list[StyledLine]:
    return [
        (Piece("fairlead top: keys", Style.HEAD),),
        (),
        *((Piece(f"  {key:15}", Style.HEAD), Piece(text)) for key, text in HELP),
    ]
