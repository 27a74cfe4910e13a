"""The extender: follow the cluster, and answer kube-scheduler from what is known."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import CLAIMS, NODES, PODS, RULES, SLICES, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.api import ClusterClient
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import UserError
from fairlead.metrics import CONTENT_TYPE, Histogram
from fairlead.schedule import policy_named
from fairlead.serve.extender import metrics, wire
from fairlead.serve.extender.node_evaluator import NodeEvaluator, NodeVerdicts
from fairlead.serve.follow import Follower
from fairlead.serve.web.httpd import Response
from fairlead.serve.web.router import Page, Router, Verb
from fairlead.units import counted

Work = Callable[[LivePod, Sequence[str]], Awaitable[bytes]]
"""What answers for a pod and the names of nodes."""
MAX_DELAY: Final = 1.0
"""Seconds that an answer is held back where others may have taken the last place: a binding is seen sooner,
and a pod that kube-scheduler is told no for waits longer."""
ABSENT: Final = {
    "/bind": b"this extender never binds: leave bindVerb out of the KubeSchedulerConfiguration, and "
    b"kube-scheduler binds itself\n"
}
"""A verb of extenders that this one has not."""
_NOBODY: Final = ""
"""No pod names this scheduler: the extender has no queue of its own."""
_NOT_YET: Final = Response(503, b"the cluster is not known yet\n")


class Extender:
    """Answers for one cluster."""

    def __init__(
        self,
        cluster: ClusterClient,
        catalog: Catalog,
        policy: str,
        say: Callable[[str], None],
        hold: float = MAX_DELAY,
    ) -> None:
        self._cluster = cluster
        self._hold = hold
        self._say = say
        self._judge = NodeEvaluator(SchedulerCache(catalog, _NOBODY), policy_named(policy))
        self._counts = metrics.ExtenderMetrics()
        self._known = False
        """Whether everything has been listed."""
        self._bell = asyncio.Event()

    @property
    def verbs(self) -> dict[str, Verb]:
        """What kube-scheduler asks, by path."""
        return {"/filter": self._filter, "/prioritize": self._prioritize}

    @property
    def pages(self) -> dict[str, Page]:
        """What others ask, by path."""
        return {"/healthz": _alive, "/readyz": self._ready, "/metrics": self._metrics}

    def router(self, *, known_only: bool) -> Router:
        """Return what leads requests here."""
        return Router(self.verbs, self.pages, known_only=known_only, absent=ABSENT)

    async def follow(self) -> None:
        """Follow the cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            await Follower(self._cluster, group, self._heard).start((SLICES, CLAIMS, *RULES), (NODES, PODS))
            self._judge.cache.sync()
            self._known = True
            self._say(f"the cluster is known: {counted(len(self._judge.cache.cluster.nodes()), 'node')}")

    def _heard(self, change: ObjectChange[Any]) -> None:
        self._judge.hear(change)
        self._bell.set()

    async def _filter(self, body: bytes) -> Response:
        return await self._answered("filter", body, self._counts.filtering, self._judged)

    async def _prioritize(self, body: bytes) -> Response:
        return await self._answered("prioritize", body, self._counts.prioritizing, self._scored)

    async def _answered(self, verb: str, body: bytes, timings: Histogram, work: Work) -> Response:
        began, found = time.monotonic(), _NOT_YET
        if self._known:
            try:
                args = wire.decode(body)
                found = Response(200, await work(args.pod, args.names or ()), wire.JSON)
            except UserError as error:
                found = Response(400, f"{error}\n".encode())
        timings.observe(time.monotonic() - began)
        self._counts.requests[verb, str(found.status)] += 1
        return found

    async def _judged(self, pod: LivePod, names: Sequence[str]) -> bytes:
        verdict = self._look(pod, names)
        if verdict.may_change_soon:
            verdict = await self._look_again(pod, names)
        self._counts.nodes["passed", ""] += len(verdict.passed)
        for reason, number in verdict.reasons.items():
            self._counts.nodes["refused", reason] += number
        return wire.encode_verdict(verdict)

    async def _scored(self, pod: LivePod, names: Sequence[str]) -> bytes:
        self._judge.cache.sync()
        return wire.encode_scores(names, self._judge.prioritize(pod, names))

    def _look(self, pod: LivePod, names: Sequence[str]) -> NodeVerdicts:
        self._judge.cache.sync()
        return self._judge.filter(pod, names, time.monotonic())

    async def _look_again(self, pod: LivePod, names: Sequence[str]) -> NodeVerdicts:
        """Hold the answer back until it is known where others went, but not for long."""
        self._counts.delayed += 1
        verdict = self._look(pod, names)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._hold):
                while verdict.may_change_soon:
                    self._bell.clear()
                    await self._bell.wait()
                    verdict = self._look(pod, names)
        return verdict

    def _ready(self) -> Response:
        return Response(200, b"ready\n") if self._known else _NOT_YET

    def _metrics(self) -> Response:
        cache, doubts = self._judge.cache, len(self._judge.doubts)
        text = metrics.render(self._counts, doubts, len(cache.cluster.nodes()), len(cache.read_errors))
        return Response(200, text, CONTENT_TYPE)


def _alive() -> Response:
    """Who answers is alive: one loop does all the work."""
    return Response(200, b"alive\n")
