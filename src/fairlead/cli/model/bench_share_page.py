"""The document of `fairlead bench share` as tables for people."""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page

_NONE: Final = "-"
_HEAD: Final = (
    Column("MODE", Fit.KEEP),
    "LIMITER",
    "MAKESPAN",
    "EXCLUSIVE/",
    "BEST FIXED/",
    "AT ONCE",
    "PENDING",
    "WORST",
    "P50",
    "P99",
    "MEMORY",
    "MOST",
    "UTIL",
    "POWER",
    "ENERGY",
    "FAILED",
    "SAME OUTPUT",
    "SLOWDOWN",
    "PREDICTED",
    "WITHIN",
)


def page(document: dict[str, Any]) -> Page:
    """Return the result as a page for people."""
    machine, settings = document["machine"], document["settings"]
    gpu = f"{machine['gpu']} ({machine['memory_mib']} MiB, driver {machine['driver']})"
    where = gpu if machine["gpu"] else "the processor"
    load = f"{settings['engines']} engines, {settings['queries']} queries each"
    title = f"{load}, on {where}, {machine['cores']} cores"
    parts: list[Any] = [title, "", _solo(document["solo"])]
    if rows := document["arrangements"]:
        parts += ["", Table.of(_HEAD, [_row(row) for row in rows]), "", _networks(rows)]
        parts += _rounds(rows) + _failures(rows)
    parts += _enforcement(document.get("enforcement", {}))
    return Page.of(*parts, "", f"repeat: {document['command']}")


def _row(row: dict[str, Any]) -> tuple[str | Cell, ...]:
    slowdown, equal = row["slowdown"], row["outputs_equal"]
    return (
        row["mode"],
        row["limiter"],
        _number(row["makespan_s"], "{:.1f} s"),
        _number(row["against_exclusive"]["makespan"], "{:.2f}"),
        _number(row["against_best_fixed"], "{:.2f}"),
        str(row["most_at_once"]),
        _number(row["pending_mean_s"], "{:.1f} s"),
        _number(row["pending_worst_s"], "{:.1f} s"),
        _number(row["query_p50_ms"], "{:.2f} ms"),
        _number(row["query_p99_ms"], "{:.2f} ms"),
        _number(row["memory_mean_mib"], "{:.0f} MiB"),
        _number(row["memory_max_mib"], "{:.0f} MiB"),
        _number(row["utilisation_percent"], "{:.0f} %"),
        _number(row["power_w"], "{:.0f} W"),
        _number(row["energy_j"], "{:.0f} J"),
        Cell(str(len(row["failures"])), tone=Tone.BAD if row["failures"] else None),
        _NONE if equal is None else Cell("yes" if equal else "no", tone=None if equal else Tone.BAD),
        _number(slowdown["measured_worst"], "{:.2f}"),
        _number(slowdown["predicted_worst"], "{:.2f}"),
        f"{slowdown['engines_within']} of {slowdown['engines']}",
    )


def _solo(solo: dict[str, Any]) -> Table:
    head = ("SOLO", "TIME", "SERVING", "P50", "P99", "BUSY", "MEMORY")
    rows = [
        (
            name,
            _number(run["seconds"], "{:.1f} s"),
            _number(run["serving_s"], "{:.1f} s"),
            _number(run["p50_ms"], "{:.2f} ms"),
            _number(run["p99_ms"], "{:.2f} ms"),
            _number(None if run["busy"] is None else 100 * run["busy"], "{:.0f} %"),
            _number(run["memory_mib"], "{:.0f} MiB"),
        )
        for name, run in solo.items()
    ]
    return Table.of(head, rows)


def _networks(rows: Sequence[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row["networks"]))
    head = ("QUERY P50/P99, ms", "LIMITER", *names)
    return Table.of(
        head, [(row["mode"], row["limiter"], *(_pair(row, name) for name in names)) for row in rows]
    )


def _pair(row: dict[str, Any], name: str) -> str:
    figures = row["networks"].get(name, {})
    if figures.get("query_p50_ms") is None:
        return _NONE
    return f"{figures['query_p50_ms']:.2f} / {figures['query_p99_ms']:.2f}"


def _rounds(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the makespan of every round, where there were several: the table above shows their medians."""
    most = max(len(row["makespans_s"]) for row in rows)
    if most == 1:
        return []
    head = ("MAKESPAN OF ROUND, s", "LIMITER", *(str(number) for number in range(1, most + 1)))
    lines = [
        (row["mode"], row["limiter"], *(_number(each, "{:.1f}") for each in row["makespans_s"]),
         *[_NONE] * (most - len(row["makespans_s"])))
        for row in rows
    ]  # fmt: skip
    return ["", Table.of(head, lines)]


def _failures(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"{row['mode']}, {row['limiter']}: {each['engine']}: exit code {each['exit_code']}: {each['reason']}"
        for row in rows
        for each in row["failures"]
    ]
    return ["", *lines] if lines else []


def _enforcement(results: dict[str, Any]) -> list[str]:
    if not results:
        return []
    lines = [""]
    for name, result in results.items():
        lines.append(f"{name}:")
        lines += [f"  {key.replace('_', ' ')}: {_text(value)}" for key, value in result.items()]
    return lines


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    return _NONE if value is None else str(value)


def _number(value: float | None, form: str) -> Cell:
    return Cell(_NONE) if value is None else Cell(form.format(value), value)
