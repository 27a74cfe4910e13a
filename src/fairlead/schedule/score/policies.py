"""Policies: which scores count, and with which weight; a policy is a few lines of data."""

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.errors import SettingsError
from fairlead.schedule.filter.interference import TIME_SLICING_PRICE
from fairlead.schedule.filter.rules import SharingRules
from fairlead.schedule.score.scores import (
    SCORES,
    Score,
    best_fit,
    descent,
    lasting,
    lot,
    published_descent,
    roomy,
    snug,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP: Final = "fairlead.policies"
"""The entry point group by which other packages add policies."""


class Policy(NamedTuple):
    """A rule that chooses among the candidate places of a request."""

    name: str
    scores: tuple[tuple[Score, float], ...]
    """Each with its weight; a score with a thousandth of another's weight only breaks its ties."""
    whole: bool = False
    """Whether every request takes its accelerators exclusively."""
    packs: bool = True
    """Whether the members of a gang fill one node before the next."""
    by_name: bool = False
    """Whether the smallest node name wins ties; otherwise the node that was added first."""
    help: str = ""
    telemetry: str = ""
    """What it must be given of measured use: `devices`, `pods`, or nothing; without it, requests decide."""
    measured: bool = False
    """Whether free memory that was measured counts, where it is more than requests leave."""
    needs: bool = False
    """Whether requests should carry needs: their expected memory instead of what they ask for."""
    price: float | None = None
    """The slowdown that each co-runner adds, held against SLOs; None: it is not predicted."""
    queue: str = ""
    """The order of the queue that it was published with: `largest`; empty: any."""
    adapts: bool = False
    """Whether it places by the scores of the alternative that packs the cluster best, where one is ahead."""

    def without_telemetry(self) -> str:
        """Return for people what the policy does where nothing was measured; empty: it measures nothing."""
        if not self.telemetry:
            return ""
        return f"policy {self.name} goes by measured use; none is known here, so requests decide"

    @property
    def with_unknown(self) -> str:
        """Return for people what the policy does with an accelerator whose latency for a pod is not known."""
        rated = {score for score, _ in self.scores}
        if not rated.isdisjoint((SCORES["swift"], SCORES["enough"])):
            return "counts it as slower than every accelerator with a known latency"
        if SCORES["thrifty"] in rated:
            return "counts it as taking more energy than every accelerator with a known one"
        return "does not go by latency: it is a candidate like any other"

    @property
    def rules(self) -> SharingRules:
        """How requests share accelerators."""
        return SharingRules(self.whole, self.measured, self.price)


def _published(name: str, text: str, *, first: bool = False, telemetry: str = "devices") -> Policy:
    """Return a policy of the literature: it takes the accelerator with the most free memory, or the first."""
    policy = _policy(name, text, by_name=True, **({} if first else {"most_free": 1.0}))
    # One member of a gang at a time: measured free memory holds for one placement.
    return policy._replace(packs=False, telemetry=telemetry, measured=bool(telemetry), queue="largest")


def _policy(name: str, text: str, *, by_name: bool = False, **weights: float) -> Policy:
    scores = {"wished": 1.0, **{key.replace("_", "-"): weight for key, weight in weights.items()}}
    table = tuple((SCORES[score], weight) for score, weight in scores.items())
    whole, packs = name == "exclusive", "roomy" not in scores
    return Policy(name, table, whole, packs, by_name, text)


POLICIES: Final[dict[str, Policy]] = {
    policy.name: policy
    for policy in (
        _policy("fairlead", "fewest fragments, then the tightest fit; latency and energy where known",
                descent=1.0, enough=0.5, thrifty=0.1, snug=1e-3)._replace(adapts=True),
        _policy("exclusive", "whole accelerators only, the emptiest node first: stock Kubernetes", roomy=1.0),
        _policy("binpack", "the fullest node and accelerator that suffice", packed=1.0),
        _policy("spread", "the emptiest node and accelerator", roomy=1.0),
        _policy("fastest", "the lowest expected latency", swift=1.0, snug=1e-3),
        _policy("frugal", "the lowest expected energy", thrifty=1.0, snug=1e-3),
        _policy("fgd", "fragmentation gradient descent as published; the smallest node name wins ties",
                by_name=True, published_descent=1.0),
        _policy("bestfit", "the least CPU and accelerator capacity left, as in the published comparison",
                by_name=True, best_fit=1.0),
        _policy("fairlead-safe", "as fairlead, by expected memory within an out-of-memory bound and SLOs",
                descent=1.0, enough=0.5, thrifty=0.1, snug=1e-3)._replace(
            telemetry="pods", needs=True, price=TIME_SLICING_PRICE, adapts=True),
        _published("res-ag", "by requested memory, largest first, first fit (Kube-Knots' Res-Ag)",
                   first=True, telemetry=""),
        _published("cbp", "harvests steady memory beyond the 80th percentile of use (Ferikoglou 2021)"),
        _published("pp", "places by free memory forecast from its trend (Ferikoglou 2021)"),
        _published("cbp+pp", "cbp, then pp (Ferikoglou 2021)"),
        _published("cbp-knots", "harvests memory where use does not correlate (Kube-Knots 2019)",
                   telemetry="pods"),
    )
}  # fmt: skip

PACKING: Final = frozenset({descent, snug})
"""The scores of a policy that an alternative replaces; speed, energy and preferences stay."""
ALTERNATIVES: Final = (
    ((lasting, 1.0), (snug, 1e-3)),
    ((published_descent, 1.0), (lot, 1e-3)),
    ((best_fit, 1.0),),
    ((roomy, 1.0),),
)
"""What a policy that adapts may pack by: CPU that lasts, `fgd` with random ties, `bestfit`, `spread`."""


@cache
def alternatives(policy: Policy) -> tuple[Policy, ...]:
    """Return a policy that adapts as it is, and with the packing scores of each alternative."""
    kept = tuple((score, weight) for score, weight in policy.scores if score not in PACKING)
    others = (
        policy._replace(scores=(*kept, *scores), packs=scores[0][0] is not roomy, adapts=False)
        for scores in ALTERNATIVES
    )
    return policy._replace(adapts=False), *others


def policy_named(name: str) -> Policy:
    """Return a built-in policy, or one of an installed package; an error suggests near names."""
    return POLICIES[name] if name in POLICIES else _installed(name)


@cache
def _installed(name: str) -> Policy:
    """Load a policy of another package; cached, because every decision looks it up."""
    points = {point.name: point for point in _entry_points()}
    if name not in points:
        from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

        known = sorted({*POLICIES, *points})
        close = get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        raise SettingsError(f"unknown policy {name!r}", hint)
    where, hint = f"policy {name!r}: {points[name].value}", "see: fairlead docs own-policy"
    try:
        policy = points[name].load()
    except Exception as error:  # code of other packages may raise anything
        raise SettingsError(f"{where} cannot be loaded: {type(error).__name__}: {error}", hint) from error
    if not isinstance(policy, Policy):
        raise SettingsError(f"{where} is not a Policy", hint)
    return policy


def policy_names() -> tuple[str, ...]:
    """Return the names of all available policies."""
    return tuple(sorted({*POLICIES, *(point.name for point in _entry_points())}))


def _entry_points() -> "EntryPoints":
    # Imported here: it takes a sixth of the time in which the engine is imported, and only policies of other
    # packages need it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)
