"""To whom a leader may give part of a device next, written down before it is given. Pure.

    since <= created < until   everybody of that age: newcomers are on it before they come
    uids                       those that are older: who is being placed, and who is next in the line

It stands in the leader's Lease. A leader that takes over from one that fell in the middle ends what may be
half done for these, instead of for everybody who waits: thousands may, where a cluster is full.
"""

import hashlib
import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.meta import Metadata

ANNOTATION: Final = "fairlead.dev/roster"
MOST: Final = 256
"""How many are written by name, and how many of those who wait are there by their age."""
_LAST: Final = "~"
"""After every time."""


@dataclass(frozen=True, slots=True)
class Roster:
    """Objects that a leader may write to; ages are the API server's own, so that no clock must be right."""

    since: str = ""
    until: str = ""
    uids: frozenset[str] = frozenset()

    def covers(self, item: Metadata) -> bool:
        """Say whether a pod or claim is on it."""
        return item.uid in self.uids or self.since <= item.creation_timestamp < self.until

    def text(self) -> str:
        """Return it as the Lease carries it, with a sum by which it shows if somebody else wrote there."""
        document = {"since": self.since, "until": self.until, "uids": sorted(self.uids)}
        return json.dumps({**document, "sum": _sum(document)}, separators=(",", ":"))


EVERYBODY: Final = Roster(until=_LAST)
NOBODY: Final = Roster()
"""What a leader leaves that has finished all it had begun."""


def parse(text: str) -> Roster:
    """Read what a Lease carries; where no leader wrote that, anybody may have been given something."""
    try:
        found = json.loads(text)
        since, until, uids = str(found["since"]), str(found["until"]), [str(each) for each in found["uids"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return EVERYBODY
    roster = Roster(since, until, frozenset(uids))
    return roster if roster.text() == text else EVERYBODY


def choose(waiting: Sequence[Metadata], now: Iterable[str], line: Iterable[str], until: str) -> Roster:
    """Return the roster for what is being placed `now`, for a `line`, and for those who come before `until`.

    While few wait, age says it all. Where many do, only the newest of them are there by their age.
    """
    if len(waiting) <= MOST:
        return Roster(until=until, uids=frozenset(now))
    newest = heapq.nlargest(MOST + 1, (each.creation_timestamp for each in waiting))
    return Roster(newest[-1] + _LAST, until, frozenset(now) | frozenset(line))


def _sum(document: object) -> str:
    return hashlib.sha256(repr(document).encode()).hexdigest()[:8]
