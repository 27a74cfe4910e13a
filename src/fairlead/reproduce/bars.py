"""Draw bars with marks at published values, as one self-contained SVG picture."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final, NamedTuple

WIDTH: Final = 860
_LEFT, _RIGHT, _ROW, _GROUP = 230, 90, 20, 30
_COLOUR, _MARK = "#3b82c4", "#d9822b"
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#808080}.head{font-weight:600;font-size:13px}"
    ".rule{stroke:#808080;stroke-opacity:.25}"
)


class Bar(NamedTuple):
    """One value, and the published one beside it."""

    label: str
    value: float | None
    published: float | None = None


class BarGroup(NamedTuple):
    """Bars under one heading."""

    title: str
    bars: tuple[Bar, ...]


def bars(title: str, groups: Sequence[BarGroup], unit: str) -> str:
    """Return a picture with a logarithmic axis; a mark shows the published value."""
    low, high = _decades(value for group in groups for bar in group.bars for value in bar[1:])
    height = 60 + sum(_GROUP + _ROW * len(group.bars) for group in groups)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="head" x="10" y="18">{escape(title)}</text>',
        *_legend(),
        *_axis(low, high, height, unit),
    ]
    top = 36
    for group in groups:
        parts.append(f'<text class="head" x="10" y="{top + 18}">{escape(group.title)}</text>')
        top += _GROUP
        for bar in group.bars:
            parts += _bar(bar, top, low, high)
            top += _ROW
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: Iterable[float | None]) -> tuple[int, int]:
    known = [log10(value) for value in values if value is not None and value > 0] or [0.0]
    low = floor(min(known))
    return low, max(low + 1, ceil(max(known)))


def _legend() -> Iterator[str]:
    left = WIDTH - 260
    yield f'<rect x="{left}" y="8" width="24" height="10" fill="{_COLOUR}"/>'
    yield f'<text x="{left + 30}" y="18">here</text>'
    yield f'<line x1="{left + 90}" y1="5" x2="{left + 90}" y2="21" stroke="{_MARK}" stroke-width="3"/>'
    yield f'<text x="{left + 100}" y="18">published</text>'


def _axis(low: int, high: int, height: int, unit: str) -> Iterator[str]:
    for decade in range(low, high + 1):
        x = _place(10.0**decade, low, high)
        yield f'<line class="rule" x1="{x}" y1="36" x2="{x}" y2="{height - 20}"/>'
        label = f"{10.0**decade:g} {unit}"
        yield f'<text x="{x}" y="{height - 6}" text-anchor="middle">{escape(label)}</text>'


def _bar(bar: Bar, top: int, low: int, high: int) -> Iterator[str]:
    yield f'<text x="{_LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(bar.label)}</text>'
    end = float(_LEFT)
    if bar.value is not None and bar.value > 0:
        end = _place(bar.value, low, high)
        yield f'<rect x="{_LEFT}" y="{top + 3}" width="{end - _LEFT:.1f}" height="14" fill="{_COLOUR}"/>'
    if bar.published is not None and bar.published > 0:
        x = _place(bar.published, low, high)
        end = max(end, x)
        yield f'<line x1="{x}" y1="{top}" x2="{x}" y2="{top + 19}" stroke="{_MARK}" stroke-width="3"/>'
    text = "-" if bar.value is None else f"{bar.value:.3g}"
    text += "" if bar.published is None else f" ({bar.published:.3g})"
    yield f'<text x="{end + 6:.1f}" y="{top + 14}">{escape(text)}</text>'


def _place(value: float, low: int, high: int) -> float:
    return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * (log10(value) - low) / (high - low), 1)
