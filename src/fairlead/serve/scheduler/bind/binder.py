"""Carry out placements: reserve what must be reserved, bind, and take back what could not be finished. Pure.

A write whose answer was lost is settled before anything else may count on it: what it would have given away
is taken back, or made impossible, however long the API server is away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.cache.pod_changes import is_unchanged
from fairlead.cache.types import CLAIMS, LiveClaim, LivePod
from fairlead.errors import ClusterError, ConflictError
from fairlead.placement import DeviceShare
from fairlead.serve.machine.flow import Flow
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
from fairlead.serve.scheduler.effects import Get

_TRIES = 5
"""How often a claim that others change at the same time is taken back."""


@dataclass(slots=True)
class ReservationProgress:
    """How far a plan was carried out."""

    plan: BindingPlan
    epoch: int
    """In which it was decided: when that term is over, the next leader ends it."""
    version: str = ""
    """Of the pod, after our own write to it."""
    claims: list[LiveClaim] = field(default_factory=list)
    """Those that were, or may have been, given something."""


class Binder:
    """Performs placements as flows."""

    def __init__(self, leads: Callable[[int], bool], fences: Fences) -> None:
        self._leads = leads
        """Says whether it is still the term of that epoch."""
        self._fences = fences

    def bind(self, plans: Sequence[BindingPlan], epoch: int) -> Flow[dict[str, str]]:
        """Place the pods of plans that belong together; return why not, by uid, for those that are not bound.

        Everything is reserved before the first pod is bound, so that no part of a gang is bound alone.
        """
        reserved = [ReservationProgress(plan, epoch) for plan in plans]
        results = yield from gather([self._try_reserve(each) for each in reserved])
        failed = {each.plan.uid: text for each, text in zip(reserved, results, strict=True) if text}
        if failed:
            first = next(iter(failed.values()))
            yield from gather([self._unreserve(each) for each in reserved])
            return {plan.uid: failed.get(plan.uid, f"another of its gang failed: {first}") for plan in plans}
        outcomes = yield from gather([self._bind(each) for each in reserved])
        return {each.plan.uid: text for each, text in zip(reserved, outcomes, strict=True) if text}

    def drop_claims(self, pod: LivePod, names: Iterable[str], epoch: int) -> Flow[None]:
        """Take back the claims of a pod that is gone; a controller would, but later."""
        for name in names:
            path = CLAIMS.path(pod.metadata.namespace, name)
            answer = yield from send_with_retry(Get("GET", path))
            claim = None if answer is None else decode(LiveClaim, answer)
            if claim is not None and pod.metadata.uid in claim.users:
                yield from self.deallocate(claim, pod, epoch)

    def deallocate(self, claim: LiveClaim, pod: LivePod, epoch: int) -> Flow[None]:
        """Take back what a claim was given for a pod, while this term lasts: else the next leader does.

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
                    f"{plan.existing_claim.metadata.name} was given to {plan.pod.metadata.name} before"
                )
            claim = plan.existing_claim
            if claim is None:
                claim = decode(LiveClaim, (yield writes.create_claim(plan.pod, plan.placement.shares)))
            yield from self._allocate(reserved, claim, {REQUEST: plan.placement.shares})
        for claim, parts in writes.shares_by_request(plan):
            now = claim
            if not writes.is_protected(claim):
                now = decode(LiveClaim, (yield writes.protect(claim)))
            yield from self._allocate(reserved, now, parts)

    def _allocate(
        self, reserved: ReservationProgress, claim: LiveClaim, parts: Mapping[str, Sequence[DeviceShare]]
    ) -> Flow[None]:
        """Give a claim its devices, if we still lead: a later leader sees it and fences it."""
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
        """Bind; where only what does not matter was written to the pod meanwhile, once more."""
        plan = reserved.plan
        try:
            yield writes.bind(plan, reserved.version)
        except ConflictError:
            now = decode(LivePod, (yield Get("GET", writes.pod_path(plan.pod))))
            # The next leader's mark matters: with it the pod is not alike.
            same = now.metadata.uid == plan.uid and is_unchanged(plan.pod, now)
            if not same or not self._leads(reserved.epoch):
                raise
            yield writes.bind(plan, now.metadata.resource_version)

    def _is_bound(self, reserved: ReservationProgress) -> Flow[bool]:
        """Say whether a binding whose answer was lost was made; if not, it cannot be made any more."""
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
    """Take back what a claim holds; say whether it was as we saw it."""
    if not claim.made_for(pod.metadata.uid):
        mine = any(each.uid == pod.metadata.uid for each in claim.status.reserved_for)
        return not mine or (yield from send_with_retry(writes.deallocate(claim, pod))) is not None
    answer = yield from send_with_retry(writes.remove_finalizer(claim))
    if answer is None:
        return False
    loose = decode(LiveClaim, answer)
    gone = bool(loose.metadata.deletion_timestamp)  # with its last finalizer it went
    return gone or (yield from send_with_retry(writes.delete_claim(loose))) is not None
