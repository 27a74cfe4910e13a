"""Read an agent's metrics page: Prometheus' text format, of the series of measured use only. Pure."""

import re
from typing import Final

from fairlead.usage.answer import SeriesLabels, to_number
from fairlead.usage.dialects import METRICS, DialectMetric

_FIELDS: Final = frozenset(("id", "namespace", "pod", "container", "pod_uid"))
_SIGN: Final = b"fairlead_build_info{"
"""A series that every page of an agent has."""
_LINE: Final = re.compile(
    rb"^(" + b"|".join(re.escape(name.encode()) for name in METRICS) + rb")([{ ].*)$", re.MULTILINE
)
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*)",?', re.ASCII)
_VALUE: Final = re.compile(r" (\S+)(?: (-?\d{1,18}))?", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", '"': '"', "\\": "\\"}

PageRow = tuple[DialectMetric, SeriesLabels, float]
"""A series of a page: its metric, its labels and its value."""


def read_page(body: bytes, node: str) -> list[PageRow] | str:
    """Return the series of the page of a node's agent, or what is wrong with it."""
    if _SIGN not in body:
        return "the page is not the metrics page of an agent"
    rows = []
    for line in _LINE.finditer(body):
        row = _row(METRICS[line[1].decode()], line[2], node)
        if row is None:
            return f"the page has a line that cannot be read: {line[0][:120].decode(errors='replace')!r}"
        rows.append(row)
    return rows


def _row(metric: DialectMetric, rest: bytes, node: str) -> PageRow | None:
    try:
        text = rest.decode()
    except UnicodeDecodeError:
        return None
    labels: dict[str, str] = {}
    end = 0
    if text.startswith("{"):
        end = 1
        while (label := _LABEL.match(text, end)) is not None:
            if label[1] in labels:
                return None
            labels[label[1]] = _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), label[2])
            end = label.end()
        if text[end : end + 1] != "}":
            return None
        end += 1
    value = _VALUE.fullmatch(text, end)
    if value is None:
        return None
    known = {name: content for name, content in labels.items() if name in _FIELDS}
    return metric, SeriesLabels(node=node, **known), to_number(value[1])
