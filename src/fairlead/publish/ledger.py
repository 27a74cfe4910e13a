"""The holdings of a node's accelerators in all three forms: one ledger, so that nothing is allocated twice.

The kubelet's pod resources are the truth about what containers hold. Allocations since their last read are
assumed; the agent itself records claims.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Final

from fairlead.annotations import holder_name
from fairlead.inventory import Accelerator, Inventory
from fairlead.offer import Form, Holder, Holding
from fairlead.publish.kubelet_holdings import kubelet_holdings
from fairlead.publish.parts import Refusal, divisible, exclusive, free_mebibytes, mebibytes, unit_of
from fairlead.publish.spans import Spans, count, minus, union
from fairlead.publish.tally import Key, Tally, key_of, tally_by_accelerator, units_held
from fairlead.units import Seconds

__all__ = [
    "GRACE",
    "UNNAMED",
    "AssumedGrant",
    "Ledger",
    "Refusal",
    "add_claim",
    "admit",
    "admit_all",
    "held_mebibytes",
    "kubelet_holdings",
    "observe",
    "overlaps",
    "release_claim",
]
GRACE: Final = Seconds(10.0)
"""How long a kubelet may take to list an allocation in its pod resources."""
_MISSED_READS: Final = 2
"""The number of reads after that which must miss an allocation before it counts as gone."""
_NAMED: Final = 4
"""The number of holders that a refusal names."""

UNNAMED: Final = Holder("", "")
"""The holder of a new allocation: Allocate does not name the pod."""


@dataclass(frozen=True, slots=True)
class AssumedGrant:
    """An allocation that the kubelet's pod resources need not list yet."""

    holding: Holding
    made: float
    """When, by a monotonic clock."""
    missed: int = 0
    """The number of reads that should have listed it and did not."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The holdings by source; iterates over all of them."""

    reported: tuple[Holding, ...] = ()
    assumed: tuple[AssumedGrant, ...] = ()
    claims: tuple[Holding, ...] = ()
    known: InitVar[Mapping[str, Tally] | None] = None
    """The tallies, where they are known already."""
    tallies: Mapping[str, Tally] = field(init=False, compare=False, repr=False)
    """By accelerator, the sum of what is held."""

    def __post_init__(self, known: Mapping[str, Tally] | None) -> None:
        """Add up what is held, unless that was done."""
        object.__setattr__(self, "tallies", tally_by_accelerator(self.holdings) if known is None else known)

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """Everything that is held; what pod resources list of the assumed is not counted again."""
        listed = units_held(self.reported)
        unlisted = (_rest(each.holding, listed) for each in self.assumed)
        return (*self.reported, *(holding for holding in unlisted if holding), *self.claims)

    def assume(self, requested: Holding, now: float) -> "Ledger":
        """Return the ledger with a new allocation."""
        name = requested.accelerator
        tallies = {**self.tallies, name: self.tallies.get(name, Tally()).plus(requested)}
        return replace(self, assumed=(*self.assumed, AssumedGrant(requested, now)), known=tallies)

    def __iter__(self) -> Iterator[Holding]:
        return iter(self.holdings)


def admit(ledger: Ledger, inventory: Inventory, requested: Holding, now: float = 0.0) -> Refusal | Ledger:
    """Return the ledger with the holding, or why it cannot be allocated.

    Units that a kubelet allocates to a container are free in its own accounts, so our ledger is only late:
    they pass from their last holder to the new one. A claim that asks again gets what it has.
    """
    acc = next((acc for acc in inventory.accelerators if acc.id == requested.accelerator), None)
    if acc is None:
        return Refusal(
            f"{_amount_text(requested)} was requested, but this node has no such accelerator (any more)"
        )
    if requested in ledger.claims:
        return ledger
    if not acc.state.allocatable:
        return Refusal(
            f"{_amount_text(requested)} was requested, but {acc.name} is only {acc.state.value}: {acc.reason}"
        )
    rest = _without(ledger, requested)
    if not rest.tallies.get(acc.id, Tally()).admits(acc, requested):
        problem = _conflict(acc, [held for held in rest if held.accelerator == acc.id], requested)
        return Refusal(f"{_amount_text(requested)} was requested, but {problem}")
    return add_claim(rest, requested) if requested.form is Form.CLAIM else rest.assume(requested, now)


def admit_all(
    ledger: Ledger, inventory: Inventory, requested: Iterable[Holding], now: float = 0.0
) -> Refusal | Ledger:
    """Admit several holdings, all or none."""
    for holding in requested:
        answer = admit(ledger, inventory, holding, now)
        if isinstance(answer, Refusal):
            return answer
        ledger = answer
    return ledger


def observe(ledger: Ledger, reported: Sequence[Holding], began: float) -> Ledger:
    """Return the ledger after a read of the kubelet's pod resources that began at a certain time.

    A read that began before an allocation says nothing about it. A read that began later and lists the
    allocation confirms it. The allocation counts as gone only when two reads that began well after it
    do not list it.

    When the inventory changes, the same rows may have another meaning: an accelerator reappeared. Then the
    last read is passed once more, as one that began at minus infinity.
    """
    held_now = units_held(reported)
    kept = []
    for each in ledger.assumed:
        listed = began > each.made and _rest(each.holding, held_now) is None
        missed = each.missed + (began >= each.made + GRACE)
        if not listed and missed < _MISSED_READS:
            kept.append(replace(each, missed=missed))
    return replace(ledger, reported=tuple(reported), assumed=tuple(kept))


def add_claim(ledger: Ledger, holding: Holding) -> Ledger:
    """Add a prepared claim without a check; it replaces what the claim had of the accelerator.

    A claim with several requests for one accelerator holds the sum of them.
    """
    kept = [claim for claim in ledger.claims if not _same_claim(claim, holding)]
    return replace(ledger, claims=(*kept, holding))


def release_claim(ledger: Ledger, holder: Holder) -> Ledger:
    """Release all that a claim holds; an unknown claim counts as released."""
    return replace(ledger, claims=tuple(claim for claim in ledger.claims if claim.holder != holder))


def held_mebibytes(ledger: Iterable[Holding], inventory: Inventory) -> dict[str, int]:
    """Return the held memory of each accelerator in MiB; of one that is held whole, all of it."""
    holdings = list(ledger)
    return {
        acc.id: mebibytes(acc)
        - free_mebibytes(acc, [each for each in holdings if each.accelerator == acc.id])
        for acc in inventory.accelerators
        if acc.kind != "cpu" and not acc.mig_instances
    }


def overlaps(ledger: Iterable[Holding], inventory: Inventory) -> list[str]:
    """Return the contradictions among holdings; empty if there are none."""
    by_accelerator: dict[str, list[Holding]] = {}
    for holding in ledger:
        by_accelerator.setdefault(holding.accelerator, []).append(holding)
    known = {acc.id: acc for acc in inventory.accelerators}
    faults = []
    for name, mine in by_accelerator.items():
        acc = known.get(name)
        if acc is not None and len(mine) > 1 and any(exclusive(acc, each) for each in mine):
            faults.append(f"{name} is held whole, and by several holders: {_holders(mine)}")
        amount = 0 if any(each.by_use for each in mine) else sum(each.mebibytes for each in mine)
        if acc is not None and mebibytes(acc) and amount > mebibytes(acc):
            faults.append(f"{name} has {mebibytes(acc)} MiB, and {amount} are held: {_holders(mine)}")
        faults += [f"{name}: unit {unit} is held twice" for unit in _twice(mine)]
    return faults


def _conflict(acc: Accelerator, mine: Sequence[Holding], requested: Holding) -> str:
    """Return why a holding conflicts with the existing ones; empty where it does not."""
    if requested.form is Form.MEMORY and not divisible(acc):
        return f"{acc.name} cannot be shared"
    if requested.form is Form.MEMORY and requested.mebibytes <= 0:
        return "a share of 0 MiB cannot be allocated"
    alone = [each for each in mine if exclusive(acc, each)]
    if alone:
        return f"all of it is held: {_holders(alone)}"
    if exclusive(acc, requested):
        return f"some of it is held: {_holders(mine)}" if mine else ""
    free = free_mebibytes(acc, () if requested.by_use else mine)
    if requested.mebibytes <= free:
        return ""
    return f"{free} of {mebibytes(acc)} MiB are free{f': {_holders(mine)}' if mine else ''}"


def _without(ledger: Ledger, requested: Holding) -> Ledger:
    """Return the ledger without what the requester has already, or took over from an ended holder."""
    if requested.form is Form.CLAIM:
        kept = tuple(claim for claim in ledger.claims if not _same_claim(claim, requested))
        return ledger if len(kept) == len(ledger.claims) else replace(ledger, claims=kept)
    if not ledger.tallies.get(requested.accelerator, Tally()).touches(requested):
        return ledger
    taken = units_held((requested,))
    reported = (_rest(holding, taken) for holding in ledger.reported)
    assumed = ((each, _rest(each.holding, taken)) for each in ledger.assumed)
    return replace(
        ledger,
        reported=tuple(holding for holding in reported if holding),
        assumed=tuple(replace(each, holding=holding) for each, holding in assumed if holding),
    )


def _rest(holding: Holding, taken: Mapping[Key, Spans]) -> Holding | None:
    """Return what is left of a holding without units that others hold; None for nothing."""
    others = taken.get(key_of(holding))
    if others is None:
        return holding
    left = minus(holding.units, others)
    if not left:
        return None
    return replace(holding, units=left, mebibytes=count(left) * unit_of(holding))


def _twice(mine: Iterable[Holding]) -> list[int]:
    """Return the first unit of every range with two holders."""
    seen: dict[int, Spans] = {}
    duplicates = []
    for holding in mine:
        before = seen.get(unit_of(holding), ())
        duplicates += [first for first, _ in minus(holding.units, minus(holding.units, before))]
        seen[unit_of(holding)] = union((*before, *holding.units))
    return duplicates


def _same_claim(one: Holding, other: Holding) -> bool:
    return (one.holder, one.accelerator) == (other.holder, other.accelerator)


def _amount_text(requested: Holding) -> str:
    if requested.form is Form.MEMORY or requested.mebibytes:
        return f"{requested.mebibytes} MiB of {requested.accelerator}"
    return f"the whole of {requested.accelerator}"


def _holders(mine: Sequence[Holding]) -> str:
    """Name the first few holders and what they hold."""
    texts = [
        f"{_holder_text(each)} holds {f'{each.mebibytes} MiB' if each.mebibytes else 'all'}"
        for each in mine[:_NAMED]
    ]
    return ", ".join(texts) + (f" and {len(mine) - _NAMED} more" if len(mine) > _NAMED else "")


def _holder_text(holding: Holding) -> str:
    return "a container just admitted" if holding.holder == UNNAMED else holder_name(holding)
