"""The operator's driver: feed events to the state machine, and perform the effects that it returns.

Nothing is decided here. Controllers decide in a thread of their own: a plan may take seconds, and the Lease
must be renewed meanwhile.
"""

import asyncio
import gc
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from uuid import uuid4

from fairlead.cluster.client import Client
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.keys import MANAGED_BY, MANAGER
from fairlead.metrics import CONTENT_TYPE
from fairlead.reconcile import Reconciled, ResourceController, ResourceKind
from fairlead.serve.follow import Follower
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.flow import Effect
from fairlead.serve.machine.requests import ApiRequest
from fairlead.serve.machine.runner import MachineRunner, boottime
from fairlead.serve.machine.sender import RequestSender
from fairlead.serve.operator import metrics
from fairlead.serve.operator.kinds import client_kind
from fairlead.serve.operator.machine import CachesSynced, OperatorMachine
from fairlead.serve.operator.page_http import read_page
from fairlead.serve.operator.pages import ReadPage
from fairlead.serve.operator.reconciler import Decide
from fairlead.serve.web.httpd import Response
from fairlead.settings.operator import OperatorSettings

_TICK: Final = 0.5
_STUCK: Final = 30.0
"""Seconds without a tick of the loop after which the program is unhealthy."""


class OperatorReplica:
    """One replica."""

    def __init__(
        self,
        client: Client,
        controllers: Sequence[ResourceController],
        settings: OperatorSettings,
        say: Callable[[str], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._controllers = controllers
        self._settings = settings
        self._say = say
        self._wall = wall
        self._machine = OperatorMachine(controllers, settings)
        self._sender = RequestSender(client, settings.in_flight)
        self._runner = MachineRunner(self._machine.handle, self._perform, say)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="controllers")
        self._followed: list[asyncio.Task[None]] = []
        self._known = False
        """Whether everything has been listed."""
        self._page = b""
        self._alive = time.monotonic()
        self._runner.feed(Start(wall(), uuid4().hex))

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile until `stop` is set; then finish what is in flight and release the Lease."""
        with self._thread:
            async with asyncio.TaskGroup() as group:
                self._runner.enter(group)
                self._runner.spawn(self._follow(group))
                self._runner.spawn(self._tick())
                self._runner.spawn(self._stop(stop))
                while not self._machine.finished:
                    await self._runner.bell.wait()
                    self._runner.bell.clear()
                self._runner.cancel()
                for task in self._followed:
                    task.cancel()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        kinds, selectors = followed(self._controllers)
        follower = Follower(
            self._client, group, self._on_change, self._settings.probe_interval, selectors=selectors
        )
        self._followed = follower.tasks
        await follower.start([client_kind(kind) for kind in kinds], ())
        for kind in kinds:
            if client_kind(kind).plural not in follower.served:
                self._say(f"{kind.plural} are not served yet: install their CustomResourceDefinition")
        self._alive, self._known = time.monotonic(), True
        gc.freeze()  # listed objects live long
        self._runner.feed(CachesSynced())

    def _on_change(self, change: ObjectChange[Any]) -> None:
        self._runner.feed(change)

    async def _stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._runner.feed(Stop())

    async def _tick(self) -> None:
        """Send the time to the machine, and render the metrics, twice a second."""
        while True:
            self._alive = time.monotonic()
            self._runner.feed(Tick(self._wall()))
            gauges = self._machine.gauges(boottime())
            self._page = metrics.render(self._machine.metrics, gauges, self._sender.count)
            await asyncio.sleep(_TICK)

    async def _perform(self, effect: Effect) -> Any:
        """Perform an effect, and return its answer."""
        if isinstance(effect, Decide):
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._decide, effect)
        if isinstance(effect, ReadPage):
            return await read_page(effect.page)
        assert isinstance(effect, ApiRequest), effect
        return await self._sender.send(effect)

    def _decide(self, effect: Decide) -> Reconciled | str:
        """Ask a controller; its fault concerns one resource, and must not stop the others."""
        try:
            return effect.controller.reconcile(effect.observed)
        except Exception as error:  # noqa: BLE001  # any fault of a controller is the answer "no", with its reason
            self._say("".join(traceback.format_exception(error)).rstrip())
            return f"{type(error).__name__}: {error}"

    def answer(self, path: str) -> Response:
        """Answer a request for a page; called from another thread."""
        if path == "/metrics":
            return Response(200, self._page, CONTENT_TYPE)
        if path == "/healthz":
            stuck = self._known and time.monotonic() - self._alive > _STUCK
            return Response(503, b"the loop is stuck\n") if stuck else Response(200, b"alive\n")
        if path == "/readyz":
            known = self._known
            return Response(200, b"ready\n") if known else Response(503, b"caches are not synced yet\n")
        return Response(404, b"no such page\n")


def followed(controllers: Sequence[ResourceController]) -> tuple[list[ResourceKind], dict[str, str]]:
    """Return the kinds to watch, resources last, and the label selectors of those that are only owned."""
    resources = [one.resource for one in controllers]
    watched = [kind for one in controllers for kind in one.watches]
    owned = [kind for one in controllers for kind in one.owns]
    kinds = [kind for kind in dict.fromkeys((*watched, *owned)) if kind not in resources]
    ours = f"{MANAGED_BY}={MANAGER}"
    selectors = {
        client_kind(kind).resource: ours for kind in owned if kind not in watched and kind not in resources
    }
    return [*kinds, *dict.fromkeys(resources)], selectors
