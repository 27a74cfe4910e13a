"""The alternatives of a decision, for people and for programs."""

from collections.abc import Iterator
from typing import Any

from fairlead.splitting.policy.decide import PolicyDecision
from fairlead.splitting.policy.expected import ExpectedCost, OffloadChoice
from fairlead.splitting.policy.facts import OffloadFacts, SideFacts
from fairlead.units import Bytes, format_bytes, format_number

HEAD = ("", "COMPUTE", "RESULTS", "OFFLOADS", "EXPECTED", "LIMIT", "SERVER", "UP", "DOWN", "ENERGY")
"""The columns of `explain_rows`."""


def explain_rows(decision: PolicyDecision) -> Iterator[tuple[str, ...]]:
    """Yield a row for each alternative, the best first; the one that is taken is marked."""
    for each in decision.alternatives:
        yield (
            "*" if each is decision.chosen or _is(decision, each.choice) else "",
            each.choice.compute.value,
            each.choice.storage.value,
            each.choice.offloads,
            "not known yet" if each.seconds is None else f"{format_number(each.seconds)} s",
            each.limit or "-",
            f"{100 * each.server_share:.0f} %" if each.seconds is not None else "-",
            _bytes(each.up),
            _bytes(each.down),
            f"{format_number(each.joules)} J" if each.joules else "-",
        )
    for refused in decision.impossible:
        choice = refused.choice
        words = ("", choice.compute.value, choice.storage.value, choice.offloads)
        yield (*words, "impossible", refused.reason, "-", "-", "-", "-")


def explain(decision: PolicyDecision) -> Iterator[str]:
    """Yield the decision as lines of text."""
    yield f"{_named(decision)}: {decision.reason}"
    for row in explain_rows(decision):
        yield "  ".join(cell for cell in row if cell not in ("", "-"))


def explain_facts(facts: OffloadFacts) -> Iterator[str]:
    """Yield what the decision rests on."""
    for name, side in (("device", facts.device), ("server", facts.server)):
        yield f"{name}: {_side(side)}"
    link = facts.link
    if link is None:
        yield "link: none"
    else:
        up, down = format_bytes(Bytes(int(link.up))), format_bytes(Bytes(int(link.down)))
        yield f"link: {up}/s up, {down}/s down, {1e3 * link.round_trip_s:.1f} ms"


def to_json(decision: PolicyDecision) -> dict[str, Any]:
    """Return the decision as a document."""
    return {
        "chosen": None if decision.chosen is None else _expectation(decision.chosen),
        "reason": decision.reason,
        "alternatives": [_expectation(each) for each in decision.alternatives],
        "impossible": [
            {
                "compute": each.choice.compute.value,
                "storage": each.choice.storage.value,
                "reason": each.reason,
            }
            for each in decision.impossible
        ],
    }


def _expectation(each: ExpectedCost) -> dict[str, Any]:
    return {
        **_choice(each.choice),
        "offloads": each.choice.offloads,
        "seconds": each.seconds,
        "limit": each.limit,
        "server_share": each.server_share,
        "server_seconds": each.server_seconds,
        "up_bytes": round(each.up),
        "down_bytes": round(each.down),
        "device_joules": each.joules,
    }


def _choice(choice: OffloadChoice) -> dict[str, str]:
    return {"compute": choice.compute.value, "storage": choice.storage.value}


def _named(decision: PolicyDecision) -> str:
    if decision.chosen is None:
        return "no alternative"
    choice = decision.chosen.choice
    return f"compute on {choice.compute.value}, results on {choice.storage.value}"


def _is(decision: PolicyDecision, choice: OffloadChoice) -> bool:
    return decision.chosen is not None and decision.chosen.choice == choice


def _bytes(count: float) -> str:
    return format_bytes(Bytes(int(count))) if count >= 1 else "-"


def _side(side: SideFacts) -> str:
    if side.refusal:
        return side.refusal
    parts = [
        "rate not known" if side.rate.per_s is None else f"{format_number(side.rate.per_s)}/s",
        side.rate.basis.value if side.rate.per_s is not None else "",
        "" if side.free is None else f"{format_bytes(side.free)} free",
        f"{format_number(side.busy_watts)} W" if side.busy_watts else "",
    ]
    return ", ".join(part for part in parts if part)
