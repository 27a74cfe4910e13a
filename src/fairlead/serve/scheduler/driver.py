"""The scheduler's driver: feed events to the state machine, and perform the effects that it returns.

Nothing is decided here: the machine decides which request is sent, and what its outcome means.
"""

import asyncio
import concurrent.futures
import gc
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import BUDGETS, CLAIMS, NODES, PODS, QUOTAS, RULES, SLICES, STORAGE
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.metrics import CONTENT_TYPE
from fairlead.serve.follow import Follower
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.flow import Effect
from fairlead.serve.machine.recording import Recorder
from fairlead.serve.machine.runner import MachineRunner, boottime
from fairlead.serve.scheduler.effects import Explained
from fairlead.serve.scheduler.events import Announce, Cycle, Event, Explain, Synced, UsageRefreshed
from fairlead.serve.scheduler.machine import SchedulerMachine
from fairlead.serve.scheduler.performer import Performer
from fairlead.serve.scheduler.report import metrics
from fairlead.serve.scheduler.report.explain import PATH
from fairlead.serve.web.httpd import Response
from fairlead.settings.scheduler import SchedulerSettings
from fairlead.usage.limits import WINDOW
from fairlead.usage.source import UseSource

_YIELD_AFTER: Final = 0.01
"""Seconds of deciding after which the loop handles requests and watches."""
_TICK: Final = 0.5
_PATIENCE: Final = 2.0
"""Seconds for which a request for an explanation waits for the loop; probes wait meanwhile."""
_REST_FACTOR: Final = 9.0
"""Seconds without a new explanation, for each second that the last one took."""
_STUCK: Final = 30.0
"""Seconds without a tick of the loop after which the program is unhealthy."""
_UNIDENTIFIED: Final = Response(
    401, b"ask for /explain/NAMESPACE/POD/UID: the uid of the pod shows that you may read it\n"
)
_UNKNOWN: Final = Response(503, b"caches are not synced yet\n")


class Scheduler:
    """One replica."""

    def __init__(
        self,
        client: Client,
        catalog: Catalog,
        settings: SchedulerSettings,
        say: Callable[[str], None],
        wall: Callable[[], float] = time.time,
        recorder: Recorder | None = None,
        usage: UseSource | None = None,
    ) -> None:
        self._client = client
        self._wall = wall
        self._period = settings.usage_period
        self.usage: UseSource | None = usage
        """Where measured use is read; None: nowhere."""
        self._machine = SchedulerMachine(catalog, settings)
        self._performer = Performer(client, settings.in_flight)
        self._runner = MachineRunner(self._machine.handle, self._performer.perform, say, recorder)
        self._followed: list[asyncio.Task[None]] = []
        self._known = False
        """Whether everything has been listed."""
        self._page = b""
        self._rest_until = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alive = time.monotonic()
        self._feed(Start(wall(), uuid4().hex))

    @property
    def cache(self) -> SchedulerCache:
        """The cluster as this replica knows it."""
        return self._machine.cache

    def announce(self, annotations: Mapping[str, str]) -> None:
        """Set the annotations that the Lease carries while this replica leads: where it answers."""
        self._feed(Announce(dict(annotations)))

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; then finish what is in flight and release the Lease.

        An exception in any task ends the program: its assumptions could no longer be trusted.
        """
        async with asyncio.TaskGroup() as group:
            self._loop = asyncio.get_running_loop()
            self._runner.enter(group)
            self._runner.spawn(self._follow(group))
            self._runner.spawn(self._tick())
            self._runner.spawn(self._stop(stop))
            await self._work()
            self._runner.cancel()
            for task in self._followed:
                task.cancel()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        follower = Follower(self._client, group, self._on_change)
        self._followed = follower.tasks
        await follower.start(
            (SLICES, CLAIMS, BUDGETS, QUOTAS, *RULES, *STORAGE), (NODES, PODS)
        )  # nodes come before pods
        self._alive, self._known = time.monotonic(), True
        gc.freeze()  # listed objects live long: a collection that scans them takes a tenth of a second
        self._feed(Synced(CLAIMS.plural in follower.served))
        if self.usage is not None:
            self._runner.spawn(self._read_usage(self.usage))

    async def _read_usage(self, source: UseSource) -> None:
        """Send measured use to the machine, first of the last minutes, then once in every period."""
        for report in await source.backfill(self._wall(), WINDOW):
            self._feed(UsageRefreshed.of(report))
        while True:
            began = time.monotonic()
            report = await source.read(self._wall())
            self._feed(Tick(self._wall()))  # the report is as of now
            self._feed(UsageRefreshed.of(report))
            await asyncio.sleep(max(0.0, self._period - (time.monotonic() - began)))

    async def _stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._feed(Stop())

    async def _tick(self) -> None:
        """Send the time to the machine, and render the metrics, twice a second."""
        while True:
            await asyncio.sleep(_TICK)
            self._alive = time.monotonic()
            self._feed(Tick(self._wall()))
            gauges = self._machine.gauges(boottime())
            self._page = metrics.render(self._machine.cycle.metrics, gauges, self._performer.count)

    async def _work(self) -> None:
        """Run cycles while the machine is ready; yield to requests and watches now and then."""
        machine = self._machine
        while not machine.finished:
            await self._runner.bell.wait()
            self._runner.bell.clear()
            until = time.monotonic() + _YIELD_AFTER
            while machine.ready(boottime()):
                began, before = time.monotonic(), machine.cycle.runs
                self._feed(Cycle())
                now = time.monotonic()
                if machine.cycle.runs != before:
                    machine.cycle.metrics.deciding.observe(now - began)
                if now > until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + _YIELD_AFTER

    def _feed(self, event: Event) -> list[Effect]:
        """Handle an event by the machine, and begin its effects."""
        return self._runner.feed(event)

    def _on_change(self, change: ObjectChange[Any]) -> None:
        self._feed(change)

    # Pages

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
            return Response(200, b"ready\n") if self._known else _UNKNOWN
        return Response(404, b"no such page\n")

    def _explained(self, namespace: str, name: str, uid: str) -> Response:
        """Answer on the loop, between two decisions; called from another thread."""
        if self._loop is None or not self._known:
            return _UNKNOWN
        answer = asyncio.run_coroutine_threadsafe(self._explain(namespace, name, uid), self._loop)
        try:
            return answer.result(_PATIENCE)
        except (TimeoutError, concurrent.futures.CancelledError):
            answer.cancel()
            return Response(503, b"too busy: ask again\n")

    async def _explain(self, namespace: str, name: str, uid: str) -> Response:
        began = time.monotonic()
        effects = self._feed(Explain(namespace, name, uid, max(0.0, self._rest_until - began)))
        explained = next(effect for effect in effects if isinstance(effect, Explained))
        if explained.searched:
            now = time.monotonic()
            self._rest_until = now + _REST_FACTOR * (now - began)
        if not explained.document:
            return Response(503, b"this replica does not decide\n")
        return Response(200, json.dumps(explained.document).encode(), "application/json")
