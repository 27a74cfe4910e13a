"""Draw the arrangements as bars, as one self-contained SVG file."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from fairlead.simulate.report.plot import COLOURS, nice

WIDTH: Final = 860
LEFT, RIGHT, TOP, ROW = 170, 60, 52, 20
GAP: Final = 40
_PANELS: Final = (
    ("Makespan, s", "makespan_s"),
    ("Mean pending, s", "pending_mean_s"),
    ("Query p99, ms", "query_p99_ms"),
    ("Most memory, MiB", "memory_max_mib"),
    ("Energy, J", "energy_j"),
)
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#808080}.title{font-weight:600;font-size:13px}"
    ".grid{stroke:#808080;stroke-opacity:.25}"
)


def svg(document: dict[str, Any]) -> str:
    """Return a picture: a panel for each figure, a bar for each arrangement; failures are named."""
    rows: list[dict[str, Any]] = document["arrangements"]
    panel = GAP + ROW * len(rows)
    machine = document["machine"]
    heading = f"{document['settings']['engines']} engines on one {machine['gpu'] or 'processor'}"
    box = f"0 0 {WIDTH} {TOP + panel * len(_PANELS)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img">',
        f"<title>{escape(heading)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="10" y="20">{escape(heading)}</text>',
    ]
    for index, (title, key) in enumerate(_PANELS):
        parts += _panel(TOP + panel * index, title, key, rows)
    return "\n".join([*parts, "</svg>", ""])


def _panel(top: int, title: str, key: str, rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    most = max((row[key] or 0.0 for row in rows), default=0.0)
    ticks = nice(most)
    scale = (WIDTH - LEFT - RIGHT) / ticks[-1]
    low = top + ROW * len(rows)
    yield f'<text class="title" x="10" y="{top - 8}">{escape(title)}</text>'
    for tick in ticks:
        x = round(LEFT + tick * scale, 1)
        yield f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{low}"/>'
        yield f'<text x="{x}" y="{low + 14}" text-anchor="middle">{tick:,g}</text>'
    for index, row in enumerate(rows):
        yield from _bar(top + ROW * index, row, row[key], scale)


def _figure(value: float) -> str:
    """Return a value with at most four digits, and no exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _bar(top: int, row: dict[str, Any], value: float | None, scale: float) -> Iterable[str]:
    colour = COLOURS[1] if row["limiter"] == "mps" else COLOURS[0]
    long = round((value or 0.0) * scale, 1)
    failed = f", {len(row['failures'])} failed" if row["failures"] else ""
    text = "not measured" if value is None else f"{_figure(value)}{failed}"
    name = f"{row['mode']}, {row['limiter']}"
    yield f'<text x="{LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>'
    yield f'<rect x="{LEFT}" y="{top + 3}" width="{long}" height="{ROW - 6}" fill="{colour}"/>'
    yield f'<text x="{LEFT + long + 6}" y="{top + 14}">{escape(text)}</text>'
