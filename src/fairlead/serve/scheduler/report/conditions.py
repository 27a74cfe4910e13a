"""Report why pods wait: a condition and an event each, when the reason changes, at a bounded rate. Pure."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cache.types import SCHEDULED, LivePod
from fairlead.cluster.events import EventSubject, event_document
from fairlead.cluster.kinds import EVENTS
from fairlead.serve.scheduler.bind.writes import pod_status
from fairlead.serve.scheduler.effects import Report

COMPONENT: Final = "fairlead-scheduler"
WAITING_FOR_VOLUMES: Final = "WaitingForVolumes"
EVERY: Final = 10.0
"""Seconds between two reports on one pod: their amounts change with every pod that is created or deleted."""
_LONGEST: Final = 1000
_NAMED: Final = 5
"""The most pods that a sentence names."""


def shorten(text: str) -> str:
    """Return a reason, shortened for conditions, events and explanations alike."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def visible_names(namespace: str, pods: Sequence[str]) -> list[str]:
    """Return pods of this namespace by name, and the number of others: a tenant may not see their names."""
    own = [pod for pod in pods if pod.startswith(f"{namespace}/")]
    others = len(pods) - len(own)
    return [*own, *([f"{others} of other namespaces"] if others else [])]


def waits_for(namespace: str, pods: Sequence[str]) -> str:
    """Return the end of a sentence: the pods that a preemptor waits for; empty where none is left."""
    if not pods:
        return ""
    names = visible_names(namespace, pods)
    shown = ", ".join(names[:_NAMED]) + (" ..." if names[_NAMED:] else "")
    return f" and waits until {shown} {'is' if len(pods) == 1 else 'are'} gone"


@dataclass(frozen=True, slots=True)
class ReportedReason:
    """The reason that was reported last for a pod, and when."""

    text: str
    at: float


class StatusReporter:
    """The reasons to report for pending pods."""

    def __init__(self) -> None:
        self._reported: dict[str, ReportedReason] = {}
        self._due: dict[str, str] = {}

    def add(self, uid: str, text: str) -> None:
        """Queue a reason for the next report on a pod; a newer one replaces it."""
        text, reported = shorten(text), self._reported.get(uid)
        if reported is not None and reported.text == text:
            self._due.pop(uid, None)
        else:
            self._due[uid] = text

    def text(self, uid: str) -> str:
        """Return the newest reason for a pod, reported or not; empty where there is none."""
        reported = self._reported.get(uid)
        return self._due.get(uid) or (reported.text if reported else "")

    def forget(self, uid: str) -> None:
        """Forget a pod: it is bound, or deleted."""
        self._reported.pop(uid, None)
        self._due.pop(uid, None)

    def drop(self, uid: str) -> None:
        """Drop a reason that is not reported yet: the pod is being bound."""
        self._due.pop(uid, None)

    def take(self, now: float, most: int, silent: Container[str] = ()) -> dict[str, str]:
        """Return and remove up to `most` reasons that may be reported now, except of `silent` pods."""
        ready = [uid for uid in self._due if uid not in silent and self._may_report(uid, now)][:most]
        reasons = {uid: self._due.pop(uid) for uid in ready}
        self._reported |= {uid: ReportedReason(text, now) for uid, text in reasons.items()}
        return reasons

    def _may_report(self, uid: str, now: float) -> bool:
        reported = self._reported.get(uid)
        return reported is None or now - reported.at >= EVERY


def report_unschedulable(pod: LivePod, text: str, now: str) -> list[Report]:
    """Return the condition and the event that report why a pod is unschedulable."""
    return [condition(pod, text, now), event(pod, "Warning", "FailedScheduling", text, now)]


def report_waiting_for_volumes(pod: LivePod, text: str, now: str) -> list[Report]:
    """Return the condition and the event of a pod with a place; its reason makes no autoscaler add a node."""
    return [
        condition(pod, text, now, WAITING_FOR_VOLUMES),
        event(pod, "Normal", WAITING_FOR_VOLUMES, text, now),
    ]


def condition(pod: LivePod, text: str, now: str, reason: str = "Unschedulable") -> Report:
    """Return the write of the condition that `kubectl describe` and autoscalers read."""
    before = pod.condition(SCHEDULED)
    body = {
        "type": SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": text,
        "lastTransitionTime": before.last_transition_time if before.status == "False" else now,
    }
    return pod_status(Report, pod, {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [body]}})


def event(pod: LivePod, kind: str, reason: str, text: str, now: str) -> Report:
    """Return the write of an event on a pod; the same text on the same pod is the same event."""
    meta = pod.metadata
    about = EventSubject("v1", "Pod", meta.namespace, meta.name, meta.uid)
    identity = f"{meta.uid} {reason} {text} {now}"
    body = event_document(about, COMPONENT, (kind, reason, text), now, identity)
    return Report("POST", EVENTS.path(meta.namespace), body)
