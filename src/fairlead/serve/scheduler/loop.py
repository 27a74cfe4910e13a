"""The scheduler's loop: follow the cluster, decide while leading, and carry it out.

informers -> cache -> queue -> engine -> plans -> writes
    ^                                             |
    +---------------- the API <-------------------+
"""

import asyncio
import concurrent.futures
import gc
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import (
    BUDGETS,
    CLAIMS,
    NODES,
    PODS,
    QUOTAS,
    RULES,
    SLICES,
    STORAGE,
    Claim,
    Pod,
)
from fairlead.cache.volumes import Choice
from fairlead.catalog import Catalog
from fairlead.cluster.changes import Change, Key
from fairlead.cluster.client import Client
from fairlead.cluster.times import format_time
from fairlead.errors import ClusterError
from fairlead.metrics import CONTENT_TYPE
from fairlead.schedule import policy_named
from fairlead.serve.follow import Follower
from fairlead.serve.scheduler import evict, page, remarks, tell, writes
from fairlead.serve.scheduler.act import Hands
from fairlead.serve.scheduler.desk import Desk
from fairlead.serve.scheduler.explain import PATH, Explainer
from fairlead.serve.scheduler.lead import Leader, Reign, Terms, today
from fairlead.serve.scheduler.preemption import Preemption
from fairlead.serve.scheduler.register import Register
from fairlead.serve.scheduler.takeover import take_over
from fairlead.serve.scheduler.writes import Plan
from fairlead.serve.web.httpd import Response
from fairlead.units import counted

_BREATH: Final = 0.01
"""Seconds of deciding after which writes and watches get their turn."""
_TICK: Final = 0.5
_TELLING: Final = 20
"""Sentences in each tick."""
_LAST: Final = 20.0
"""Seconds that what is under way has to finish when the program is stopped."""
_PATIENCE: Final = 2.0
"""Seconds that who asks about a pod waits for the loop; probes wait meanwhile."""
_LATER: Final = 5.0
"""Seconds before a volume is asked for again."""
_STUCK: Final = 30.0
"""Seconds without a sign of life from the loop after which the program is not well."""
_UNIDENTIFIED: Final = Response(
    401, b"ask for /explain/NAMESPACE/POD/UID: the uid of the pod shows that you may read it\n"
)


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
    answer_within: float = 10.0
    """Seconds without an answer after which a request is given up, and its outcome read back."""
    terms: Terms = field(default_factory=Terms)


class Scheduler:
    """One replica."""

    def __init__(
        self,
        client: Client,
        catalog: Catalog,
        settings: SchedulerSettings,
        say: Callable[[str], None],
        wall: Callable[[], datetime] = today,
    ) -> None:
        self._client = client
        self._settings = settings
        self._say = say
        self._cache = SchedulerCache(catalog, settings.name)
        self._wall = wall
        self._leader = Leader(
            client, settings.me, settings.terms, lambda: self._cache.epoch, wall=wall, began=self._cache.began
        )
        self._hands = Hands(client, settings.in_flight, self._leader.leads, say=say)
        self._bell = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._taken = 0
        """The turn for which everything is prepared."""
        self._has_claims = False
        self._known = False
        """Whether everything has been listed."""
        self._beside: list[asyncio.Task[None]] = []
        self._page = b""
        self._explainer: Explainer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
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
        follower = Follower(self._client, group, self._heard)
        self._beside = follower.tasks
        await follower.begin(
            (SLICES, CLAIMS, BUDGETS, QUOTAS, *RULES, *STORAGE), (NODES, PODS)
        )  # nodes come before pods
        self._loop, self._has_claims = asyncio.get_running_loop(), CLAIMS.plural in follower.served
        own = self._settings.own_claims and self._has_claims
        desk = Desk(self._cache, policy_named(self._settings.policy), own_claims=own)
        settings = self._settings
        self._explainer = Explainer(desk, settings.me, settings.name, time.monotonic)
        self._beside.append(group.create_task(self._leader.follow()))
        self._beside.append(group.create_task(self._tick(desk)))
        self._alive, self._known = time.monotonic(), True
        gc.freeze()  # what is known lives long: looking through it for garbage takes a tenth of a second
        self._say("the cluster is known; waiting to lead")
        await self._work(desk, group)

    @property
    def cache(self) -> SchedulerCache:
        """The cluster as this replica knows it."""
        return self._cache

    def announce(self, signs: Mapping[str, str]) -> None:
        """Let the Lease say where this replica can be asked, when it leads."""
        self._leader.signs = signs

    def answer(self, path: str) -> Response:
        """Answer a request for a page; called from another thread."""
        if path.startswith(PATH):
            words = path.removeprefix(PATH).split("/")
            return self._explained(*words) if len(words) == 3 else _UNIDENTIFIED
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

    def _explained(self, namespace: str, name: str, uid: str) -> Response:
        """Have the loop answer, between two decisions; it is asked from another thread."""
        if self._loop is None:
            return Response(503, b"the cluster is not known yet\n")
        asked = asyncio.run_coroutine_threadsafe(self._explain(namespace, name, uid), self._loop)
        try:
            return asked.result(_PATIENCE)
        except (TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            return Response(503, b"too busy: ask again\n")

    async def _explain(self, namespace: str, name: str, uid: str) -> Response:
        reign = self._reign()
        if self._explainer is None or reign is None or reign.turn != self._taken:
            return Response(503, b"this replica does not decide\n")
        found = json.dumps(self._explainer.answer(namespace, name, uid))
        return Response(200, found.encode(), "application/json")

    def _heard(self, change: Change[Any]) -> None:
        self._cache.on_event(change)
        self._bell.set()

    async def _work(self, desk: Desk, group: asyncio.TaskGroup) -> None:
        register = Register(self._leader, desk, self._wall)
        while True:
            await self._bell.wait()
            self._bell.clear()
            desk.hear(time.monotonic())
            for task in self._claimed_back(desk, register):
                self._begin(group, task)
            reign = self._reign()
            if reign is None or reign.turn != self._taken:
                desk.stand_down()
            if reign is not None and (reign.turn == self._taken or await self._prepare(reign, register)):
                self._decide(desk, register, group)

    def _reign(self) -> Reign | None:
        """Return our time of leading; a pod that bears the mark of a later one says that it is over."""
        reign = self._leader.reign
        return reign if reign is not None and self._cache.epoch <= reign.turn else None

    def _claimed_back(self, desk: Desk, register: Register) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what is to be done about claims that hold devices for nobody."""
        while self._cache.orphaned:
            yield self._settle(*self._cache.orphaned.popitem())
        if self._leader.leads(self._taken):
            for pod, claim in desk.returns():
                yield self._give_back(register, pod, claim, self._taken)

    async def _give_back(self, register: Register, pod: Pod, claim: Claim, turn: int) -> None:
        """Take back what a waiting pod's claim was given; if we stop in between, the next leader ends it."""
        with suppress(ClusterError):
            async with register.entered([pod], turn):
                await self._hands.release(claim, pod, turn)

    async def _settle(self, uid: str, pod: Pod) -> None:
        """Take back the claims of a pod that went before they were seen."""
        await self._hands.drop(pod, self._cache.unobserved.claims(uid), self._taken)
        self._cache.forget(uid)
        self._bell.set()

    async def _prepare(self, reign: Reign, register: Register) -> bool:
        self._say(f"leading, turn {reign.turn}")
        try:
            name, claims = self._settings.name, self._has_claims
            marked = await take_over(
                self._client, self._cache, self._hands, reign, claims=claims, scheduler=name
            )
            await register.open(reign.turn)
        except ClusterError as error:
            self._say(f"cannot begin: {error}")
            return False
        self._say(f"deciding; {counted(marked, 'waiting pod was', 'waiting pods were')} taken over")
        self._taken = reign.turn
        self._bell.set()
        return False  # what was heard meanwhile comes first

    def _decide(self, desk: Desk, register: Register, group: asyncio.TaskGroup) -> None:
        """Decide while somebody is ready; now and then let others do their part."""
        until = time.monotonic() + _BREATH
        while len(self._under_way) < 2 * self._settings.in_flight and self._reign() is not None:
            began = time.monotonic()
            plans = desk.decide(began)
            for preemption in desk.preempting():
                self._begin(group, self._preempt(desk, preemption, self._taken))
            for choice in desk.choices():
                group.create_task(self._choose(*choice))
            if not plans and not desk.queue.ready:
                return
            desk.counts.deciding.note(time.monotonic() - began)
            if plans:
                self._begin(group, self._carry_out(desk, register, plans, self._taken))
            if time.monotonic() > until:
                self._bell.set()
                return

    def _begin(self, group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside, that must be finished before another leads."""
        task = group.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._bell.set()

    async def _carry_out(self, desk: Desk, register: Register, plans: Sequence[Plan], turn: int) -> None:
        began = time.monotonic()
        try:
            async with register.entered([plan.pod for plan in plans if plan.fenced], turn):
                failed = await self._hands.carry_out(plans, turn)
        except ClusterError as error:
            failed = {plan.uid: str(error) for plan in plans}
        now = time.monotonic()
        for plan in plans:
            if plan.uid in failed:
                self._say(f"{plan.pod.metadata.namespace}/{plan.pod.metadata.name}: {failed[plan.uid]}")
                desk.failed(plan.uid, now)
            else:
                desk.counts.binding.note(now - began)
                if self._cache.pod(plan.uid) is None:  # it went as soon as it was bound
                    await self._hands.drop(plan.pod, [name for _, name in plan.giving], turn)
                desk.done(plan.uid, now)
        await self._remark([plan for plan in plans if plan.uid not in failed])

    async def _remark(self, done: Sequence[Plan]) -> None:
        """Say of pods that were bound together what their users should know."""
        group = self._cache.group_of(done[0].pod) if done else None
        if group is None and not any(plan.fenced for plan in done):
            return
        for write in remarks.bound(done, group, format_time(self._wall())):
            await self._hands.attempt(write)

    async def _preempt(self, desk: Desk, preemption: Preemption, turn: int) -> None:
        """Nominate preemptors to their nodes, then evict their victims: all of them, or none."""
        for pod, node in preemption.nominated:
            await self._hands.attempt(evict.nominate(pod, node))
        victims = preemption.victims
        refusals = [await evict.refusal(self._hands, each) for each in victims] if len(victims) > 1 else []
        for victim, problem in zip(victims, refusals, strict=False):
            if problem:
                self._say(f"did not evict pod {_name(victim)}: {problem}")
                desk.evicted(victim.metadata.uid, problem, time.monotonic())
        await asyncio.gather(*(self._evict(desk, each, turn) for each in victims))

    async def _evict(self, desk: Desk, victim: Pod, turn: int) -> None:
        uid, name, now = victim.metadata.uid, _name(victim), format_time(self._wall())
        preemptor = ", ".join(map(_name, desk.preemptions.preemptors_of(uid)))
        needed = partial(desk.preemptions.needs, uid)
        problem = await evict.evict(self._hands, victim, preemptor, turn, needed, now)
        desk.evicted(uid, problem, time.monotonic())
        self._bell.set()
        if problem:
            self._say(f"did not evict pod {name}: {problem}")
            return
        self._say(f"evicted pod {name} to make room for {preemptor}")
        text = f"Preempted to make room for {preemptor}"
        await self._hands.attempt(tell.event(victim, "Normal", "Preempted", text, now))

    async def _choose(self, uid: str, choice: Choice) -> None:
        """Keep a volume, or have one made; where that cannot be written, decide anew after a while."""
        if not await self._hands.attempt(writes.choose(choice)):
            self._say(f"{'/'.join(choice.claim.key)}: it could not be given a volume for {choice.node}")
            await asyncio.sleep(_LATER)
            self._cache.requeue_held(uid)
            self._bell.set()

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
        now, moment = format_time(self._wall()), time.monotonic()
        found = []
        groups: dict[Key, list[writes.Write]] = {}
        for uid, text in desk.sayings.take(moment, _TELLING, desk.newcomers(moment)).items():
            pod = self._cache.pod(uid)
            if pod is not None and (self._cache.waits(uid) or uid in self._cache.held):
                said = tell.kept(pod, text, now) if uid in self._cache.held else tell.refused(pod, text, now)
                found += [self._hands.attempt(write) for write in said]
                group = self._cache.group_of(pod)
                if group is not None:
                    groups[group.key] = remarks.refused(group, text, now)
        found += [self._hands.attempt(write) for told in groups.values() for write in told]
        return found

    def _now(self, desk: Desk) -> page.Now:
        parked, waiting = desk.queue.parked, len(desk.queue)
        states = {"ready": waiting - parked, "parked": parked, "in-flight": len(self._under_way)}
        written = dict(self._hands.count)
        nodes = len(self._cache.cluster.rows())
        leading = self._reign() is not None
        return page.Now(leading, self._taken, states, nodes, written, len(self._cache.complaints))

    async def _finish(self) -> None:
        """Let what is under way come to its end, and say whether it did: then the next may begin at once."""
        clean = True
        if self._under_way:
            _, left = await asyncio.wait(self._under_way, timeout=_LAST)
            clean = not left
            for task in left:
                task.cancel()
        reign = self._reign()
        clean = clean and reign is not None and reign.turn == self._taken
        with suppress(ClusterError):
            await self._leader.resign(self._taken if clean else None)
        self._say("handed over" if clean else "stopped")


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
