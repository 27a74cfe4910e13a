"""How data moves to a smaller claim: what is done next, from what is observed. Pure.

Copy beside the store, freeze writes, copy the rest and compare all, switch, let the old claim go. The label
of the new claim decides whether it counts: before it says so, all can go back, and the old claim serves.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from fairlead.augmentobjects.claims import SERVED, TARGET, ObservedClaim, target_claim
from fairlead.augmentobjects.copy_pod import copy_pod, last_words, phase_of, run_time
from fairlead.augmentobjects.names import APPLICATION, COPY, DATA, LAST_COPY, STORE, claim_name
from fairlead.augmentobjects.report import StoreReport
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.compat import StrEnum
from fairlead.compat.times import parse_iso
from fairlead.ownedobjects.pod_state import DELETED, PodState, pod_state
from fairlead.ownedobjects.pod_status import readiness_of
from fairlead.reconcile import Manifest
from fairlead.units import Bytes, format_quantity

_UNUSED: Final = (PodState.OUTDATED, *DELETED)
QUIET_WITHIN: Final = timedelta(minutes=2)
"""How long the writes in progress may take to end; then the freeze is given up."""
FREEZE: Final = timedelta(minutes=30)
"""How long writes may be frozen before the switch."""
_MEBIBYTE: Final = 1 << 20
Json = dict[str, Any]


class MovePhase(StrEnum):
    """How far a move is."""

    WAITING = "Waiting"
    """Something else comes first."""
    COPYING = "Copying"
    """The first pass, while the store serves."""
    FREEZING = "Freezing"
    """Writes are refused; those in progress end."""
    VERIFYING = "Verifying"
    """The last pass copies what has changed, and compares all."""
    SWITCHING = "Switching"
    """The new claim counts; pods are replaced."""
    DONE = "Done"
    FAILED = "Failed"
    """The old claim serves, as before."""


OVER: Final = (MovePhase.DONE, MovePhase.FAILED)


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What a move is decided by."""

    claims: Mapping[str, ObservedClaim]
    pods: Mapping[str, Manifest]
    """By their part."""
    report: StoreReport | None
    is_sized: bool
    """Whether the quota is the size that is asked for."""
    before: Mapping[str, Any]
    """What the status said of the move."""
    image: str
    now: datetime


@dataclass(frozen=True, slots=True)
class DataMove:
    """What is done now."""

    phase: MovePhase | None = None
    """None: no move is asked for."""
    message: str = ""
    freeze: str = ""
    """Why writes are refused; empty: they are not."""
    stops_application: bool = False
    objects: tuple[Json, ...] = ()
    """The new claim, and the pods that copy."""
    release: frozenset[str] = field(default=frozenset())
    """Claims whose data is in another one: they are deleted."""
    reason: str = ""
    """Of a failure: in one word."""

    @property
    def is_under_way(self) -> bool:
        """Whether it is asked for, and not over."""
        return self.phase is not None and self.phase not in OVER


def needed_for(used: int) -> Bytes:
    """Return the least size of a claim for what is used: a file system and the store need some room."""
    return Bytes(used + max(_MEBIBYTE, used // 20))


def decide_move(resource: AugmentationResource, facts: MoveFacts) -> DataMove:
    """Return what is done now."""
    serving = facts.claims.get(claim_name(resource.name, DATA, resource.data_claim))
    older = frozenset(each.name for each in _data(facts) if each.number < resource.data_claim)
    if older or _foreign_store(resource, facts):
        return _release(resource, facts, older)
    handled = facts.before.get("request") == resource.reclaim and facts.before.get("phase") in OVER
    if not resource.reclaim or handled or serving is None or not serving.is_bound or serving.is_ending:
        return _rest(resource, facts)
    size = resource.spec.storage.size
    if serving.requested <= size:
        return DataMove(MovePhase.DONE, f"claim {serving.name} asks for {format_quantity(serving.requested)}")
    late = _late(facts)
    return late or _check(resource, facts) or _copy(resource, facts)


def _rest(resource: AugmentationResource, facts: MoveFacts) -> DataMove:
    """Return what is left of a move that is over, or that nobody asks for any more."""
    phase = facts.before.get("phase")
    if resource.reclaim and facts.before.get("request") == resource.reclaim and phase in OVER:
        message, reason = str(facts.before.get("message") or ""), str(facts.before.get("reason") or "")
        return DataMove(MovePhase(phase), message, reason=reason)
    return DataMove()


def _release(resource: AugmentationResource, facts: MoveFacts, older: frozenset[str]) -> DataMove:
    """Return the steps after the switch: the old claim goes once the store is ready on the new one."""
    name, phase = claim_name(resource.name, DATA, resource.data_claim), MovePhase.SWITCHING
    if _foreign_store(resource, facts):
        return DataMove(phase, f"the store moves to claim {name}", _reason(resource))
    if not is_store_ready(facts.pods):
        return DataMove(phase, f"claim {name} has the data; the old one stays until the store is ready on it")
    return DataMove(phase, f"{', '.join(sorted(older))} goes: the store serves claim {name}", release=older)


def is_store_ready(pods: Mapping[str, Manifest]) -> bool:
    """Return whether the store serves, and is not about to end."""
    store = pods.get(STORE)
    return (
        store is not None and not store["metadata"].get("deletionTimestamp") and readiness_of(store).is_ready
    )


def _foreign_store(resource: AugmentationResource, facts: MoveFacts) -> bool:
    """Return whether a store is observed that serves another claim than the one that counts."""
    volumes = ((facts.pods.get(STORE) or {}).get("spec") or {}).get("volumes") or ()
    names = {
        each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim")
    }
    data = {name for name in names if name.startswith(claim_name(resource.name, DATA))}
    return bool(data) and claim_name(resource.name, DATA, resource.data_claim) not in data


def _late(facts: MoveFacts) -> DataMove | None:
    since = facts.before.get("frozenSince")
    if since and facts.now - parse_iso(since) > FREEZE:
        text = f"writes were frozen for {FREEZE.seconds // 60} minutes, and the copy was not done"
        return _failed("FrozenTooLong", f"{text}: ask for less data at once, or try when the volume is idle")
    return None


def _check(resource: AugmentationResource, facts: MoveFacts) -> DataMove | None:
    """Return what comes before a move, or makes it impossible; None: it can go on."""
    used, size = facts.report.used if facts.report is not None else None, resource.spec.storage.size
    if used is not None and needed_for(used) > size:
        needed = format_quantity(needed_for(used))
        text = f"{format_quantity(used)} are in use, and with some room they need {needed}"
        return _failed(
            "DoesNotFit", f"{text}, more than {format_quantity(size)}: remove files, or ask for more"
        )
    if LAST_COPY in facts.pods or COPY in facts.pods:
        return None
    if used is None:
        return DataMove(MovePhase.WAITING, "the store is asked what it holds")
    if not facts.is_sized:
        return DataMove(
            MovePhase.WAITING, "the quota comes first: the condition Sized says why it is not in force"
        )
    return None


def _copy(resource: AugmentationResource, facts: MoveFacts) -> DataMove:
    """Return the steps before the switch."""
    name = claim_name(resource.name, DATA, resource.data_claim + 1)
    target, size = facts.claims.get(name), resource.spec.storage.size
    if target is not None and (target.is_ending or target.requested != size or target.stage != TARGET):
        return _clear(target)
    claim = target_claim(resource)
    pods = {part: copy_pod(resource, facts.image, part) for part in (COPY, LAST_COPY)}
    states = {
        part: pod_state(facts.pods[part], pods[part], facts.now) if part in facts.pods else None
        for part in pods
    }
    for part, state in states.items():
        if state is PodState.ENDED and phase_of(facts.pods[part]) == "Failed":
            return _failed("CopyFailed", last_words(facts.pods[part]))
    if states[COPY] in _UNUSED:
        return DataMove(MovePhase.WAITING, "the pod of an earlier copy ends", objects=(claim,))
    if states[COPY] is PodState.ENDED and states[LAST_COPY] in _UNUSED:
        return _again(resource, pods)
    if states[LAST_COPY] is not None:
        return _verify(resource, facts, pods)
    if states[COPY] is PodState.ENDED:
        return _freeze(resource, facts, pods)
    text = f"{format_quantity(size)} claim {name} is filled while the store serves"
    if target is not None and not target.is_bound:
        text = f"claim {name} waits for a volume; if it stays so: "
        text += f"kubectl -n {resource.namespace} describe pvc {name}"
    return DataMove(MovePhase.COPYING, text, objects=(claim, pods[COPY]))


def _clear(target: ObservedClaim) -> DataMove:
    what = "goes first" if target.stage == TARGET else "is in the way: rename or delete it"
    return DataMove(MovePhase.WAITING, f"claim {target.name} of an earlier move {what}")


def _freeze(resource: AugmentationResource, facts: MoveFacts, pods: Mapping[str, Json]) -> DataMove:
    """Return the step that waits until nobody writes, and then begins the last pass."""
    frozen, report = _reason(resource), facts.report
    since = facts.before.get("frozenSince")
    waits = DataMove(
        MovePhase.FREEZING,
        "writes are refused, and those in progress end; the application is stopped",
        frozen,
        stops_application=True,
        objects=(target_claim(resource), pods[COPY]),
    )
    if APPLICATION not in facts.pods and report is not None and _is_quiet(report, frozen):
        return _frozen(resource, pods, MovePhase.VERIFYING, "the last pass compares every byte")
    if since and facts.now - parse_iso(since) > QUIET_WITHIN:
        text = f"writes did not end within {QUIET_WITHIN.seconds // 60} minutes"
        return _failed("NotQuiet", f"{text}: try again when no long upload is in progress")
    return waits


def _verify(resource: AugmentationResource, facts: MoveFacts, pods: Mapping[str, Json]) -> DataMove:
    """Return the steps of the last pass, which counts if nobody wrote since before it began."""
    last, frozen, report = facts.pods[LAST_COPY], _reason(resource), facts.report
    text = "the last pass compares every byte"
    if APPLICATION in facts.pods:
        return _again(resource, pods)
    if phase_of(last) != "Succeeded":
        return _frozen(resource, pods, MovePhase.VERIFYING, text)
    times = run_time(last)
    if not _is_verified(last) or times is None:
        return _failed("CopyFailed", f"the last pass has not compared all: {last_words(last)}")
    started, ended = times
    if report is None or report.at is None or report.at <= ended:
        return _frozen(resource, pods, MovePhase.VERIFYING, "all is the same; the store is asked once more")
    if not _is_quiet(report, frozen) or (report.quiet_since or ended) > started:
        return _again(resource, pods)
    text, objects = "all is the same: the new claim counts from now on", (target_claim(resource, SERVED),)
    return DataMove(MovePhase.SWITCHING, text, frozen, stops_application=True, objects=objects)


def _again(resource: AugmentationResource, pods: Mapping[str, Json]) -> DataMove:
    """Return the step back to the freeze: the store or the application was started again meanwhile."""
    text = "something may have written during the last pass: it is repeated"
    objects = (target_claim(resource), pods[COPY])
    return DataMove(MovePhase.FREEZING, text, _reason(resource), stops_application=True, objects=objects)


def _frozen(
    resource: AugmentationResource, pods: Mapping[str, Json], phase: MovePhase, text: str
) -> DataMove:
    objects = (target_claim(resource), pods[COPY], pods[LAST_COPY])
    return DataMove(phase, text, _reason(resource), stops_application=True, objects=objects)


def _is_quiet(report: StoreReport, frozen: str) -> bool:
    return report.frozen == frozen and report.quiet_since is not None


def _is_verified(pod: Manifest) -> bool:
    try:
        return json.loads(last_words(pod)).get("is_verified") is True
    except (AttributeError, ValueError):
        return False


def _failed(reason: str, message: str) -> DataMove:
    return DataMove(
        MovePhase.FAILED, f"{message}; nothing has changed, and resize --reclaim tries again", reason=reason
    )


def _reason(resource: AugmentationResource) -> str:
    """Return what a device reads while writes are refused; another request has another text."""
    size = format_quantity(resource.spec.storage.size)
    return (
        f"its data moves to a volume of {size}, and the store is back in a moment (move {resource.reclaim})"
    )


def _data(facts: MoveFacts) -> list[ObservedClaim]:
    return [each for each in facts.claims.values() if each.part == DATA]
