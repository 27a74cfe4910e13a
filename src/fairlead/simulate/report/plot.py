"""Draw figures over time as one self-contained SVG file, without a library or a background."""

from collections.abc import Iterable, Sequence
from html import escape
from math import floor, log10
from typing import Any, Final, NamedTuple

WIDTH: Final = 860
PANEL: Final = 170
"""Height of one panel, axes and title included."""
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 30, 34
COLOURS: Final = ("#3b82c4", "#d9822b", "#2f9e6e", "#c2508f", "#8a6fc9", "#a08a2b", "#4aa5b5", "#c2554f")
"""Readable on white and on black."""
DASHES: Final = ("", "6 3", "2 2", "8 3 2 3")
"""For readers who cannot distinguish the colours."""
_PANELS: Final = (
    ("Allocated accelerators, %", "allocated", "capacity"),
    ("Fragmented accelerators, %", "fragmented", "capacity"),
    ("Accelerators at work, %", "busy", "capacity"),
    ("Jobs that wait", "waiting", ""),
)
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#808080}.title{font-weight:600;font-size:13px}"
    ".grid{stroke:#808080;stroke-opacity:.25}.axis{stroke:#808080}.line{fill:none;stroke-width:1.6}"
)


class Panel(NamedTuple):
    """One panel: a line for each name, as its positions on the axis and its values there."""

    title: str
    positions: list[list[float]]
    values: list[list[float]]


def svg(document: dict[str, Any]) -> str:
    """Return a picture of a report: a panel for each gauge, a line for each policy."""
    policies: list[dict[str, Any]] = document["policies"]
    times = [[*policy["series"]["at_s"], policy["end_s"]] for policy in policies]
    panels = [
        Panel(title, times, [_values(policy["series"], name, base) for policy in policies])
        for title, name, base in _PANELS
    ]
    end = max((policy["end_s"] for policy in policies), default=0.0) or 1.0
    names = [policy["policy"] for policy in policies]
    return chart(
        document["trace"], names, panels, end, heading=f"{document['trace']}, seed {document['seed']}"
    )


def chart(
    title: str, names: Sequence[str], panels: Sequence[Panel], end: float, unit: str = "", heading: str = ""
) -> str:
    """Return a picture of panels with a common axis: of time in steps, or in a unit with straight lines."""
    legend = 46
    height = legend + PANEL * len(panels) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="18">{escape(heading or title)}</text>',
        *_legend(names),
    ]
    for index, panel in enumerate(panels):
        parts += _panel(legend + PANEL * index, panel, end, unit)
    return "\n".join([*parts, "</svg>", ""])


def _values(series: dict[str, list[float]], name: str, base: str) -> list[float]:
    if not base:
        return series[name]
    return [
        100 * value / whole if whole else 0.0 for value, whole in zip(series[name], series[base], strict=True)
    ]


def _legend(names: Sequence[str]) -> Iterable[str]:
    left = LEFT
    for index, name in enumerate(names):
        yield f'<line x1="{left}" y1="34" x2="{left + 24}" y2="34" class="line" {_pen(index)}/>'
        yield f'<text x="{left + 30}" y="38">{escape(name)}</text>'
        left += 48 + 7 * len(name)


def _pen(index: int) -> str:
    dash = DASHES[index % len(DASHES)]
    colour = COLOURS[index % len(COLOURS)]
    return f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _panel(top: int, panel: Panel, end: float, label: str) -> Iterable[str]:
    low, high = top + PANEL - BOTTOM, top + TOP
    peak = max((value for values in panel.values for value in values), default=0.0)
    ticks = nice(peak)
    yield f'<text class="title" x="{LEFT}" y="{top + 20}">{escape(panel.title)}</text>'
    for tick in ticks:
        y = _scaled(tick, ticks[-1], low, high)
        yield f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    yield f'<line class="axis" x1="{LEFT}" y1="{low}" x2="{WIDTH - RIGHT}" y2="{low}"/>'
    unit, seconds = (label, 1.0) if label else time_unit(end)
    for tick in nice(end / seconds):
        if tick * seconds <= end:
            x = _scaled(tick * seconds, end, LEFT, WIDTH - RIGHT)
            yield f'<text x="{x}" y="{low + 16}" text-anchor="middle">{tick:g} {unit}</text>'
    for index, (positions, values) in enumerate(zip(panel.positions, panel.values, strict=True)):
        heights = [_scaled(value, ticks[-1], low, high) for value in values]
        drawn = _joined(positions, heights, end) if label else _path(positions, heights, end)
        yield f'<path class="line" {_pen(index)} d="{drawn}"/>'


def _path(times: list[float], heights: list[float], end: float) -> str:
    """Return a line of steps: between two moments a gauge has one value."""
    steps = [
        f"{_scaled(time, end, LEFT, WIDTH - RIGHT)} {height}"
        for index, height in enumerate(heights)
        for time in times[index : index + 2]
    ]
    return f"M{'L'.join(steps)}" if steps else ""


def _joined(positions: list[float], heights: list[float], end: float) -> str:
    """Return straight lines between points."""
    points = [
        f"{_scaled(at, end, LEFT, WIDTH - RIGHT)} {height}"
        for at, height in zip(positions, heights, strict=True)
    ]
    return f"M{'L'.join(points)}" if points else ""


def _scaled(value: float, most: float, start: int, end: int) -> float:
    return round(start + (end - start) * value / most, 1) if most else float(start)


def nice(most: float) -> list[float]:
    """Return round numbers from 0 up to the least that is not below `most`, three to seven of them."""
    if not most > 0:
        return [0.0, 1.0]
    step = 10.0 ** floor(log10(most))
    step = next(step * part for part in (0.2, 0.5, 1.0, 2.0) if step * part * 6 >= most)
    ticks = [0.0]
    while ticks[-1] < most * (1 - 1e-9):
        ticks.append(round(len(ticks) * step, 10))
    return ticks


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the best unit for a time axis of this length, and its seconds."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 3 * length:
            return unit, length
    return "s", 1.0
