"""A decision of the scheduler as the dashboard explains it: reasons with counts, and changes. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.dashboard.answers import WhyAnswer, WhyChange, WhyReason
from fairlead.placement import reason_text

_ON: Final = {"bound": "running", "ended": "ended", "leaving": "ended"}
"""States of a report, as the table of workloads names them."""


def why_answer(
    key: str,
    report: Mapping[str, Any],
    *,
    decided: float,
    source: str,
    command: str,
    notes: Sequence[str] = (),
) -> WhyAnswer:
    """Return the explanation of a pod from a decision, or a report, with the fields of `Decision.to_json`."""
    changes = [change for change in report.get("changes", ()) if isinstance(change, Mapping)]
    state = str(report.get("state") or ("placed" if report.get("placed") else "waiting"))
    return WhyAnswer(
        key=key,
        fits=bool(report.get("placed")),
        state=_ON.get(state, state),
        summary=str(report.get("sentence", "")),
        reasons=tuple(_reason(report, each) for each in report.get("rejections", ())),
        changes=tuple(
            WhyChange(text=str(change.get("text", "")), smallest=at == 0) for at, change in enumerate(changes)
        ),
        notes=tuple(note for note in (*notes, *_notes(report)) if note),
        decided=decided,
        source=source,
        command=command,
    )


def _reason(report: Mapping[str, Any], rejection: Mapping[str, Any]) -> WhyReason:
    count = int(rejection.get("count", 0))
    return WhyReason(
        count=count,
        of=int(report.get("among", 0)),
        text=reason_text(str(rejection.get("text", "")), count),
        filter=str(rejection.get("reason", "")),
        example=_example(report, str(rejection.get("reason", ""))),
    )


def _example(report: Mapping[str, Any], filter_name: str) -> str | None:
    """Return one accelerator, or node, that this reason rules out; None: no detail was asked for."""
    for detail in report.get("devices", ()):
        if detail.get("reason") == filter_name:
            return f"{detail['node']}/{detail['device']}" if detail.get("device") else str(detail["node"])
    return None


def _notes(report: Mapping[str, Any]) -> list[str]:
    notes = [str(report.get("note", ""))]
    if victims := report.get("pending_victims"):
        notes.append(f"waits until evicted pods have ended: {', '.join(map(str, victims))}")
    if (seconds := report.get("retry_in_seconds")) is not None:
        notes.append(f"the scheduler decides again within {float(seconds):.0f} s")
    if hints := report.get("queueing_hints"):
        notes.append(f"decided again after: {', '.join(map(str, hints))}")
    need = report.get("need")
    if isinstance(need, Mapping) and need.get("text"):
        notes.append(str(need["text"]))
    return notes
