"""The decision of the policy for people: who computes, where results are kept, and what else was possible."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.cli.output.table import Column, Fit, Table
from fairlead.cli.output.terminal import Page
from fairlead.units import format_bytes, format_duration

_HEAD: Final = (
    *(Column(each, Fit.KEEP) for each in ("", "COMPUTE", "RESULTS", "OFFLOADS", "EXPECTED", "LIMIT")),
    *(Column(each, Fit.KEEP) for each in ("SERVER", "UP", "DOWN")),
    Column("IMPOSSIBLE", Fit.PROSE),
)
Json = Mapping[str, Any]


class Explanation:
    """Says once what is decided, and again when that changes."""

    def __init__(self) -> None:
        self._said: object = None

    def news(self, job: Json) -> Page | None:
        """Return the alternatives if there are times, and another choice than said before; else nothing."""
        decision = job.get("decision") or {}
        chosen = decision.get("chosen") or {}
        choice = (chosen.get("compute"), chosen.get("storage"))
        if not chosen or chosen.get("seconds") is None or choice == self._said:
            return None
        self._said = choice
        return Page.of(*decision_lines(job))


def decision_lines(job: Json) -> "list[str | Table]":
    """Return a decision as lines; the alternative that is taken is marked."""
    decision = job.get("decision")
    if not decision:
        return ["no alternatives: the job has ended, or has another policy than auto"]
    chosen = decision.get("chosen")
    named = (
        "nothing is possible"
        if chosen is None
        else f"compute: {chosen['compute']}, results: {chosen['storage']}"
    )
    return [f"{named} ({decision['reason']})", Table.of(_HEAD, _rows(decision, chosen))]


def _rows(decision: Json, chosen: "Json | None") -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for each in decision["alternatives"]:
        is_chosen = chosen is not None and _choice(each) == _choice(chosen)
        seconds = each["seconds"]
        rows.append(
            (
                "*" if is_chosen else "",
                each["compute"],
                each["storage"],
                each["offloads"],
                "not known yet" if seconds is None else format_duration(float(f"{seconds:.3g}")),
                each["limit"] or "-",
                "-" if seconds is None else f"{100 * each['server_share']:.0f} %",
                _size(each["up_bytes"]),
                _size(each["down_bytes"]),
                "",
            )
        )
    for each in decision["impossible"]:
        rows.append(("", each["compute"], each["storage"], *("-" for _ in range(6)), each["reason"]))
    return rows


def _choice(each: Json) -> tuple[str, str]:
    return each["compute"], each["storage"]


def _size(count: int) -> str:
    return format_bytes(count) if count else "-"
