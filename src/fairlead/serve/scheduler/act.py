"""Carry out plans, many at once: book what must be booked, bind, and take back what could not be finished.

A write whose answer was lost is settled before anything else may count on it: what it would have given away
is taken back, or made impossible, however long the API server is away.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from uuid import uuid4

from fairlead.cache.pod_changes import alike
from fairlead.cache.types import CLAIMS, PODS, Claim, Pod
from fairlead.cluster import codec
from fairlead.cluster.changes import Key
from fairlead.cluster.meta import Object
from fairlead.errors import (
    ClusterAwayError,
    ClusterError,
    ConflictError,
    NotFoundError,
    TooLargeError,
    TooManyRequestsError,
)
from fairlead.manifest.volumeshapes import VOLUME_CLAIMS, VOLUMES
from fairlead.placement import Share
from fairlead.serve.scheduler import writes
from fairlead.serve.scheduler.writes import REQUEST, Plan, Write

S = TypeVar("S", bound=Object)
T = TypeVar("T")
_AWAY = (ClusterAwayError, TooManyRequestsError)
_PAUSE = 1.0
"""Seconds between tries to settle what became of a lost write."""
_TRIES = 5
"""How often a claim that others change at the same time is taken back."""


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
    turn: int
    """In which it was decided: when that is over, the next leader ends it."""
    version: str = ""
    """Of the pod, after our own write to it."""
    claims: list[Claim] = field(default_factory=list)
    """Those that were, or may have been, given something."""


class Hands:
    """Perform writes, so many at once."""

    def __init__(
        self,
        wire: Wire,
        in_flight: int = 64,
        leads: Callable[[int], bool] = lambda turn: True,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._wire = wire
        self.leads = leads
        """Says whether it is still the turn of that number."""
        self._say = say
        self.pause = pause
        self._room = asyncio.Semaphore(in_flight)
        self.count: Counter[tuple[str, str]] = Counter()
        """Writes by what was asked and what came of it."""

    async def carry_out(self, plans: Sequence[Plan], turn: int) -> dict[str, str]:
        """Place the pods of plans that belong together; return why not, by uid, for those that are not bound.

        All are booked before the first is bound, so that a gang that cannot be complete is not begun.
        """
        booked = [Booked(plan, turn) for plan in plans]
        results = await _together([self._tried(self._book(each)) for each in booked])
        failed = {each.plan.uid: text for each, text in zip(booked, results, strict=True) if text}
        if failed:
            first = next(iter(failed.values()))
            await asyncio.gather(*(self._undo(each) for each in booked))
            return {plan.uid: failed.get(plan.uid, f"another of its gang failed: {first}") for plan in plans}
        outcomes = await _together([self._bind(each) for each in booked])
        return {each.plan.uid: text for each, text in zip(booked, outcomes, strict=True) if text}

    async def insist(self, write: Write) -> bytes | None:
        """Send until there is an answer; None where the answer is no."""
        while True:
            try:
                return await self.send(write)
            except _AWAY:
                await self.pause(_PAUSE)
            except ClusterError:
                return None

    async def attempt(self, write: Write) -> bool:
        """Send once; what comes of it is not worth a second try."""
        try:
            await self.send(write)
        except ClusterError:
            return False
        return True

    async def touch(self, claim: Key, turn: int) -> Claim | None:
        """Change a claim so that what is late fails, and return it as it is now; None where it is gone."""
        mark, smaller = writes.touch_claim(*claim, turn, _nonce()), writes.unmark_claim(*claim)
        answer = await self._touched(mark, smaller)
        return None if answer is None else read(Claim, answer)

    async def touch_pod(self, pod: Pod, turn: int) -> Pod | None:
        """Do the same to a pod."""
        answer = await self._touched(writes.touch_pod(pod, turn, _nonce()), writes.shorten_pod(pod))
        return None if answer is None else read(Pod, answer)

    async def fence(self, write: Write) -> None:
        """Change an object so that what is late fails."""
        await self._touched(write, None)

    async def _touched(self, write: Write, smaller: Write | None) -> bytes | None:
        """Send until it is done, or there is nothing left to change; until then what is late could land.

        An object that its owner made so large that no mark fits is changed by making it smaller. Where that
        cannot be done it is left out: one tenant's object must not keep the scheduler from all others.
        """
        said = ""
        while True:
            try:
                return await self.send(write)
            except NotFoundError:
                return None
            except ConflictError:
                uid = write.body["metadata"].get("uid", "")
                now = await self.insist(Write("GET", write.path.removesuffix("/status")))
                if now is None or (uid and read(Pod, now).metadata.uid != uid):
                    return None  # another has its name by now
            except TooLargeError as error:
                if smaller is None:
                    self._say(f"left out: {error}")
                    return None
                write, smaller = smaller, None
            except ClusterError as error:
                if not isinstance(error, _AWAY) and str(error) != said:
                    said = str(error)
                    self._say(f"cannot go on: {said}")
                await self.pause(_PAUSE)

    async def drop(self, pod: Pod, names: Iterable[str], turn: int) -> None:
        """Take back the claims of a pod that is gone; a controller would, but later."""
        for name in names:
            path = CLAIMS.path(pod.metadata.namespace, name)
            answer = await self.insist(Write("GET", path))
            claim = None if answer is None else read(Claim, answer)
            if claim is not None and pod.metadata.uid in claim.users:
                await self.release(claim, pod, turn)

    async def release(self, claim: Claim, pod: Pod, turn: int) -> None:
        """Take back what a claim was given for a pod, while it is our turn: else that is for the next leader.

        It is touched first: an allocation whose answer was lost may still be on its way.
        """
        for _ in range(_TRIES):
            if not self.leads(turn):
                return
            now = await self.touch(claim.key, turn)
            if now is None or now.metadata.uid != claim.metadata.uid or await self._given_back(now, pod):
                return

    async def _given_back(self, claim: Claim, pod: Pod) -> bool:
        """Take back what a claim holds; say whether it was as we saw it."""
        if not claim.made_for(pod.metadata.uid):
            mine = any(each.uid == pod.metadata.uid for each in claim.status.reserved_for)
            return not mine or await self.insist(writes.give_back(claim, pod)) is not None
        answer = await self.insist(writes.loosen(claim))
        if answer is None:
            return False
        loose = read(Claim, answer)
        gone = bool(loose.metadata.deletion_timestamp)  # with its last finalizer it went
        return gone or await self.insist(writes.remove(loose)) is not None

    async def _book(self, booked: Booked) -> None:
        plan = booked.plan
        if plan.own:
            booked.version = read(Pod, await self.send(writes.point(plan))).metadata.resource_version
            if plan.made is not None and plan.made.results:
                await self.release(plan.made, plan.pod, booked.turn)
                raise ConflictError(f"{plan.made.metadata.name} was given to {plan.pod.metadata.name} before")
            claim = plan.made or read(Claim, await self.send(writes.make(plan.pod, plan.placement.shares)))
            await self._allocate(booked, claim, {REQUEST: plan.placement.shares})
        for claim, parts in writes.by_request(plan):
            now = claim
            if not writes.is_protected(claim):
                now = read(Claim, await self.send(writes.protect(claim)))
            await self._allocate(booked, now, parts)

    async def _allocate(self, booked: Booked, claim: Claim, parts: Mapping[str, Sequence[Share]]) -> None:
        """Give a claim its devices, if we still lead: a later leader sees it stand there and changes it."""
        booked.claims.append(claim)
        if not self.leads(booked.turn):
            raise ConflictError("another leads by now")
        answer = await self.send(writes.allocate(booked.plan, claim, parts))
        booked.claims[-1] = read(Claim, answer)

    async def _bind(self, booked: Booked) -> str:
        try:
            await self._bound(booked)
        except _AWAY as error:
            if getattr(error, "maybe_done", True) and await self._landed(booked):
                return ""
            await self._undo(booked)
            return str(error)
        except ClusterError as error:
            await self._undo(booked)
            return str(error)
        return ""

    async def _bound(self, booked: Booked) -> None:
        """Bind; where nothing was written to the pod meanwhile but what does not matter, once more."""
        try:
            await self.send(writes.bind(booked.plan, booked.version))
        except ConflictError:
            meta = booked.plan.pod.metadata
            now = read(Pod, await self.send(Write("GET", PODS.path(meta.namespace, meta.name))))
            # The mark of the next leader matters: with it the pod is not alike.
            if now.metadata.uid != meta.uid or not alike(booked.plan.pod, now) or not self.leads(booked.turn):
                raise
            await self.send(writes.bind(booked.plan, now.metadata.resource_version))

    async def _landed(self, booked: Booked) -> bool:
        """Say whether a binding whose answer was lost was made; if not, it cannot be made any more."""
        plan, meta = booked.plan, booked.plan.pod.metadata
        if plan.fenced:
            pod = await self.touch_pod(plan.pod, booked.turn)
        else:
            answer = await self.insist(Write("GET", PODS.path(meta.namespace, meta.name)))
            pod = None if answer is None else read(Pod, answer)
        if pod is None:
            return False
        return pod.metadata.uid == meta.uid and pod.spec.node_name == plan.placement.node

    async def _undo(self, booked: Booked) -> None:
        for claim in booked.claims:
            await self.release(claim, booked.plan.pod, booked.turn)

    async def _tried(self, step: Awaitable[None]) -> str:
        try:
            await step
        except ClusterError as error:
            return str(error)
        return ""

    async def send(self, write: Write) -> bytes:
        """Send a request and return its answer; one without an answer in time may have been carried out."""
        what, result = _what(write), "failed"
        body = codec.encode_plain(write.body) if write.body else None
        try:
            async with self._room:
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


def _nonce() -> str:
    return uuid4().hex[:8]


async def _together(steps: Sequence[Awaitable[T]]) -> list[T]:
    """Do steps at the same time; most are alone, and need no task of their own."""
    return [await steps[0]] if len(steps) == 1 else list(await asyncio.gather(*steps))


def _what(write: Write) -> str:
    """Return what a write is, as metrics name it: `pods/binding`, `resourceclaims`."""
    last = write.path.rpartition("/")[2]
    kinds = (CLAIMS.plural, VOLUME_CLAIMS.plural, VOLUMES.plural)
    kind = next((each for each in kinds if f"/{each}" in write.path), PODS.plural)
    return f"{kind}/{last}" if last in ("status", "binding", "eviction") else kind


def read(shape: type[S], data: bytes) -> S:
    """Return an answer as one of our objects."""
    return codec.decode_as(shape, data, shape.__name__)
