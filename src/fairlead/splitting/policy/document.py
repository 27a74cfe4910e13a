"""The facts of a job as a document: what its submitter knows of the two sides, beside what workers show."""

import math
from collections.abc import Mapping
from typing import Any, Final

from fairlead.splitting.policy.facts import OffloadFacts, OffloadLink, OffloadObjective, SideFacts, Storage
from fairlead.splitting.policy.rates import RateBasis, SideRate, unknown_rate
from fairlead.units import Bytes

_MOST: Final = 1e18


def facts_to_json(facts: OffloadFacts) -> dict[str, Any]:
    """Return facts as a document; `inputs` are left out: the job counts them."""
    link = facts.link
    return {
        "input_bytes": facts.input_bytes,
        "result_bytes": facts.result_bytes,
        "on_device": facts.on_device,
        "stored": facts.stored,
        "storage": None if facts.storage is None else facts.storage.value,
        "objective": facts.objective.value,
        "link": None
        if link is None
        else {"up": link.up, "down": link.down, "round_trip_s": link.round_trip_s, "watts": link.watts},
        "device": _side_to_json(facts.device),
        "server": _side_to_json(facts.server),
    }


def facts_of(document: Mapping[str, Any]) -> OffloadFacts:
    """Return the facts of a document, which may lack any of them; ValueError names what is wrong."""
    storage, link = document.get("storage"), document.get("link")
    return OffloadFacts(
        0.0,
        _side(_part(document, "device")),
        _side(_part(document, "server")),
        OffloadLink(math.inf, math.inf) if link is None else _link(_part(document, "link")),
        _number(document, "input_bytes"),
        _number(document, "result_bytes"),
        min(1.0, _number(document, "on_device", 1.0)),
        min(1.0, _number(document, "stored")),
        None if storage is None else Storage(storage),
        OffloadObjective(document.get("objective", OffloadObjective.TIME.value)),
    )


def _side_to_json(side: SideFacts) -> dict[str, Any]:
    return {
        "rate": side.rate.per_s,
        "spread": side.rate.spread,
        "start_s": side.start_s,
        "free": side.free,
        "busy_watts": side.busy_watts,
        "idle_watts": side.idle_watts,
        "energy": side.energy,
        "refusal": side.refusal,
    }


def _side(document: Mapping[str, Any]) -> SideFacts:
    rate, free, energy = (document.get(name) for name in ("rate", "free", "energy"))
    known = SideRate(_number(document, "rate"), _number(document, "spread"), RateBasis.PREDICTED)
    return SideFacts(
        unknown_rate() if rate is None or not known.per_s else known,
        _number(document, "start_s"),
        None if free is None else Bytes(int(_number(document, "free"))),
        _number(document, "busy_watts"),
        _number(document, "idle_watts"),
        None if energy is None else _number(document, "energy"),
        str(document.get("refusal") or "")[:200],
    )


def _link(document: Mapping[str, Any]) -> OffloadLink:
    return OffloadLink(*(_number(document, name) for name in ("up", "down", "round_trip_s", "watts")))


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name) or {}
    if not isinstance(part, Mapping):
        raise ValueError(f"{name}: not an object")
    return part


def _number(document: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    value = document.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise ValueError(f"{name}: not a number of 0 or more")
    return float(value)
