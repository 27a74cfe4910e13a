"""Policies: which scores count, and how much; a policy is a few lines of data."""

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Final, NamedTuple

from fairlead.errors import SettingsError
from fairlead.schedule.score.scores import SCORES, Score

GROUP: Final = "fairlead.policies"
"""The entry points by which other packages bring policies of their own."""


class Policy(NamedTuple):
    """A way to choose among the places that a request could take."""

    name: str
    scores: tuple[tuple[Score, float], ...]
    """Each with its weight; a thousandth of another only decides where that one is undecided."""
    whole: bool = False
    """Whether every request is given its accelerators for itself alone."""
    packs: bool = True
    """Whether those of a gang fill a node before they go to the next."""
    by_name: bool = False
    """Whether the smallest name wins among equals; otherwise the node that came first."""
    help: str = ""


def _policy(name: str, text: str, *, by_name: bool = False, **weights: float) -> Policy:
    scores = {"wished": 1.0, **{key.replace("_", "-"): weight for key, weight in weights.items()}}
    table = tuple((SCORES[score], weight) for score, weight in scores.items())
    whole, packs = name == "exclusive", "roomy" not in scores
    return Policy(name, table, whole, packs, by_name, text)


POLICIES: Final[dict[str, Policy]] = {
    policy.name: policy
    for policy in (
        _policy("fairlead", "fewest fragments, then the snuggest fit; speed and energy where they are known",
                descent=1.0, enough=0.5, thrifty=0.1, snug=1e-3),
        _policy("exclusive", "whole accelerators only, the emptiest node first, as is usual", roomy=1.0),
        _policy("binpack", "the fullest node and accelerator that suffice", packed=1.0),
        _policy("spread", "the emptiest node and accelerator", roomy=1.0),
        _policy("fastest", "where it is expected to run fastest", swift=1.0, snug=1e-3),
        _policy("frugal", "where it is expected to take the least energy", thrifty=1.0, snug=1e-3),
        _policy("fgd", "fragmentation gradient descent as published, the smallest name among equals",
                by_name=True, published_descent=1.0),
        _policy("bestfit", "the least CPU and accelerators left over, as in the published comparison",
                by_name=True, best_fit=1.0),
    )
}  # fmt: skip


def policy_named(name: str) -> Policy:
    """Return a policy of ours, or of an installed package, or say which ones come near."""
    return POLICIES[name] if name in POLICIES else _installed(name)


@cache
def _installed(name: str) -> Policy:
    """Load a policy of another package; once, for it is asked for with every decision."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = sorted({*POLICIES, *points})
        near = get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise SettingsError(f"unknown policy {name!r}", hint)
    where, hint = f"policy {name!r}: {points[name].value}", "see: fairlead docs own-policy"
    try:
        found = points[name].load()
    except Exception as error:  # whatever the code of strangers may raise
        raise SettingsError(f"{where} cannot be loaded: {type(error).__name__}: {error}", hint) from error
    if not isinstance(found, Policy):
        raise SettingsError(f"{where} is not a Policy", hint)
    return found


def policy_names() -> tuple[str, ...]:
    """Return the names of every policy that can be asked for."""
    return tuple(sorted({*POLICIES, *(point.name for point in entry_points(group=GROUP))}))
