"""The extender: watch the cluster, and answer kube-scheduler from the cache."""

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
from fairlead.units import pluralize

Work = Callable[[LivePod, Sequence[str]], Awaitable[bytes]]
"""Returns the answer for a pod and the names of nodes."""
MAX_DELAY: Final = 1.0
"""Seconds by which an answer is delayed where unconfirmed pods may have taken the last place: their bindings
arrive sooner than that, and a pod that kube-scheduler finds unschedulable waits longer."""
ABSENT: Final = {
    "/bind": b"this extender never binds: leave bindVerb out of the KubeSchedulerConfiguration, and "
    b"kube-scheduler binds itself\n"
}
"""The verb of extenders that this one does not have."""
_NO_SCHEDULER: Final = ""
"""No pod has this `schedulerName`: the extender has no queue of its own."""
_NOT_YET: Final = Response(503, b"the cluster has not been listed yet\n")


class Extender:
    """Answers kube-scheduler's calls for one cluster."""

    def __init__(
        self,
        cluster: ClusterClient,
        catalog: Catalog,
        policy: str,
        say: Callable[[str], None],
        max_delay: float = MAX_DELAY,
    ) -> None:
        self._cluster = cluster
        self._max_delay = max_delay
        self._say = say
        self._evaluator = NodeEvaluator(SchedulerCache(catalog, _NO_SCHEDULER), policy_named(policy))
        self._counts = metrics.ExtenderMetrics()
        self._listed = False
        """Whether all kinds have been listed."""
        self._changed = asyncio.Event()

    @property
    def verbs(self) -> dict[str, Verb]:
        """The calls of kube-scheduler, by path."""
        return {"/filter": self._filter, "/prioritize": self._prioritize}

    @property
    def pages(self) -> dict[str, Page]:
        """The pages, by path."""
        return {"/healthz": _alive, "/readyz": self._ready, "/metrics": self._metrics}

    def router(self, *, require_certificate: bool) -> Router:
        """Return the router of this extender."""
        return Router(self.verbs, self.pages, require_certificate=require_certificate, unsupported=ABSENT)

    async def follow(self) -> None:
        """Watch the cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            await Follower(self._cluster, group, self._on_change).start(
                (SLICES, CLAIMS, *RULES), (NODES, PODS)
            )
            self._evaluator.cache.sync()
            self._listed = True
            self._say(
                f"the cluster is listed: {pluralize(len(self._evaluator.cache.cluster.nodes()), 'node')}"
            )

    def _on_change(self, change: ObjectChange[Any]) -> None:
        self._evaluator.on_event(change)
        self._changed.set()

    async def _filter(self, body: bytes) -> Response:
        return await self._respond("filter", body, self._counts.filtering, self._filter_nodes)

    async def _prioritize(self, body: bytes) -> Response:
        return await self._respond("prioritize", body, self._counts.prioritizing, self._score_nodes)

    async def _respond(self, verb: str, body: bytes, timings: Histogram, work: Work) -> Response:
        began, response = time.monotonic(), _NOT_YET
        if self._listed:
            try:
                args = wire.decode(body)
                response = Response(200, await work(args.pod, args.names or ()), wire.JSON)
            except UserError as error:
                response = Response(400, f"{error}\n".encode())
        timings.observe(time.monotonic() - began)
        self._counts.requests[verb, str(response.status)] += 1
        return response

    async def _filter_nodes(self, pod: LivePod, names: Sequence[str]) -> bytes:
        verdict = self._evaluate(pod, names)
        if verdict.may_change_soon:
            verdict = await self._evaluate_delayed(pod, names)
        self._counts.nodes["passed", ""] += len(verdict.passed)
        for reason, number in verdict.reasons.items():
            self._counts.nodes["refused", reason] += number
        return wire.encode_verdict(verdict)

    async def _score_nodes(self, pod: LivePod, names: Sequence[str]) -> bytes:
        self._evaluator.cache.sync()
        return wire.encode_scores(names, self._evaluator.prioritize(pod, names))

    def _evaluate(self, pod: LivePod, names: Sequence[str]) -> NodeVerdicts:
        self._evaluator.cache.sync()
        return self._evaluator.filter(pod, names, time.monotonic())

    async def _evaluate_delayed(self, pod: LivePod, names: Sequence[str]) -> NodeVerdicts:
        """Delay the answer until the bindings of unconfirmed pods arrive, up to the limit."""
        self._counts.delayed += 1
        verdict = self._evaluate(pod, names)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._max_delay):
                while verdict.may_change_soon:
                    self._changed.clear()
                    await self._changed.wait()
                    verdict = self._evaluate(pod, names)
        return verdict

    def _ready(self) -> Response:
        return Response(200, b"ready\n") if self._listed else _NOT_YET

    def _metrics(self) -> Response:
        cache, unconfirmed = self._evaluator.cache, len(self._evaluator.unconfirmed)
        text = metrics.render(self._counts, unconfirmed, len(cache.cluster.nodes()), len(cache.read_errors))
        return Response(200, text, CONTENT_TYPE)


def _alive() -> Response:
    """Answer that the program is alive: one loop does all the work."""
    return Response(200, b"alive\n")
