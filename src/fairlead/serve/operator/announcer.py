"""Events about resources: each once while it holds, and not too many about one resource. Pure."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.cluster.events import EventSubject, event_document
from fairlead.cluster.kinds import EVENTS
from fairlead.reconcile import Announcement, Manifest
from fairlead.serve.machine.requests import MERGE
from fairlead.serve.operator.kinds import metadata_of
from fairlead.serve.operator.writes import WriteEvent

COMPONENT: Final = "fairlead-operator"
_MOST: Final = 25
_WINDOW: Final = 300.0
"""Seconds in which a resource has at most so many events: an announced value may change always."""
_LONGEST: Final = 1000
_KEPT: Final = 200
"""Different events of one resource that are counted."""


@dataclass(slots=True)
class _Announced:
    """The events of one resource."""

    last: dict[tuple[str, str], str] = field(default_factory=dict)
    """The message that was announced last, by type and reason."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST))


class Announcer:
    """The events that were written, by the uid of the resource."""

    def __init__(self) -> None:
        self._announced: dict[str, _Announced] = {}

    def requests(
        self, resource: Manifest, announcements: Sequence[Announcement], now: float, wall: str
    ) -> list[WriteEvent]:
        """Return the writes for what was not announced yet; `wall` is the time for people."""
        known = self._announced.setdefault(metadata_of(resource)["uid"], _Announced())
        requests = []
        for one in announcements:
            text = one.message if len(one.message) <= _LONGEST else f"{one.message[: _LONGEST - 1]}…"
            if known.last.get((one.type, one.reason)) == text:
                continue
            if len(known.times) == _MOST and now - known.times[0] < _WINDOW:
                break
            known.last[one.type, one.reason] = text
            known.times.append(now)
            if len(known.counts) >= _KEPT:
                known.counts.clear()
            known.counts[one.type, one.reason, text] += 1
            count = known.counts[one.type, one.reason, text]
            requests.append(_write(resource, (one.type, one.reason, text), count, wall))
        return requests

    def forget(self, uid: str) -> None:
        """Forget a resource that is gone."""
        self._announced.pop(uid, None)


def _write(resource: Manifest, summary: tuple[str, str, str], count: int, wall: str) -> WriteEvent:
    metadata = metadata_of(resource)
    about = EventSubject(
        resource["apiVersion"],
        resource["kind"],
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
    )
    # Without the time in its name: a new leader finds the events of the last one.
    event = event_document(about, COMPONENT, summary, wall, " ".join((about.uid, *summary)))
    if count == 1:
        return WriteEvent("POST", EVENTS.path(about.home), event)
    change: dict[str, Any] = {"count": count, "lastTimestamp": wall}
    return WriteEvent("PATCH", EVENTS.path(about.home, event["metadata"]["name"]), change, MERGE)
