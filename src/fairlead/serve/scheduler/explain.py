"""Say of a pod why it waits, from what the scheduler remembers of it: nothing is listed, nothing is changed.

The sentence is that of the decision under which the pod waits: the same that its condition and its event
carry. What would let it fit is looked for when somebody asks. That takes a while on a large cluster, and
nothing is decided meanwhile; so it is remembered, and no more than a tenth of the time is given to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.manifest import keys
from fairlead.placement import Change, Decision
from fairlead.request import Request
from fairlead.schedule import explained
from fairlead.serve.scheduler.desk import Desk, Verdict
from fairlead.serve.scheduler.queue import Group
from fairlead.serve.scheduler.seen import Pod
from fairlead.serve.scheduler.tell import neighbours, spoken
from fairlead.settings import Address

PATH: Final = "/explain/"
"""Before `namespace/name`."""
_KEPT: Final = 10.0
"""Seconds for which changes are remembered: what would fit changes with every pod that comes or goes."""
_REST: Final = 9.0
"""Seconds of rest for each second of looking for changes."""
_MOST: Final = 256
"""Pods whose changes are remembered."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What would let a pod fit, as of one moment."""

    decision: Decision
    changes: tuple[Change, ...]
    at: float


class Explainer:
    """Answers for one replica."""

    def __init__(self, desk: Desk, me: str, scheduler: str, clock: Callable[[], float]) -> None:
        self._desk = desk
        self._who = {"leader": me, "scheduler": scheduler}
        self._clock = clock
        self._found: dict[str, _Found] = {}
        self._rests = 0.0
        """Until when no changes are looked for."""

    def answer(self, namespace: str, name: str) -> dict[str, Any]:
        """Return what is known of a pod; its state is `unknown` where it does not wait here."""
        pod = self._desk.fold.named(namespace, name)
        standing = self._standing(pod) if pod is not None else None
        return {**self._who, **(standing or _stranger(namespace, name))}

    def _standing(self, pod: Pod) -> dict[str, Any] | None:
        uid, now = pod.metadata.uid, self._clock()
        verdict, group = self._desk.verdicts.get(uid), self._desk.queue.group_of(uid)
        if not self._desk.fold.waits(uid):
            if verdict is None or not verdict.decision.placed:
                return None
            if uid in self._desk.fold.held:
                return {**_told(verdict, "volumes", now), "sentence": self._desk.sayings.text(uid)}
            return _told(verdict, "in-flight", now)
        if group is None:
            return _bare(pod, "unreadable", self._desk.sayings.text(uid))
        if verdict is None:
            return {**_bare(pod, "ready", f"{pod.metadata.name} waits for its turn"), **_times(group, now)}
        clearing = neighbours(pod.metadata.namespace, self._desk.clearing(uid))
        judged = {**self._judged(verdict, group, now), "clearing": clearing}
        if self._desk.fold.nominations.of(uid) is None:
            return judged
        return {**judged, "state": "nominated", "sentence": spoken(self._desk.sayings.text(uid))}

    def _judged(self, verdict: Verdict, group: Group, now: float) -> dict[str, Any]:
        state = "ready" if group.helps is None else "parked"
        if verdict.decision.placed:
            return {**_unwritten(verdict, now), "state": state, **_times(group, now)}
        changes, note = self._changes(verdict.decision, now)
        listed = [each.to_json() for each in changes]
        return {**_told(verdict, state, now), "changes": listed, "note": note, **_times(group, now)}

    def _changes(self, decision: Decision, now: float) -> tuple[tuple[Change, ...], str]:
        """Return what would let a request fit, and why nobody looked where nobody did."""
        uid = decision.request.id
        known = self._found.get(uid)
        if known is not None and known.decision is decision and now - known.at < _KEPT:
            return known.changes, ""
        if now < self._rests:
            return (), f"what would let it fit was not looked for: ask again in {self._rests - now:.0f} s"
        found = explained(self._desk.fold.cluster, decision, self._desk.policy).changes
        after = self._clock()
        self._rests = after + _REST * (after - now)
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[uid] = _Found(decision, found, after)
        return found, ""


def signs(where: Address, scheduler: str, environ: Mapping[str, str], host: str) -> dict[str, str]:
    """Return what the Lease says of its holder, so that it can be asked; nothing stays of the one before."""
    name, space = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    reachable = bool(name and space) and not where.loopback
    if where.host in ("", "::", "0.0.0.0"):  # noqa: S104 - everywhere is no address to go to
        where = Address(environ.get("POD_IP") or host, where.port)
    return {
        keys.LEADS_FOR: scheduler,
        keys.LEADER_ADDRESS: str(where),
        keys.LEADER_POD: f"{space}/{name}:{where.port}" if reachable else "",
    }


def _stranger(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "state": "unknown"}


def _bare(pod: Pod, state: str, sentence: str) -> dict[str, Any]:
    """Return the fields of a decision that was not made."""
    nobody = Decision(Request(pod.metadata.name, pod.metadata.namespace), "").to_json()
    return {**nobody, "state": state, "sentence": spoken(sentence)}


def _told(verdict: Verdict, state: str, now: float) -> dict[str, Any]:
    decision = replace(verdict.decision, changes=()).to_json()
    said = spoken(decision["sentence"])
    return {**decision, "sentence": said, "state": state, "decided_seconds_ago": round(now - verdict.at, 1)}


def _unwritten(verdict: Verdict, now: float) -> dict[str, Any]:
    """Return a decision that could not be carried out: for who waits, it is none."""
    told = _told(verdict, "parked", now)
    sentence = f"{told['sentence']}, but that could not be written; it is tried again"
    return {**told, "placed": False, "node": None, "shares": [], "sentence": sentence}


def _times(group: Group, now: float) -> dict[str, Any]:
    if group.helps is None:
        return {"wakes_on": [], "tried_again_in_seconds": None}
    left = round(max(0.0, group.until - now), 1)
    return {"wakes_on": sorted(each.value for each in group.helps), "tried_again_in_seconds": left}
