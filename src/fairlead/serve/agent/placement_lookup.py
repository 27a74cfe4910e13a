"""Look up the accelerators that our scheduler chose for the pod that the kubelet is about to admit.

A pod's binding carries the choice as an annotation. Reading it needs the right to get pods. Without that
right the agent reads no pod, promises schedulers nothing, and chooses units as if no scheduler had chosen.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import PODS
from fairlead.compat.aio import timeout
from fairlead.errors import AccessError, AllocationRefusedError, ClusterError, KubeletError, NotFoundError
from fairlead.kubelet.podresources import KubeletPod, PodReader
from fairlead.offer import Form, Holder
from fairlead.publish.memory_limit import MemoryLimit
from fairlead.serve.agent.admission import (
    CandidateContainer,
    PodKey,
    PodRequest,
    accelerators_of,
    candidates,
    pending_containers,
    pod_request,
    same_accelerators,
)
from fairlead.serve.agent.pod_limiter import LimiterRequest
from fairlead.settings.publishing import PublishConfig

_DECISION_TIMEOUT: Final = 2.0
"""Seconds to identify the pod being admitted: the kubelet admits no other pod meanwhile."""
_API_TIMEOUT: Final = 5.0
"""Seconds without an answer after which the API server counts as unavailable."""
_PAUSE: Final = 0.1
_AT_ONCE: Final = 8
_PROBE: Final = 60.0
"""Seconds between checks of the right to get pods."""
_PROBE_POD: Final = ("default", "fairlead-access-probe")
"""A pod that need not exist: with the right to get pods, the API server answers 404 and not 403."""


@dataclass(frozen=True, slots=True)
class ChosenAccelerators:
    """The accelerators that a scheduler chose for one pod, and how its container is limited."""

    pod: str
    devices: frozenset[str] | None
    """None: another scheduler placed the pod, and any will do."""
    limit: MemoryLimit | None = None
    """The memory that the container may take of each of them; None: no limit."""
    limiter: LimiterRequest | None = None
    """What the container asks of the limiter; None: nothing."""


class PlacementLookup:
    """Finds the accelerators that a scheduler chose for the pod being admitted."""

    def __init__(self, config: PublishConfig, due: asyncio.Event, say: Callable[[str], None]) -> None:
        self._node = config.node
        self._hami = config.limit_hami
        units = config.forms & {Form.WHOLE, Form.MEMORY}
        self._pods = PodReader(config.pod_resources) if config.pod_resources and units else None
        self._due = due
        self._say = say
        self._cluster: ClusterClient | None = None
        self._known: dict[PodKey, PodRequest] = {}
        self._answered: set[tuple[str, str]] = set()
        self._last: tuple[CandidateContainer, str] | None = None
        """The container of the last answer, and its resource."""
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.enabled = False
        """Whether the agent follows the placements of schedulers."""

    async def probe_access(self, cluster: ClusterClient) -> None:
        """Check periodically whether the agent may get pods: rights come and go."""
        self._cluster = cluster
        while self._pods is not None:
            self._set_enabled(enabled=await self._allowed(cluster))
            await asyncio.sleep(_PROBE * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load

    async def chosen_accelerators(self, resource: str, size: int) -> ChosenAccelerators | None:
        """Return the accelerators chosen for the container that requests `size` units; None where none are.

        AllocationRefusedError where that cannot be determined: any accelerator might be the wrong one.
        """
        if not self.enabled:
            return None
        try:
            async with timeout(_API_TIMEOUT):
                containers = await self._agreed_candidates(resource, size)
        except AccessError:
            self._set_enabled(enabled=False)
            return None
        except (ClusterError, TimeoutError) as error:
            raise AllocationRefusedError(
                f"{resource}: cannot read the pod's placement from the API server: {error}",
                "a controller replaces its pod; create any other pod again when the API server is available",
            ) from None
        self._last = (containers[0], resource) if containers else None
        self._answered |= {container.key for container in containers[:1]}
        return _chosen(resource, containers[0]) if containers else None

    async def limiter_of(self, holder: Holder) -> LimiterRequest | None:
        """Return what a container that the kubelet lists asks of the limiter; None: nothing."""
        if self._cluster is None or not self.enabled:
            raise KubeletError("pods cannot be read yet")
        request = await self._request((holder.namespace, holder.name))
        return request.limiters.get(holder.container)

    async def _agreed_candidates(self, resource: str, size: int) -> list[CandidateContainer]:
        """Return the candidates; where their accelerators differ, wait until one candidate is left."""
        until = time.monotonic() + _DECISION_TIMEOUT
        while True:
            late = time.monotonic() > until
            try:
                containers = await self._candidates(resource, size)
            except KubeletError:  # the warden may be restarting
                if late:
                    raise
            else:
                if same_accelerators(containers):
                    return containers
                if late:
                    raise AllocationRefusedError(_ambiguous(resource, size, containers))
            await asyncio.sleep(_PAUSE)

    async def _candidates(self, resource: str, size: int) -> list[CandidateContainer]:
        assert self._pods is not None, "called only where the PodResources API can be read"
        listed = await self._pods.read()
        self._forget({(each.namespace, each.name) for each in listed})
        unread = [each for each in listed if self._must_read(each, resource, size)]
        if not self._continues_last(unread):
            await self._read(unread)
        containers = candidates(listed, self._known, resource, size, self._answered)
        if not containers and len(unread) < len(listed):
            await self._read(listed)  # a new pod may have the name of a deleted one
            containers = candidates(listed, self._known, resource, size, self._answered)
        return containers

    def _forget(self, names: Set[PodKey]) -> None:
        """Drop pods that the kubelet does not list any more."""
        if self._known.keys() <= names:
            return
        self._known = {key: each for key, each in self._known.items() if key in names}
        uids = {each.uid for each in self._known.values()}
        self._answered = {key for key in self._answered if key[0] in uids}

    def _continues_last(self, unread: Sequence[KubeletPod]) -> bool:
        """Say whether the kubelet continues with the pod of the last answer, which is known already.

        No other pod is a candidate, and the pod holds what was answered: the kubelet is at a later container.
        So a pod of hundreds of containers is read from the API server once, not once for each of them.
        """
        if self._last is None or len(unread) != 1:
            return False
        (last, resource), (pod,) = self._last, unread
        known = self._known.get((pod.namespace, pod.name))
        same = known is not None and known.uid == last.request.uid
        return same and resource in pod.held.get(last.container, ())

    def _must_read(self, listed: KubeletPod, resource: str, size: int) -> bool:
        """Say whether a pod must be read: it is not known, or it may be the pod being admitted."""
        known = self._known.get((listed.namespace, listed.name))
        return known is None or bool(pending_containers(known, listed, resource, size))

    async def _read(self, listed: Sequence[KubeletPod]) -> None:
        keys = [(each.namespace, each.name) for each in listed]
        self._known |= dict(zip(keys, await asyncio.gather(*map(self._request, keys)), strict=True))

    async def _request(self, key: PodKey) -> PodRequest:
        assert self._cluster is not None, "enabled only with a cluster"
        namespace, name = key
        async with self._room:
            try:
                pod = await self._cluster.get(PODS, name, namespace)
                return pod_request(pod, self._node, hami=self._hami)
            except NotFoundError:
                return PodRequest()

    async def _allowed(self, cluster: ClusterClient) -> bool:
        namespace, name = _PROBE_POD
        try:
            async with timeout(_API_TIMEOUT):
                await cluster.get(PODS, name, namespace)
        except NotFoundError:
            return True
        except AccessError:
            return False
        except (ClusterError, TimeoutError):
            return self.enabled
        return True

    def _set_enabled(self, *, enabled: bool) -> None:
        if enabled != self.enabled:
            self.enabled = enabled
            self._say(f"placements in the annotations of bindings are {'' if enabled else 'not '}followed")
            self._due.set()


def _chosen(resource: str, container: CandidateContainer) -> ChosenAccelerators | None:
    """Return what was chosen for a container; None where another scheduler placed it, without a limit."""
    request = container.request
    if request.shares is None:
        limiter = container.limiter
        return ChosenAccelerators(container.pod, None, limiter=limiter) if limiter else None
    if request.newer:
        raise AllocationRefusedError(
            f"{resource}: pod {container.pod}: {request.newer}", "upgrade the agent of this node"
        )
    devices = accelerators_of(request.shares)
    return ChosenAccelerators(container.pod, devices, container.limit, container.limiter)


def _ambiguous(resource: str, size: int, containers: Sequence[CandidateContainer]) -> str:
    names = " and ".join(sorted({container.pod for container in containers}))
    return (
        f"{resource}: cannot tell which of {names} requests {size} units, "
        "and different accelerators or limits were chosen for them"
    )
