"""The top lines of a frame: cores, RAM and each accelerator, with bars that are split by job."""

from collections.abc import Callable
from typing import Final

from fairlead.cli.live.paint import Piece, Style, StyledLine, cells_of, clip, pad, printable
from fairlead.cli.local import cells
from fairlead.cli.local.live.bars import bar, parts_of
from fairlead.cli.local.live.context import FrameContext
from fairlead.job import JobUse
from fairlead.local.view import DeviceView
from fairlead.units import pluralize

_LABEL: Final = 12
"""Cells of the longest label in front of a bar."""
_FIGURE: Final = 10
"""Cells of the figures behind a bar of memory."""
_BETWEEN: Final = 6
"""Cells of the label between two bars."""
_WIDE: Final = 60
"""Columns from which two bars fit beside each other."""
_LEAST_BAR: Final = 8
Amount = Callable[[JobUse], float]


def machine_lines(context: FrameContext) -> list[StyledLine]:
    """Return the lines of cores and RAM."""
    view = context.status.view
    if view is None:
        return []
    used = view.cpu_used
    figure = f"{NO_FIGURE if used is None else cells.cores(used)}/{cells.cores(view.cpu)}"
    left = _bar_with(context, _jobs(context, lambda use: use.cpu), used or 0, view.cpu, figure)
    taken = max(0, view.memory - view.memory_available)
    figure = cells.used_of(taken, view.memory)
    right = _bar_with(context, _jobs(context, lambda use: use.memory), taken, view.memory, figure)
    label = _label_width(context)
    first = (Piece(pad("cpu", label), Style.HEAD), *left)
    if context.width >= _WIDE:
        return [(*first, Piece(" ram  ", Style.HEAD), *right)]
    return [first, (Piece(pad("ram", label), Style.HEAD), *right)]


def device_lines(context: FrameContext, most: int) -> list[StyledLine]:
    """Return the lines of accelerators, at most so many; the last one counts those that are left out."""
    devices = context.status.view.devices if context.status.view is not None else ()
    shown = devices if len(devices) <= most else devices[: max(0, most - 1)]
    lines = [_device_line(context, device) for device in shown]
    if len(shown) < len(devices) and most > 0:
        left = pluralize(len(devices) - len(shown), "more device")
        lines.append((Piece(f"{context.glyphs.more} {left}", Style.DIM),))
    return lines


def _device_line(context: FrameContext, device: DeviceView) -> StyledLine:
    key = device.accelerator.id
    head = Piece(pad(context.labels.get(key, key), _label_width(context), context.glyphs.more), Style.HEAD)
    if device.fault:
        return (head, Piece(f"[{printable(device.fault)}]", Style.BAD))
    memory = _memory_bar(context, device)
    if context.width < _WIDE:
        return (head, *memory)
    busy = _jobs(context, lambda use: use.gpu_busy.get(key, 0.0))
    figure = NO_FIGURE if device.busy is None else f"{device.busy:.0%}"
    return (
        head,
        *memory,
        Piece(" busy ", Style.HEAD),
        *_bar_with(context, busy, device.busy or 0.0, 1.0, figure),
    )


def _memory_bar(context: FrameContext, device: DeviceView) -> StyledLine:
    key, total = device.accelerator.id, device.accelerator.memory or 0
    held = _jobs(context, lambda use: use.gpu_memory.get(key, 0))
    figure = cells.used_of(device.memory_used, total) if total else NO_FIGURE
    return _bar_with(context, held, device.memory_used or 0, total, figure)


NO_FIGURE: Final = "-"


def _jobs(context: FrameContext, amount: Amount) -> list[tuple[str, float]]:
    return [(job.id, amount(job.measured)) for job in context.status.running if job.measured is not None]


def _bar_with(
    context: FrameContext, amounts: list[tuple[str, float]], used: float, total: float, figure: str
) -> StyledLine:
    """Return a bar and the figure behind it; a narrow screen shows the figure alone."""
    text = f" {pad(figure, max(_FIGURE, cells_of(figure)))}"
    bars = 2 if context.width >= _WIDE else 1
    width = (context.width - _label_width(context) - (_BETWEEN if bars > 1 else 0)) // bars - len(text)
    if width < _LEAST_BAR:
        return (Piece(clip(f" {figure}", context.width)),)
    return (*bar(parts_of(amounts, dict(context.styles)), used, total, width, context.glyphs), Piece(text))


def _label_width(context: FrameContext) -> int:
    longest = max(map(cells_of, context.labels.values()), default=0)
    return min(_LABEL, max(3, longest), max(3, context.width // 4)) + 1
