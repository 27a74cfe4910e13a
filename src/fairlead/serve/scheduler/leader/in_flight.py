"""The pods to which a leader may give part of a device next, written down before it is given. Pure.

    since <= created < until   every pod of that age: new pods are in the set before they come
    uids                       older pods: those that are being placed, and those that are next in the queue

It stands in the leader's Lease. A leader that takes over from one that stopped in the middle ends what may be
half done for these pods, instead of for every pod that waits: thousands may, where a cluster is full.
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
"""Pods that are written by name, at most, and pending pods that are in the set by their age."""
_LAST: Final = "~"
"""After every time."""


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
        """Return it as the Lease carries it, with a checksum that shows if another client wrote there."""
        return IN_FLIGHT_SETS.encode(self)


EVERYTHING: Final = InFlightSet(until=_LAST)
NOTHING: Final = InFlightSet()
"""The set that a leader leaves when it has finished everything."""


def parse(text: str) -> InFlightSet:
    """Read what a Lease carries; where no leader wrote that, any pod may be in flight."""
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


def choose(waiting: Sequence[Metadata], now: Iterable[str], line: Iterable[str], until: str) -> InFlightSet:
    """Return the set for the pods being placed `now`, for a `line`, and for pods created before `until`.

    While few pods wait, age says it all. Where many do, only the newest of them are in it by their age.
    """
    if len(waiting) <= MOST:
        return InFlightSet(until=until, uids=frozenset(now))
    newest = heapq.nlargest(MOST + 1, (each.creation_timestamp for each in waiting))
    return InFlightSet(newest[-1] + _LAST, until, frozenset(now) | frozenset(line))


def _sum(document: object) -> str:
    return hashlib.sha256(repr(document).encode()).hexdigest()[:8]
