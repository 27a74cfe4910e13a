"""Bind pods to their placements: reserve claims, bind, and unreserve what could not be finished. Pure.

A write whose answer was lost is resolved before anything else may depend on it: what it would have allocated
is deallocated, or the write is fenced, however long the API server is unavailable.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.cache.pod_changes import is_unchanged
from fairlead.cache.types import CLAIMS, LiveClaim, LivePod
from fairlead.errors import ClusterError, ConflictError
from fairlead.serve.machine.flow import Flow
from fairlead.serve.machine.requests import Get
from fairlead.serve.scheduler.bind import writes
from fairlead.serve.scheduler.bind.requests import (
    UNAVAILABLE,
    Fences,
    decode,
    gather,
    get_pod,
    send_with_retry,
)
from fairlead.serve.scheduler.bind.writes import REQUEST, BindingPlan
from fairlead.share import DeviceShare

_TRIES = 5
"""How often the deallocation of a claim is tried while other clients change it."""


@dataclass(slots=True)
class ReservationProgress:
    """How far a plan has been written."""

    plan: BindingPlan
    epoch: int
    """The epoch in which it was decided: when that term is over, the next leader fences it."""
    version: str = ""
    """The pod's resource version, after our own write to it."""
    claims: list[LiveClaim] = field(default_factory=list)
    """The claims that are, or may be, allocated."""


class Binder:
    """Binds pods, as flows."""

    def __init__(self, leads: Callable[[int], bool], fences: Fences) -> None:
        self._leads = leads
        """Says whether this replica still leads in that epoch."""
        self._fences = fences

    def bind(self, plans: Sequence[BindingPlan], epoch: int) -> Flow[dict[str, str]]:
        """Bind the pods of plans that belong together; return the error, by uid, of each that is not bound.

        Every claim is reserved before the first pod is bound, so that no part of a gang is bound alone.
        """
        reserved = [ReservationProgress(plan, epoch) for plan in plans]
        results = yield from gather([self._try_reserve(progress) for progress in reserved])
        failed = {one.plan.uid: text for one, text in zip(reserved, results, strict=True) if text}
        if failed:
            first = next(iter(failed.values()))
            yield from gather([self._unreserve(progress) for progress in reserved])
            return {
                plan.uid: failed.get(plan.uid, f"another pod of its gang failed: {first}") for plan in plans
            }
        outcomes = yield from gather([self._bind(progress) for progress in reserved])
        return {one.plan.uid: text for one, text in zip(reserved, outcomes, strict=True) if text}

    def drop_claims(self, pod: LivePod, names: Iterable[str], epoch: int) -> Flow[None]:
        """Deallocate the claims of a deleted pod; a controller would do so later."""
        for name in names:
            path = CLAIMS.path(pod.metadata.namespace, name)
            answer = yield from send_with_retry(Get("GET", path))
            claim = None if answer is None else decode(LiveClaim, answer)
            if claim is not None and pod.metadata.uid in claim.users:
                yield from self.deallocate(claim, pod, epoch)

    def deallocate(self, claim: LiveClaim, pod: LivePod, epoch: int) -> Flow[None]:
        """Deallocate what a claim holds for a pod, while this term lasts: after it the next leader does.

        The claim is fenced first: an allocation whose answer was lost may still be on its way.
        """
        for _ in range(_TRIES):
            if not self._leads(epoch):
                return
            now = yield from self._fences.fence_claim(claim.key, epoch)
            if (
                now is None
                or now.metadata.uid != claim.metadata.uid
                or (yield from _deallocate_once(now, pod))
            ):
                return

    def _try_reserve(self, reserved: ReservationProgress) -> Flow[str]:
        try:
            yield from self._reserve(reserved)
        except ClusterError as error:
            return str(error)
        return ""

    def _reserve(self, reserved: ReservationProgress) -> Flow[None]:
        plan = reserved.plan
        if plan.own_claim:
            reserved.version = decode(
                LivePod, (yield writes.set_claim_status(plan))
            ).metadata.resource_version
            if plan.existing_claim is not None and plan.existing_claim.results:
                yield from self.deallocate(plan.existing_claim, plan.pod, reserved.epoch)
                raise ConflictError(
                    f"{plan.existing_claim.metadata.name} was allocated to {plan.pod.metadata.name} before"
                )
            claim = plan.existing_claim
            if claim is not None and not writes.is_protected(claim, by_use=plan.by_use):
                claim = decode(LiveClaim, (yield writes.protect(claim, by_use=plan.by_use)))
            if claim is None:
                claim = decode(
                    LiveClaim,
                    (yield writes.create_claim(plan.pod, plan.placement.shares, by_use=plan.by_use)),
                )
            yield from self._allocate(reserved, claim, {REQUEST: plan.placement.shares})
        for claim, parts in writes.shares_by_request(plan):
            now = claim
            if not writes.is_protected(claim, by_use=plan.by_use):
                now = decode(LiveClaim, (yield writes.protect(claim, by_use=plan.by_use)))
            yield from self._allocate(reserved, now, parts)

    def _allocate(
        self, reserved: ReservationProgress, claim: LiveClaim, parts: Mapping[str, Sequence[DeviceShare]]
    ) -> Flow[None]:
        """Allocate a claim's devices, if we still lead: a later leader sees the claim and fences it."""
        reserved.claims.append(claim)
        if not self._leads(reserved.epoch):
            raise ConflictError("another replica leads now")
        reserved.claims[-1] = decode(LiveClaim, (yield writes.allocate(reserved.plan, claim, parts)))

    def _bind(self, reserved: ReservationProgress) -> Flow[str]:
        try:
            yield from self._send_binding(reserved)
        except UNAVAILABLE as error:
            if getattr(error, "maybe_done", True) and (yield from self._is_bound(reserved)):
                return ""
            yield from self._unreserve(reserved)
            return str(error)
        except ClusterError as error:
            yield from self._unreserve(reserved)
            return str(error)
        return ""

    def _send_binding(self, reserved: ReservationProgress) -> Flow[None]:
        """Bind; try once more where only fields that do not affect scheduling changed meanwhile."""
        plan = reserved.plan
        try:
            yield writes.bind(plan, reserved.version)
        except ConflictError:
            now = decode(LivePod, (yield Get("GET", writes.pod_path(plan.pod))))
            # The next leader's mark counts as a change: then the binding fails.
            same = now.metadata.uid == plan.uid and is_unchanged(plan.pod, now)
            if not same or not self._leads(reserved.epoch):
                raise
            yield writes.bind(plan, now.metadata.resource_version)

    def _is_bound(self, reserved: ReservationProgress) -> Flow[bool]:
        """Say whether a binding whose answer was lost took effect; if not, it is fenced."""
        plan = reserved.plan
        if plan.fenced:
            pod = yield from self._fences.fence_pod(plan.pod, reserved.epoch)
        else:
            pod = yield from get_pod(plan.pod)
        if pod is None:
            return False
        return pod.metadata.uid == plan.uid and pod.spec.node_name == plan.placement.node

    def _unreserve(self, reserved: ReservationProgress) -> Flow[None]:
        for claim in reserved.claims:
            yield from self.deallocate(claim, reserved.plan.pod, reserved.epoch)


def _deallocate_once(claim: LiveClaim, pod: LivePod) -> Flow[bool]:
    """Deallocate a claim at the version we read; say whether nothing is left to deallocate."""
    if not claim.made_for(pod.metadata.uid):
        mine = any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)
        return not mine or (yield from send_with_retry(writes.deallocate(claim, pod))) is not None
    answer = yield from send_with_retry(writes.remove_finalizer(claim))
    if answer is None:
        return False
    unprotected = decode(LiveClaim, answer)
    deleted = bool(unprotected.metadata.deletion_timestamp)  # removing the last finalizer deleted it
    return deleted or (yield from send_with_retry(writes.delete_claim(unprotected))) is not None
