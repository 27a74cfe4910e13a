"""The report of `fairlead rightsize` for people."""

from typing import TYPE_CHECKING, Final

from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, show_page
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.rightsize.report import Recommendation, SizeReport

_HEAD: Final = (
    Column("WORKLOAD", Fit.MIDDLE),
    Column("CONTAINER", Fit.MIDDLE),
    Column("PODS"),
    Column("REQUESTED"),
    Column("PEAK"),
    Column("P99"),
    Column("MEAN"),
    Column("RECOMMENDED"),
    Column("RISK/DAY"),
    Column("VERDICT"),
    Column("REASON", Fit.PROSE),
)
TONES: Final = {"over-provisioned": Tone.WARN, "under-provisioned": Tone.BAD, "right": Tone.GOOD}


def show_report(report: "SizeReport", color: str) -> None:
    """Print a report as a table, with the sum of what it saves."""
    if not report.recommendations:
        show_page(Page.of("no workload requests accelerators"), color)
        return
    show_page(Page.of(Table.of(_HEAD, map(_row, report.recommendations)), "", _summary(report)), color)


def _row(each: "Recommendation") -> tuple[Cell, ...]:
    workload, advice = each.container.workload, each.advice
    name = f"{workload.namespace}/{workload.name}" if workload.namespace else workload.name
    sizes = (each.container.requested, each.peak, each.p99, each.mean, advice.size)
    *measured, recommended = (size_cell(size) for size in sizes)
    return (
        Cell(f"{workload.kind.lower()} {name}".strip()),
        Cell(each.container.container or "-"),
        Cell(str(len(each.container.pods)), len(each.container.pods)),
        *measured,
        recommended,
        Cell(risk_text(advice.risk), advice.risk),
        Cell(advice.verdict.value, tone=TONES.get(advice.verdict.value)),
        Cell(advice.reason),
    )


def size_cell(size: int | None) -> Cell:
    """Return a size as a cell; a dash where it is not known."""
    return Cell("-" if size is None else format_bytes(size), size)


def risk_text(risk: float | None) -> str:
    """Return a risk for people."""
    if risk is None:
        return "-"
    return "<0.01%" if risk < 1e-4 else f"{100 * risk:.2g}%"


def _summary(report: "SizeReport") -> str:
    changes, all_ = len(report.changes), len(report.recommendations)
    saved = sum(each.saving for each in report.recommendations)
    now, then = report.accelerators(advised=False), report.accelerators(advised=True)
    text = f"{changes} of {pluralize(all_, 'container')} should request another size"
    text += f", which {'saves' if saved >= 0 else 'takes'} {format_bytes(abs(saved))}" if changes else ""
    if now is None or then is None:
        return text
    return f"{text}; packed by memory alone, the pods need {pluralize(then, 'accelerator')} instead of {now}"
