"""The pods to which a leader may allocate part of a device next, written before it allocates. Pure.

    since <= created < until   every pod of that age: new pods are in the set before they are created
    uids                       older pods: those that are being bound, and those that are next in the queue

The leader's Lease carries the set. A leader that takes over from one that stopped in the middle fences these
pods, instead of every pending pod: there may be thousands, where a cluster is full.
"""

import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead import keys
from fairlead.cluster.meta import Metadata
from fairlead.errors import NewerFormatError
from fairlead.formats import JSON, Codec, VersionedFormat

ANNOTATION: Final = keys.IN_FLIGHT
MOST: Final = 256
"""The most pods that are listed by uid, and the most pending pods that are in the set by their age."""
_LAST: Final = "~"
"""Sorts after every timestamp."""


@dataclass(frozen=True, slots=True)
class InFlightSet:
    """Objects that a leader may write to; ages are the API server's own, so that no clock must be right."""

    since: str = ""
    until: str = ""
    uids: frozenset[str] = frozenset()

    def covers(self, item: Metadata) -> bool:
        """Say whether a pod or claim is in the set."""
        return item.uid in self.uids or self.since <= item.creation_timestamp < self.until

    def text(self) -> str:
        """Return the set as the Lease carries it, with a checksum that shows if another client changed it."""
        return IN_FLIGHT_SETS.encode(self)


EVERYTHING: Final = InFlightSet(until=_LAST)
NOTHING: Final = InFlightSet()
"""The set that a leader leaves when it has finished everything."""


def parse(text: str) -> InFlightSet:
    """Read the set that a Lease carries; where no leader wrote the text, any pod may be in flight."""
    try:
        return IN_FLIGHT_SETS.decode_exactly(text)
    except (ValueError, NewerFormatError):
        return EVERYTHING


def _encode(value: InFlightSet) -> dict[str, Any]:
    document = {"since": value.since, "until": value.until, "uids": sorted(value.uids)}
    return {**document, "sum": _sum(document)}


def _decode(body: Mapping[str, Any]) -> InFlightSet:
    return InFlightSet(str(body["since"]), str(body["until"]), frozenset(map(str, body["uids"])))


IN_FLIGHT_SETS: Final[VersionedFormat[InFlightSet]] = VersionedFormat(
    "in-flight", JSON, {1: Codec(_encode, _decode)}
)


def choose(
    pending: Sequence[Metadata], binding: Iterable[str], queued: Iterable[str], until: str
) -> InFlightSet:
    """Return the set for pods being bound, for those next in the queue, and for all created before `until`.

    Where few pods are pending, their age covers them all. Where many are, it covers only the newest.
    """
    if len(pending) <= MOST:
        return InFlightSet(until=until, uids=frozenset(binding))
    newest = heapq.nlargest(MOST + 1, (pod.creation_timestamp for pod in pending))
    return InFlightSet(newest[-1] + _LAST, until, frozenset(binding) | frozenset(queued))


def _sum(document: object) -> str:
    return hashlib.sha256(repr(document).encode()).hexdigest()[:8]
