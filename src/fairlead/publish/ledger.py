"""Who holds what of a node's accelerators, in all three forms: one ledger, so that nothing is given twice.

The kubelet's books are the truth of what containers hold. What was given out since they were last read is
assumed; claims are ours to keep.
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
"""How long a kubelet may take to write into its books what it was given."""
_SILENCE: Final = 2
"""How many times the books must not show it, after that."""
_NAMED: Final = 4
"""How many holders a refusal names."""

UNNAMED: Final = Holder("", "")
"""The holder of what was just allocated: Allocate does not say for which pod."""


@dataclass(frozen=True, slots=True)
class AssumedGrant:
    """Something that was given to a kubelet and that its books need not show yet."""

    holding: Holding
    made: float
    """When, by a clock that never steps back."""
    missed: int = 0
    """How many looks into the books should have shown it and did not."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Who holds what; it iterates over what is held."""

    books: tuple[Holding, ...] = ()
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
        """Everything that is held; what the books show of the assumed is not counted again."""
        shown = units_held(self.books)
        unseen = (_rest(each.holding, shown) for each in self.assumed)
        return (*self.books, *(holding for holding in unseen if holding), *self.claims)

    def assume(self, asked: Holding, now: float) -> "Ledger":
        """Return the ledger with something that a container was just given."""
        name = asked.accelerator
        tallies = {**self.tallies, name: self.tallies.get(name, Tally()).plus(asked)}
        return replace(self, assumed=(*self.assumed, AssumedGrant(asked, now)), known=tallies)

    def __iter__(self) -> Iterator[Holding]:
        return iter(self.holdings)


def admit(ledger: Ledger, inventory: Inventory, asked: Holding, now: float = 0.0) -> Refusal | Ledger:
    """Return the ledger in which the holding is noted, or why it cannot be given.

    Units that a kubelet gives to a container are nobody else's in its own books, so ours are only late: they
    pass from their last holder to the new one. A claim that asks again gets what it has.
    """
    acc = next((acc for acc in inventory.accelerators if acc.id == asked.accelerator), None)
    if acc is None:
        return Refusal(f"{_what(asked)} was asked for, but this node has no such accelerator (any more)")
    if asked in ledger.claims:
        return ledger
    if not acc.state.allocatable:
        return Refusal(
            f"{_what(asked)} was asked for, but {acc.name} is only {acc.state.value}: {acc.reason}"
        )
    rest = _without(ledger, asked)
    if not rest.tallies.get(acc.id, Tally()).admits(acc, asked):
        problem = _problem(acc, [held for held in rest if held.accelerator == acc.id], asked)
        return Refusal(f"{_what(asked)} was asked for, but {problem}")
    return add_claim(rest, asked) if asked.form is Form.CLAIM else rest.assume(asked, now)


def admit_all(
    ledger: Ledger, inventory: Inventory, asked: Iterable[Holding], now: float = 0.0
) -> Refusal | Ledger:
    """Admit several holdings, all or none."""
    for holding in asked:
        answer = admit(ledger, inventory, holding, now)
        if isinstance(answer, Refusal):
            return answer
        ledger = answer
    return ledger


def observe(ledger: Ledger, books: Sequence[Holding], began: float) -> Ledger:
    """Return the ledger after a look into the kubelet's books that began at a certain time.

    A look that began before something was allocated says nothing of it. One that began later and shows it
    takes it over; only when two that began well after it show nothing is it believed to be gone.

    When the inventory changes, the same rows may mean something else: an accelerator came back. Then the
    last look is passed once more, as one that began at minus infinity.
    """
    held_now = units_held(books)
    kept = []
    for each in ledger.assumed:
        shown = began > each.made and _rest(each.holding, held_now) is None
        missed = each.missed + (began >= each.made + GRACE)
        if not shown and missed < _SILENCE:
            kept.append(replace(each, missed=missed))
    return replace(ledger, books=tuple(books), assumed=tuple(kept))


def add_claim(ledger: Ledger, holding: Holding) -> Ledger:
    """Note a claim that was prepared, without asking; it replaces what the claim had of the accelerator.

    A claim with several requests for one accelerator holds the sum of them.
    """
    kept = [claim for claim in ledger.claims if not _same_claim(claim, holding)]
    return replace(ledger, claims=(*kept, holding))


def release_claim(ledger: Ledger, holder: Holder) -> Ledger:
    """Forget a claim, all of it; one that is unknown is forgotten already."""
    return replace(ledger, claims=tuple(claim for claim in ledger.claims if claim.holder != holder))


def held_mebibytes(ledger: Iterable[Holding], inventory: Inventory) -> dict[str, int]:
    """Return how much memory of each accelerator is held, in MiB; of one that is held whole, all of it."""
    found = list(ledger)
    return {
        acc.id: mebibytes(acc) - free_mebibytes(acc, [each for each in found if each.accelerator == acc.id])
        for acc in inventory.accelerators
        if acc.kind != "cpu"
    }


def overlaps(ledger: Iterable[Holding], inventory: Inventory) -> list[str]:
    """Return what is held that cannot be: nothing, if all is well."""
    found: dict[str, list[Holding]] = {}
    for holding in ledger:
        found.setdefault(holding.accelerator, []).append(holding)
    known = {acc.id: acc for acc in inventory.accelerators}
    faults = []
    for name, mine in found.items():
        acc = known.get(name)
        if acc is not None and len(mine) > 1 and any(exclusive(acc, each) for each in mine):
            faults.append(f"{name} is held whole, and yet by several: {_holders(mine)}")
        amount = sum(each.mebibytes for each in mine)
        if acc is not None and mebibytes(acc) and amount > mebibytes(acc):
            faults.append(f"{name} has {mebibytes(acc)} MiB, and {amount} are held: {_holders(mine)}")
        faults += [f"{name}: unit {unit} is held twice" for unit in _twice(mine)]
    return faults


def _problem(acc: Accelerator, mine: Sequence[Holding], asked: Holding) -> str:
    """Return what stands against a holding beside those that there are."""
    if asked.form is Form.MEMORY and not divisible(acc):
        return f"{acc.name} cannot be shared"
    if asked.form is Form.MEMORY and asked.mebibytes <= 0:
        return "a share of nothing cannot be given"
    alone = [each for each in mine if exclusive(acc, each)]
    if alone:
        return f"all of it is held: {_holders(alone)}"
    if exclusive(acc, asked):
        return f"some of it is held: {_holders(mine)}" if mine else ""
    free = free_mebibytes(acc, mine)
    if asked.mebibytes <= free:
        return ""
    return f"{free} of {mebibytes(acc)} MiB are free{f': {_holders(mine)}' if mine else ''}"


def _without(ledger: Ledger, asked: Holding) -> Ledger:
    """Return the ledger without what the asker has already, or took over from one that ended."""
    if asked.form is Form.CLAIM:
        kept = tuple(claim for claim in ledger.claims if not _same_claim(claim, asked))
        return ledger if len(kept) == len(ledger.claims) else replace(ledger, claims=kept)
    if not ledger.tallies.get(asked.accelerator, Tally()).touches(asked):
        return ledger
    taken = units_held((asked,))
    books = (_rest(holding, taken) for holding in ledger.books)
    assumed = ((each, _rest(each.holding, taken)) for each in ledger.assumed)
    return replace(
        ledger,
        books=tuple(holding for holding in books if holding),
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
    """Return the first unit of every stretch that two hold."""
    seen: dict[int, Spans] = {}
    found = []
    for holding in mine:
        before = seen.get(unit_of(holding), ())
        found += [first for first, _ in minus(holding.units, minus(holding.units, before))]
        seen[unit_of(holding)] = union((*before, *holding.units))
    return found


def _same_claim(one: Holding, other: Holding) -> bool:
    return (one.holder, one.accelerator) == (other.holder, other.accelerator)


def _what(asked: Holding) -> str:
    if asked.form is Form.MEMORY or asked.mebibytes:
        return f"{asked.mebibytes} MiB of {asked.accelerator}"
    return f"the whole of {asked.accelerator}"


def _holders(mine: Sequence[Holding]) -> str:
    """Name who holds what, the first few of them."""
    said = [
        f"{_who(each)} holds {f'{each.mebibytes} MiB' if each.mebibytes else 'all'}" for each in mine[:_NAMED]
    ]
    return ", ".join(said) + (f" and {len(mine) - _NAMED} more" if len(mine) > _NAMED else "")


def _who(holding: Holding) -> str:
    return "a container just admitted" if holding.holder == UNNAMED else holder_name(holding)
