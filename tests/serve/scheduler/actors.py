"""Replicas on a model of the API server, where every request waits until the play lets it go on.

The parts are the scheduler's own; only the loop that ties them together is written out here, step by step, so
that a play can stop anywhere between two of its steps.
"""

import asyncio
import json
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Literal

import msgspec

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import CLAIMS, PODS
from fairlead.catalog import Catalog
from fairlead.cluster.changes import Change
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Listing
from fairlead.cluster.replica import Replica, Timing
from fairlead.errors import ClusterAwayError, ClusterError
from fairlead.schedule import policy_named
from fairlead.serve.scheduler import evict
from fairlead.serve.scheduler.act import Hands
from fairlead.serve.scheduler.desk import Desk
from fairlead.serve.scheduler.lead import Leader, Reign, Terms
from fairlead.serve.scheduler.preemption import Preemption
from fairlead.serve.scheduler.register import Register
from fairlead.serve.scheduler.takeover import take_over
from fairlead.serve.scheduler.writes import Plan
from tests.serve.scheduler.model import Api
from tests.serve.scheduler.objects import read

KINDS: tuple[Kind[Any], ...] = (PODS, CLAIMS)
Fate = Literal["done", "lost", "late"]
"""A request that is `lost` is carried out and never answered; one that is `late`, some other time."""


def lost() -> ClusterAwayError:
    """Return what the sender of a lost request is told."""
    error = ClusterAwayError("the connection broke")
    error.maybe_done = True
    return error


@dataclass(eq=False)
class Sent:
    """A request on its way."""

    owner: "Actor"
    ask: Callable[[], Any]
    answer: "asyncio.Future[Any]"


class Idle(selectors.SelectSelector):
    """Has a loop that would wait stop instead: then everybody has gone on as far as they can."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.SelectorEventLoop(self)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.loop.stop()
        return []


class Post:
    """Carries requests, when it is told to."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.under_way: list[Sent] = []
        self.late: list[Callable[[], Any]] = []
        self.patient: list[asyncio.Future[None]] = []
        """Who tries again after a pause: when something has happened."""

    async def pause(self, seconds: float) -> None:
        """Wait until something has happened, which may take longer or less."""
        waiting = asyncio.get_running_loop().create_future()
        self.patient.append(waiting)
        await waiting

    def happened(self) -> None:
        """Let those go on who wait for something to happen."""
        patient, self.patient = self.patient, []
        for each in patient:
            if not each.done():
                each.set_result(None)

    async def send(self, owner: "Actor", ask: Callable[[], Any]) -> Any:
        """Send a request, and wait for what becomes of it."""
        sent = Sent(owner, ask, asyncio.get_running_loop().create_future())
        self.under_way.append(sent)
        return await sent.answer

    def deliver(self, sent: Sent, fate: Fate) -> None:
        """Let a request meet its fate."""
        self.under_way.remove(sent)
        try:
            if fate == "late":
                self.late.append(sent.ask)
            else:
                said = sent.ask()
            if fate != "done":
                raise lost()
        except ClusterError as error:
            if not sent.answer.done():
                sent.answer.set_exception(error)
        else:
            if not sent.answer.done():
                sent.answer.set_result(said)

    def arrive(self, number: int) -> None:
        """Let one of the late arrive; nobody is told."""
        ask = self.late.pop(number % len(self.late))
        try:
            ask()
        except ClusterError:
            return


class Actor:
    """One replica."""

    def __init__(self, name: str, post: Post, catalog: Catalog, clock: Callable[[], float]) -> None:
        self.name = name
        self.alive = True
        self._post = post
        self._known: dict[str, Replica[Any]] = {kind.plural: Replica(Timing(), Random(0)) for kind in KINDS}
        self._heard = dict.fromkeys(self._known, 0)
        self.cache = SchedulerCache(catalog)
        self._desk = Desk(self.cache, policy_named("fairlead"), own_claims=True)
        terms = Terms("default", duration=15.0, deadline=10.0)
        self.leader = Leader(self, name, terms, lambda: self.cache.epoch, clock, began=self.cache.began)  # type: ignore[arg-type]  # in part
        self._hands = Hands(self, leads=self.leader.leads, pause=post.pause)
        self._register = Register(self.leader, self._desk)
        self._taken = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._singles: dict[str, asyncio.Task[None]] = {}
        for replica in self._known.values():
            replica.next()

    # The API server, as far as it is asked

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = ""
    ) -> bytes:
        """Ask for something."""
        api = self._post.api
        answer: bytes = await self._post.send(self, lambda: api.request(method, path, body, content_type))
        return answer

    async def get(self, kind: Kind[Any], name: str, namespace: str) -> Any:
        """Return an object."""
        return read(kind, json.loads(await self.request("GET", kind.path(namespace, name))))

    async def create(self, kind: Kind[Any], item: Any, namespace: str) -> Any:
        """Make an object."""
        body = json.dumps(msgspec.to_builtins(item)).encode()
        return read(kind, json.loads(await self.request("POST", kind.path(namespace), body=body)))

    async def update(self, kind: Kind[Any], item: Any, namespace: str) -> Any:
        """Replace an object."""
        body = json.dumps(msgspec.to_builtins(item)).encode()
        path = kind.path(namespace, item.metadata.name)
        return read(kind, json.loads(await self.request("PUT", path, body=body)))

    async def list(self, kind: Kind[Any]) -> Listing[Any]:
        """Return all objects of a kind."""
        api = self._post.api
        found = await self._post.send(self, lambda: api.seen(kind))
        return Listing(items=tuple(found), resource_version="")

    # What it hears

    def hear(self, kind: Kind[Any], most: int, *, twice: bool = False) -> None:
        """Hear of so many events of a kind, of which it knows nothing yet."""
        api, at = self._post.api, self._heard[kind.plural]
        events = api.history[kind.plural]
        for event in events[at : at + most]:
            for _ in range(2 if twice else 1):
                item = api.read(kind, event.object)
                for change in self._known[kind.plural].observed(event.type, item):
                    self.cache.on_event(change)
        self._heard[kind.plural] = min(len(events), at + most)

    def relist(self) -> None:
        """Miss all events until now, and list anew."""
        api = self._post.api
        for kind in KINDS:
            for change in self._known[kind.plural].listed(api.seen(kind), str(api.version)):
                self.cache.on_event(change)
            self._heard[kind.plural] = len(api.history[kind.plural])

    def know(self, item: Any) -> None:
        """Learn of something that does not change."""
        self.cache.on_event(Change(None, item))

    # What it does

    def look(self) -> None:
        """Look at the lease, unless it does so already."""
        self._once("look", self._look)

    async def _look(self) -> None:
        await self.leader.look()

    def work(self) -> None:
        """Take one turn of the loop."""
        self._desk.hear(0.0)
        while self.cache.orphaned:
            uid, pod = self.cache.orphaned.popitem()
            self._begin(self._settle(uid, pod))
        reign = self.leader.reign
        if reign is None or self.cache.epoch > reign.turn:
            self._desk.stand_down()
            return
        if reign.turn != self._taken:
            self._desk.stand_down()
            self._once("prepare", lambda: self._prepare(reign))
            return
        for pod, claim in self._desk.returns():
            self._begin(self._give_back(pod, claim, self._taken))
        self._desk.queue.nap(1e9)
        if plans := self._desk.decide(0.0):
            self._begin(self._carry_out(plans, self._taken))
        for preemption in self._desk.preempting():
            self._begin(self._preempt(preemption, self._taken))

    async def _preempt(self, preemption: Preemption, turn: int) -> None:
        for pod, node in preemption.nominated:
            await self._hands.attempt(evict.nominate(pod, node))
        for victim in preemption.victims:
            uid = victim.metadata.uid
            needed = partial(self._desk.preemptions.needs, uid)
            problem = await evict.evict(self._hands, victim, "default/one", turn, needed, "")
            self._desk.evicted(uid, problem, 0.0)

    async def _prepare(self, reign: Reign) -> None:
        await take_over(self, self.cache, self._hands, reign, claims=True, scheduler="fairlead")  # type: ignore[arg-type]  # in part
        await self._register.open(reign.turn)
        self._taken = reign.turn

    async def _settle(self, uid: str, pod: Any) -> None:
        await self._hands.drop(pod, self.cache.unobserved.claims(uid), self._taken)
        self.cache.forget(uid)

    async def _give_back(self, pod: Any, claim: Any, turn: int) -> None:
        async with self._register.entered([pod], turn):
            await self._hands.release(claim, pod, turn)

    async def _carry_out(self, plans: Sequence[Plan], turn: int) -> None:
        try:
            async with self._register.entered([plan.pod for plan in plans if plan.fenced], turn):
                failed = await self._hands.carry_out(plans, turn)
        except ClusterError as error:
            failed = {plan.uid: str(error) for plan in plans}
        for plan in plans:
            if plan.uid in failed:
                self._desk.failed(plan.uid, 0.0)
                continue
            if self.cache.pod(plan.uid) is None:
                await self._hands.drop(plan.pod, [name for _, name in plan.giving], turn)
            self._desk.done(plan.uid, 0.0)

    def _once(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._singles.get(what)
        if task is None or task.done():
            self._singles[what] = self._begin(work())

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def die(self) -> None:
        """End in the middle of everything; what it has sent is on its way."""
        self.alive = False
        for task in tuple(self._tasks):
            task.cancel()


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Do something that may be refused."""
    try:
        await work
    except ClusterError:
        return
