"""The expected demand: the most frequent kinds of request, and the frequency of each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from fairlead.request import Demand, Request
from fairlead.units import Bytes

USUAL: Final = 0.95
"""The kinds kept make up this part of all requests; the rest is noise."""
MOSTLY: Final = 0.9
"""And at least this part of the requests for accelerators."""
NO_BYTES: Final = Bytes(0)
MOST_KINDS: Final = 256
"""With more kinds, amounts are rounded: every node is held against every kind."""
_BITS: Final = (64, 4, 3, 2, 1)
"""Significant bits of amounts that tell kinds apart: at first all."""


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests that ask for the same amounts; a node that cannot take one more has fragments."""

    cpu: int
    memory: Bytes
    """Of the node, on the mean."""
    demand: Demand
    least: Bytes = NO_BYTES
    """The least memory of the node that suffices for one of them."""


@dataclass(frozen=True, slots=True)
class DemandMix:
    """Kinds of request and their frequencies, which add up to 1."""

    kinds: tuple[tuple[RequestKind, float], ...]


@dataclass(slots=True)
class _Group:
    """Requests of one kind."""

    demand: Demand
    count: int = 0
    cpu: int = 0
    memory: int = 0
    least: int = 1 << 62

    def add(self, request: Request) -> None:
        self.count += 1
        self.cpu += request.cpu
        self.memory += request.memory
        self.least = min(self.least, request.memory)

    def kind(self) -> RequestKind:
        cpu, memory = self.cpu // self.count, Bytes(self.memory // self.count)
        return RequestKind(cpu, memory, self.demand, Bytes(self.least))


def typical_demand(requests: Iterable[Request], usual: float = USUAL) -> DemandMix:
    """Return the most frequent kinds among requests, by their CPU and accelerators.

    Requests that differ only in the node's memory are one kind, with its mean; otherwise hardly two requests
    would be of one kind. Where amounts of CPU and accelerators are drawn freely, near ones are one kind, too.
    Rare requests for accelerators beside very many without are kept, for only they can have fragments.
    """
    listed = list(requests)
    if not listed:
        return EVEN
    groups = next(found for bits in _BITS if len(found := _groups(listed, bits)) <= MOST_KINDS or bits == 1)
    ordered = sorted(groups.items(), key=lambda item: (-item[1].count, repr(item[0])))
    chosen = _most_frequent([group for _, group in ordered], usual)
    seen = sum(group.count for group in chosen)
    return DemandMix(tuple((group.kind(), group.count / seen) for group in chosen))


def _groups(requests: Iterable[Request], bits: int) -> dict[tuple[int, Demand], _Group]:
    groups: dict[tuple[int, Demand], _Group] = {}
    for request in requests:
        demand = request.demand
        if bits < _BITS[0]:
            demand = replace(
                demand,
                compute=demand.compute and _coarse(demand.compute, bits),
                memory=demand.memory and Bytes(_coarse(demand.memory, bits)),
            )
        key = (_coarse(request.cpu, bits), demand)
        if key not in groups:
            groups[key] = _Group(demand)
        groups[key].add(request)
    return groups


def _most_frequent(groups: list[_Group], usual: float) -> list[_Group]:
    """Return groups until they make up the usual part of all, and most of those with accelerators."""
    total = sum(group.count for group in groups)
    accelerated = sum(group.count for group in groups if group.demand.count)
    seen = of_accelerated = 0
    chosen = []
    for group in groups:
        if seen < usual * total or (group.demand.count and of_accelerated < MOSTLY * accelerated):
            chosen.append(group)
            seen += group.count
            of_accelerated += group.count * bool(group.demand.count)
    return chosen


def _coarse(amount: int, bits: int) -> int:
    """Round an amount to that many significant bits."""
    spare = max(amount.bit_length() - bits, 0)
    return amount + (1 << spare >> 1) >> spare << spare


def _share(compute: int) -> RequestKind:
    return RequestKind(1000, Bytes(0), Demand(1, compute=compute))


EVEN: Final = DemandMix(
    (
        *((_share(compute), 0.2) for compute in (125, 250, 500, 1000)),
        (RequestKind(4000, Bytes(0), Demand(4, compute=1000)), 0.2),
    )
)
"""The default demand: eighths, quarters, halves and wholes of one accelerator, and four wholes."""
