"""The explanation of a pod as a page for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.cli.output.table import Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Reasons, Text
from fairlead.units import pluralize


def explanation_page(decision: Mapping[str, Any], *, verbose: bool) -> Page:
    """Return one decision as a page for people."""
    reasons = list(_reasons(decision))
    head = f"{decision['namespace']}/{decision['name']}: {_headline(decision)}"
    lines: list[Text | Reasons | Table] = [_opening(head, reasons, None if decision["placed"] else Tone.BAD)]
    lines += [Text(f"  {reason}") for reason in reasons]
    changes = [str(each.get("text", "")) for each in decision["changes"] if isinstance(each, dict)]
    if changes:
        lines.append(Text("  would fit with one of these changes, the smallest first:"))
        lines += [Text(f"    {change}") for change in changes]
    if verbose:
        lines += _devices(decision.get("devices"))
    lines += [
        Text(f"  {line}", Tone.WARN if line.startswith("note: ") else None) for line in _live_lines(decision)
    ]
    return Page.of(lines)


def _opening(head: str, reasons: list[str], tone: Tone | None) -> Reasons | Text:
    """Return the sentence; a terminal too narrow for it shows its start only: the reasons follow below."""
    start, colon, _ = head.partition(": ")
    start = start + colon + head.removeprefix(start + colon).partition(": ")[0]
    return Reasons(head, start, (), tone) if reasons else Text(head, tone)


def _headline(decision: Mapping[str, Any]) -> str:
    """Return the sentence without the part that the lines below repeat."""
    sentence = str(decision["sentence"])
    return sentence.partition("; smallest change")[0] if decision["changes"] else sentence


def _reasons(decision: Mapping[str, Any]) -> Iterable[str]:
    from fairlead.placement import reason_text

    for each in decision["rejections"]:
        if isinstance(each, dict) and each.get("count"):
            nodes = each.get("nodes") or 0
            where = f" on {pluralize(nodes, 'node')}" if nodes else ""
            text = reason_text(str(each.get("text", "")), each["count"])
            yield f"{each['count']:>5} {text}{where} [{each.get('reason', '')}]"


def _live_lines(decision: Mapping[str, Any]) -> Iterable[str]:
    """Yield the lines about a pod in a live cluster: its queue state, what it waits for, its next retry."""
    if not decision.get("state"):
        return
    scheduler = f", scheduler {decision['scheduler']}" if decision["scheduler"] else ""
    yield f"{decision['state']} since {decision['since'] or 'an unknown time'}{scheduler}"
    if decision["decided_seconds_ago"] is not None:
        yield f"decided {decision['decided_seconds_ago']:.0f} s ago"
    if decision["pending_victims"]:
        yield f"waits until these pods are gone: {', '.join(decision['pending_victims'])}"
    if decision["queueing_hints"]:
        yield f"tried again on: {', '.join(decision['queueing_hints'])}"
    if decision["retry_in_seconds"] is not None:
        yield f"tried again in {decision['retry_in_seconds']:.0f} s at the latest"
    if decision["note"]:
        yield f"note: {decision['note']}"


def _devices(listed: object) -> list[Table]:
    if not isinstance(listed, list) or not listed:
        return []
    rows = [
        tuple(str(each.get(key, "")) or "-" for key in ("node", "device", "model", "text"))
        for each in listed
        if isinstance(each, dict)
    ]
    head = (
        *(Column(name, Fit.KEEP) for name in ("NODE", "DEVICE")),
        Column("MODEL"),
        Column("WHY NOT", Fit.PROSE),
    )
    return [Table.of(head, rows)._replace(indent=2)]
