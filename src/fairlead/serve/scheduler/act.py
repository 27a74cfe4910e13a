"""Carry out plans, many at once: book what must be booked, bind, and take back what could not be finished.

A write whose answer was lost is settled before anything else may count on it: what it would have given away
is taken back, or made impossible, however long the API server is away.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from fairlead.cluster import codec
from fairlead.cluster.meta import Object
from fairlead.errors import ClusterAwayError, ClusterError, ConflictError, TooManyRequestsError
from fairlead.serve.scheduler import writes
from fairlead.serve.scheduler.seen import CLAIMS, PODS, Claim, Pod
from fairlead.serve.scheduler.writes import REQUEST, Plan, Write

S = TypeVar("S", bound=Object)
_AWAY = (ClusterAwayError, TooManyRequestsError)
_PAUSE = 1.0
"""Seconds between tries to settle what became of a lost write."""


class Wire(Protocol):
    """What carries a request to the API server; `Client` does."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = ...
    ) -> bytes:
        """Ask, and return the answer's bytes."""


@dataclass(slots=True)
class Booked:
    """How far a plan was carried out."""

    plan: Plan
    version: str = ""
    """Of the pod, after our own write to it."""
    claims: list[Claim] = field(default_factory=list)
    """Those that were, or may have been, given something."""


class Hands:
    """Perform writes, so many at once."""

    def __init__(self, wire: Wire, turn: Callable[[], int], in_flight: int = 64) -> None:
        self._wire = wire
        self._turn = turn
        self._room = asyncio.Semaphore(in_flight)
        self.count: Counter[tuple[str, str]] = Counter()
        """Writes by what was asked and what came of it."""

    async def carry_out(self, plans: Sequence[Plan]) -> dict[str, str]:
        """Place the pods of plans that belong together; return why not, by uid, for those that are not bound.

        All are booked before the first is bound, so that a gang that cannot be complete is not begun.
        """
        booked = [Booked(plan) for plan in plans]
        results = await asyncio.gather(*(self._tried(self._book(each)) for each in booked))
        failed = {each.plan.uid: text for each, text in zip(booked, results, strict=True) if text}
        if failed:
            first = next(iter(failed.values()))
            await asyncio.gather(*(self._undo(each) for each in booked))
            return {plan.uid: failed.get(plan.uid, f"another of its gang failed: {first}") for plan in plans}
        outcomes = await asyncio.gather(*(self._bind(each) for each in booked))
        return {each.plan.uid: text for each, text in zip(booked, outcomes, strict=True) if text}

    async def insist(self, write: Write) -> bytes | None:
        """Send until there is an answer; None where the answer is no."""
        while True:
            try:
                return await self._send(write)
            except _AWAY:
                await asyncio.sleep(_PAUSE)
            except ClusterError:
                return None

    async def attempt(self, write: Write) -> bool:
        """Send once; what comes of it is not worth a second try."""
        try:
            await self._send(write)
        except ClusterError:
            return False
        return True

    async def drop(self, plan: Plan) -> None:
        """Take back the claim that was made for a pod that is gone; a controller would, but later."""
        meta = plan.pod.metadata
        answer = await self.insist(Write("GET", CLAIMS.path(meta.namespace, writes.claim_name(plan.pod))))
        claim = None if answer is None else read(Claim, answer)
        if claim is not None and plan.uid in claim.users:
            await self.release(claim, plan.pod)

    async def release(self, claim: Claim, pod: Pod) -> None:
        """Take back what a claim was given."""
        for write in writes.release(claim, pod):
            await self.insist(write)

    async def _book(self, booked: Booked) -> None:
        plan = booked.plan
        if plan.own:
            booked.version = read(Pod, await self._send(writes.point(plan))).metadata.resource_version
            if plan.made is not None and plan.made.results:
                await self.release(plan.made, plan.pod)
                raise ConflictError(f"{plan.made.metadata.name} was given to {plan.pod.metadata.name} before")
            claim = plan.made or read(Claim, await self._send(writes.make(plan.pod, plan.placement.shares)))
            booked.claims.append(claim)
            await self._send(writes.allocate(plan, claim, {REQUEST: plan.placement.shares}))
        for claim, parts in writes.by_request(plan):
            now = claim
            if writes.FINALIZER not in claim.metadata.finalizers:
                now = read(Claim, await self._send(writes.protect(claim)))
            booked.claims.append(now)
            booked.claims[-1] = read(Claim, await self._send(writes.allocate(plan, now, parts)))

    async def _bind(self, booked: Booked) -> str:
        try:
            await self._send(writes.bind(booked.plan, booked.version))
        except _AWAY as error:
            if getattr(error, "maybe_done", True) and await self._landed(booked.plan):
                return ""
            await self._undo(booked)
            return str(error)
        except ClusterError as error:
            await self._undo(booked)
            return str(error)
        return ""

    async def _landed(self, plan: Plan) -> bool:
        """Say whether a binding whose answer was lost was made; if not, it cannot be made any more."""
        meta = plan.pod.metadata
        write = writes.touch_pod(plan.pod, self._turn())
        if not plan.fenced:
            write = Write("GET", PODS.path(meta.namespace, meta.name))
        answer = await self.insist(write)
        if answer is None:
            return False
        pod = read(Pod, answer)
        return pod.metadata.uid == meta.uid and pod.spec.node_name == plan.placement.node

    async def _undo(self, booked: Booked) -> None:
        for claim in booked.claims:
            await self.release(claim, booked.plan.pod)

    async def _tried(self, step: Awaitable[None]) -> str:
        try:
            await step
        except ClusterError as error:
            return str(error)
        return ""

    async def _send(self, write: Write) -> bytes:
        what, result = _what(write), "failed"
        try:
            async with self._room:
                body = codec.encode_plain(write.body) if write.body else None
                answer = await self._wire.request(
                    write.method, write.path, body=body, content_type=write.content_type
                )
            result = "done"
            return answer
        except ClusterError as error:
            result = error.reason or type(error).__name__.removesuffix("Error")
            raise
        finally:
            self.count[what, result] += 1


def _what(write: Write) -> str:
    """Return what a write is, as metrics name it: `pods/binding`, `resourceclaims`."""
    last = write.path.rpartition("/")[2]
    kind = CLAIMS.plural if f"/{CLAIMS.plural}" in write.path else PODS.plural
    return f"{kind}/{last}" if last in ("status", "binding", "eviction") else kind


def read(shape: type[S], data: bytes) -> S:
    """Return an answer as one of our objects."""
    return codec.decode_as(shape, data, shape.__name__)
