"""Which policy a volume gets, and why; and the frontier of hits against moves. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.tiering.policies import DEFAULT
from fairlead.tiering.replay import TierResult
from fairlead.units import format_number


@dataclass(frozen=True, slots=True)
class TierChoice:
    """The policy of a volume, and a sentence that says why."""

    name: str
    why: str


def choose(results: Mapping[str, TierResult]) -> TierChoice:
    """Return the policy that saves the most time on its trace; equals: the one that moves less."""
    best = max(results, key=lambda name: (results[name].net_s, -results[name].moves, name == DEFAULT))
    result = results[best]
    if best == "none" or result.net_s <= 0:
        rest = [name for name in results if name != "none"]
        nearest = max(rest, key=lambda name: results[name].net_s)
        return TierChoice(
            "none",
            "no policy saves time on this trace, because moves cost more than hits save: the least loss is "
            f"{_seconds(-results[nearest].net_s)}, by {nearest}",
        )
    others = [name for name in results if name not in (best, "none")]
    second = max(others, key=lambda name: results[name].net_s)
    return TierChoice(best, f"{_gain(result)}; {_compare(results, best, second)}")


def _gain(result: TierResult) -> str:
    rate = format_number(1000 * result.moves / result.accesses)
    return (
        f"saves {_seconds(result.net_s)}, the most: {_percent(result.hit_ratio)} of the accesses hit, with "
        f"{rate} moves in 1,000 accesses"
    )


def _compare(results: Mapping[str, TierResult], best: str, second: str) -> str:
    names = [second] if second == "lru" or best == "lru" else [second, "lru"]
    parts = []
    for name in names:
        net = results[name].net_s
        verb = f"saves {_seconds(net)}" if net >= 0 else f"loses {_seconds(-net)}"
        parts.append(f"{name} {verb} and hits {_percent(results[name].hit_ratio)}")
    return ", ".join(parts)


def _seconds(seconds: float) -> str:
    return f"{format_number(seconds)} s"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def frontier(results: Mapping[str, TierResult]) -> list[str]:
    """Return the policies that no other one beats in both hits and moves, the fewest moves first."""
    kept: list[str] = []
    for name in sorted(results, key=lambda name: (results[name].moves, -results[name].hits)):
        if not kept or results[name].hits > results[kept[-1]].hits:
            kept.append(name)
    return kept
