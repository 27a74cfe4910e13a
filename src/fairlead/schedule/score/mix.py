"""The expected demand: the most frequent kinds of request, and the frequency of each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.request import Demand, Request
from fairlead.units import Bytes

USUAL: Final = 0.95
"""The kinds kept make up this part of all requests; the rest is noise."""


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests that ask for the same amounts; a node that cannot take one more has fragments."""

    cpu: int
    memory: Bytes
    """Of the node."""
    demand: Demand


@dataclass(frozen=True, slots=True)
class DemandMix:
    """Kinds of request and their frequencies, which add up to 1."""

    kinds: tuple[tuple[RequestKind, float], ...]


def typical_demand(requests: Iterable[Request], usual: float = USUAL) -> DemandMix:
    """Return the most frequent kinds among requests, by their CPU and accelerators.

    Requests that differ only in the node's memory are one kind, with the least memory of them; otherwise
    hardly two requests would be of one kind.
    """
    counts: Counter[tuple[int, Demand]] = Counter()
    least: dict[tuple[int, Demand], int] = {}
    for request in requests:
        key = (request.cpu, request.demand)
        counts[key] += 1
        least[key] = min(request.memory, least.get(key, request.memory))
    if not counts:
        return EVEN
    total, seen, chosen = counts.total(), 0, []
    for key, count in sorted(counts.items(), key=lambda item: (-item[1], repr(item[0]))):
        chosen.append((key, count))
        seen += count
        if seen >= usual * total:
            break
    return DemandMix(
        tuple((RequestKind(key[0], Bytes(least[key]), key[1]), count / seen) for key, count in chosen)
    )


def _share(compute: int) -> RequestKind:
    return RequestKind(1000, Bytes(0), Demand(1, compute=compute))


EVEN: Final = DemandMix(
    (
        *((_share(compute), 0.2) for compute in (125, 250, 500, 1000)),
        (RequestKind(4000, Bytes(0), Demand(4, compute=1000)), 0.2),
    )
)
"""The default demand: eighths, quarters, halves and wholes of one accelerator, and four wholes."""
