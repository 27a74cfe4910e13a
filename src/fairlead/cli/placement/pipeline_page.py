"""The explanation of a Pipeline as a page for people."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.cli.output.table import Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Reasons, Text
from fairlead.cli.placement.explanation_page import explanation_page
from fairlead.units import format_duration

_STAGES: Final = (
    *(Column(name, Fit.KEEP) for name in ("STAGE", "HOST", "NODE", "RATE", "BUSY")),
    Column("WHY THERE", Fit.PROSE),
)
_EDGES: Final = (
    *(Column(name, Fit.KEEP) for name in ("EDGE", "POLICY", "HELD", "AGE", "RATE", "DROPS")),
    Column("DROPPED", Fit.PROSE),
)
_EVENTS: Final = (*(Column(name, Fit.KEEP) for name in ("TIME", "REASON")), Column("EVENT", Fit.PROSE))
_TONES: Final = {"error": Tone.BAD, "warning": Tone.WARN}
_RUNS: Final = ("running", "waiting")
"""States in which a run is there, or will be: in others its rates are not missed."""
_MILLI: Final = 0.01
Part = Text | Table | Reasons | str


def pipeline_page(report: Mapping[str, Any], *, verbose: bool) -> Page:
    """Return the page: the answer, what was found, what would help, and what both come from."""
    parts: list[Part] = [Text(report["sentence"], None if report["running"] else Tone.BAD)]
    parts += [Text(f"  {each['text']}", _TONES.get(each["severity"])) for each in report["findings"]]
    if report["run_note"] and report["state"] in _RUNS:
        parts.append(Text(f"  note: rates and drops are not known: {report['run_note']}", Tone.WARN))
    if report["changes"]:
        parts.append(Text("  would help, the most useful first:"))
        parts += [Text(f"    {each['text']}") for each in report["changes"]]
    if report["stages"]:
        parts += ["", Table.of(_STAGES, [_stage_row(each) for each in report["stages"]])]
    if report["run"] and report["run"]["edges"]:
        parts += ["", Table.of(_EDGES, [_edge_row(each) for each in report["run"]["edges"]])]
    if report["events"]:
        rows = [(each["time"], each["reason"], _event(each)) for each in report["events"]]
        parts += ["", Table.of(_EVENTS, rows)]
    explained = [each["explanation"] for each in report["pods"] if each["explanation"]]
    pages = [page for each in explained for page in (Page.of(""), explanation_page(each, verbose=verbose))]
    return Page.of(*parts, *pages)


def _stage_row(stage: Mapping[str, Any]) -> tuple[str, ...]:
    known = stage["rate"] is not None
    return (
        stage["name"],
        stage["host"],
        ", ".join(stage["nodes"]) or "-",
        f"{stage['rate']:.1f}/s" if known else "-",
        f"{stage['busy']:.0%}" if known else "-",
        stage["why"],
    )


def _edge_row(edge: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{edge['from']}->{edge['to']}",
        edge["policy"],
        f"{edge['depth']}/{edge['size']}",
        f"{edge['age'] * 1e3:.1f}ms" if edge["age"] < _MILLI else format_duration(edge["age"]),
        f"{edge['rate']:.1f}/s",
        f"{edge['drop_rate'] or 0:.1f}/s",
        ", ".join(f"{number} {reason}" for reason, number in edge["dropped"].items()) or "0",
    )


def _event(event: Mapping[str, Any]) -> str:
    times = f" ({event['count']} times)" if event["count"] > 1 else ""
    return f"{event['message']}{times}"
