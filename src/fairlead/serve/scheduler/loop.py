"""The scheduler's loop: follow the cluster, decide while leading, and carry it out.

informers -> fold -> queue -> engine -> plans -> writes
    ^                                             |
    +---------------- the API <-------------------+
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from fairlead.catalog import Catalog
from fairlead.cluster.changes import Change
from fairlead.cluster.client import Client
from fairlead.cluster.informer import Informer
from fairlead.cluster.kinds import Kind
from fairlead.cluster.times import format_time
from fairlead.errors import ClusterError, MissingApiError, NotFoundError
from fairlead.metrics import CONTENT_TYPE
from fairlead.schedule import policy_named
from fairlead.serve.scheduler import page, tell, writes
from fairlead.serve.scheduler.act import Hands
from fairlead.serve.scheduler.desk import Desk
from fairlead.serve.scheduler.fold import Fold
from fairlead.serve.scheduler.lead import Leader, Reign, Terms
from fairlead.serve.scheduler.seen import CLAIMS, NODES, PODS, RULES, SLICES, Pod
from fairlead.serve.scheduler.takeover import take_over
from fairlead.serve.scheduler.writes import Plan
from fairlead.serve.web.httpd import Response

_BREATH: Final = 0.01
"""Seconds of deciding after which writes and watches get their turn."""
_TICK: Final = 0.5
_TELLING: Final = 20
"""Sentences in each tick."""
_LAST: Final = 20.0
"""Seconds that what is under way has to finish when the program is stopped."""
_STUCK: Final = 30.0
"""Seconds without a sign of life from the loop after which the program is not well."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What can be set for the scheduler."""

    me: str
    """What tells this replica from all others."""
    name: str = "fairlead"
    """Pods with this `schedulerName` are ours."""
    policy: str = "fairlead"
    in_flight: int = 32
    """Requests to the API server under way at once."""
    own_claims: bool = True
    """Hand over devices by claims of our own; else by the binding's annotation alone."""
    terms: Terms = field(default_factory=Terms)


class Scheduler:
    """One replica."""

    def __init__(
        self, client: Client, catalog: Catalog, settings: SchedulerSettings, say: Callable[[str], None]
    ) -> None:
        self._client = client
        self._settings = settings
        self._say = say
        self._fold = Fold(catalog, settings.name)
        self._leader = Leader(client, settings.me, settings.terms, lambda: self._fold.turn)
        self._hands = Hands(client, self._turn, settings.in_flight)
        self._bell = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._taken = 0
        """The turn for which everything is prepared."""
        self._has_claims = False
        self._known = False
        """Whether everything has been listed."""
        self._beside: list[asyncio.Task[None]] = []
        self._page = b""
        self._alive = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until told to stop; then finish what is under way and hand over.

        What is raised in any part ends the program: what it assumed could no longer be trusted.
        """
        async with asyncio.TaskGroup() as group:
            living = group.create_task(self._live(group))
            await stop.wait()
            living.cancel()
            await self._finish()
            for task in self._beside:
                task.cancel()

    async def _live(self, group: asyncio.TaskGroup) -> None:
        for kind in await self._kinds():
            informer = Informer(self._client, kind)
            informer.subscribe(self._heard)
            self._beside.append(group.create_task(informer.run()))
            await informer.ready()
        own = self._settings.own_claims and self._has_claims
        desk = Desk(self._fold, policy_named(self._settings.policy), own_claims=own)
        self._beside.append(group.create_task(self._leader.follow()))
        self._beside.append(group.create_task(self._tick(desk)))
        self._alive, self._known = time.monotonic(), True
        self._say("the cluster is known; waiting to lead")
        await self._work(desk, group)

    def answer(self, path: str) -> Response:
        """Answer a request for a page; called from another thread."""
        if path == "/metrics":
            return Response(200, self._page, CONTENT_TYPE)
        if path == "/healthz":
            stuck = self._known and time.monotonic() - self._alive > _STUCK
            return Response(503, b"the loop is stuck\n") if stuck else Response(200, b"alive\n")
        if path == "/readyz":
            if not self._known:
                return Response(503, b"the cluster is not known yet\n")
            return Response(200, b"ready\n")
        return Response(404, b"no such page\n")

    async def _kinds(self) -> list[Kind[Any]]:
        """Return what this cluster serves of what decides a placement; nodes come before pods."""
        optional = [kind for kind in (SLICES, CLAIMS, *RULES) if await self._serves(kind)]
        self._has_claims = CLAIMS in optional
        return [*optional, NODES, PODS]

    async def _serves(self, kind: Kind[Any]) -> bool:
        try:
            await self._client.request("GET", kind.path(), query={"limit": "1"})
        except (MissingApiError, NotFoundError):
            return False
        return True

    def _heard(self, change: Change[Any]) -> None:
        self._fold.note(change)
        self._bell.set()

    def _turn(self) -> int:
        return self._taken

    async def _work(self, desk: Desk, group: asyncio.TaskGroup) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            desk.hear(time.monotonic())
            reign = self._reign()
            if reign is not None and (reign.turn == self._taken or await self._prepare(reign)):
                self._decide(desk, group)

    def _reign(self) -> Reign | None:
        """Return our time of leading; a pod that bears the mark of a later one says that it is over."""
        reign = self._leader.reign
        return reign if reign is not None and self._fold.turn <= reign.turn else None

    async def _prepare(self, reign: Reign) -> bool:
        self._say(f"leading, turn {reign.turn}")
        try:
            marked = await take_over(
                self._client,
                self._fold,
                self._hands,
                reign.turn,
                clean=reign.clean,
                claims=self._has_claims,
                scheduler=self._settings.name,
            )
        except ClusterError as error:
            self._say(f"cannot begin: {error}")
            return False
        self._say(f"deciding; {marked} waiting pods were taken over")
        self._taken = reign.turn
        self._bell.set()
        return False  # what was heard meanwhile comes first

    def _decide(self, desk: Desk, group: asyncio.TaskGroup) -> None:
        """Decide while somebody is ready; now and then let others do their part."""
        until = time.monotonic() + _BREATH
        while len(self._under_way) < 2 * self._settings.in_flight and self._reign() is not None:
            began = time.monotonic()
            plans = desk.decide(began)
            for pod in desk.evictions():
                group.create_task(self._put_out(pod))
            if not plans and not desk.queue.ready:
                return
            desk.counts.deciding.note(time.monotonic() - began)
            if plans:
                task = group.create_task(self._carry_out(desk, plans))
                self._under_way.add(task)
                task.add_done_callback(self._ended)
            if time.monotonic() > until:
                self._bell.set()
                return

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._bell.set()

    async def _carry_out(self, desk: Desk, plans: Sequence[Plan]) -> None:
        began = time.monotonic()
        failed = await self._hands.carry_out(plans)
        now = time.monotonic()
        for plan in plans:
            if plan.uid in failed:
                self._say(f"{plan.pod.metadata.namespace}/{plan.pod.metadata.name}: {failed[plan.uid]}")
                desk.failed(plan.uid, now)
            else:
                desk.counts.binding.note(now - began)
                if plan.own and self._fold.pod(plan.uid) is None:
                    await self._hands.drop(plan)  # it went as soon as it was bound
                desk.done(plan.uid, now)

    async def _put_out(self, pod: Pod) -> None:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        gone = await self._hands.attempt(writes.evict(pod))
        self._say(f"{name} was put out for another" if gone else f"{name} could not be put out")

    async def _tick(self, desk: Desk) -> None:
        """Say why pods wait, and bring the page up to date, twice a second."""
        while True:
            await asyncio.sleep(_TICK)
            self._alive = time.monotonic()
            desk.queue.nap(self._alive)
            self._bell.set()
            self._page = page.render(desk.counts, self._now(desk))
            if self._reign() is not None:
                await asyncio.gather(*self._told(desk))

    def _told(self, desk: Desk) -> list[Any]:
        now = format_time(datetime.now(UTC))
        found = []
        for uid, text in desk.sayings.take(time.monotonic(), _TELLING).items():
            pod = self._fold.pod(uid)
            if pod is not None and self._fold.waits(uid):
                found.append(self._hands.attempt(tell.condition(pod, text, now)))
                found.append(self._hands.attempt(tell.event(pod, "Warning", "FailedScheduling", text, now)))
        return found

    def _now(self, desk: Desk) -> page.Now:
        parked, waiting = desk.queue.parked, len(desk.queue)
        states = {"ready": waiting - parked, "parked": parked, "in-flight": len(self._under_way)}
        written = dict(self._hands.count)
        nodes = len(self._fold.cluster.nodes())
        leading = self._reign() is not None
        return page.Now(leading, self._taken, states, nodes, written, len(self._fold.complaints))

    async def _finish(self) -> None:
        """Let what is under way come to its end, and say whether it did: then the next may begin at once."""
        reign = self._reign()
        clean = reign is not None and reign.turn == self._taken
        if self._under_way:
            _, left = await asyncio.wait(self._under_way, timeout=_LAST)
            clean = clean and not left
            for task in left:
                task.cancel()
        with suppress(ClusterError):
            await self._leader.resign(clean=clean)
        self._say("handed over" if clean else "stopped")
