"""What a scheduler of ours chose for the pod that the kubelet is about to admit, asked for in that moment.

A pod's binding carries the choice as an annotation. It takes the right to get pods; where that was not
given, nobody is asked, nothing is promised to schedulers, and units are chosen as if there were none.
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
from fairlead.offer import Form
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
from fairlead.settings.publishing import PublishConfig

_PATIENCE: Final = 2.0
"""Seconds in which it must become clear who is asked for: a kubelet admits nobody else meanwhile."""
_LIMIT: Final = 5.0
"""Seconds after which an API server that does not answer is away."""
_PAUSE: Final = 0.1
_AT_ONCE: Final = 8
_PROBE: Final = 60.0
"""Seconds between looks at whether we may get pods."""
_NOBODY: Final = ("default", "fairlead-nobody")
"""A pod that need not exist: whoever may get pods is told that it does not."""


@dataclass(frozen=True, slots=True)
class ChosenAccelerators:
    """The accelerators that a scheduler chose for a pod."""

    pod: str
    devices: frozenset[str]


class PlacementLookup:
    """Finds out what was chosen for whom."""

    def __init__(self, terms: PublishConfig, due: asyncio.Event, say: Callable[[str], None]) -> None:
        self._node = terms.node
        units = terms.forms & {Form.WHOLE, Form.MEMORY}
        self._pods = PodReader(terms.books) if terms.books and units else None
        self._due = due
        self._say = say
        self._cluster: ClusterClient | None = None
        self._known: dict[PodKey, PodRequest] = {}
        self._answered: set[tuple[str, str]] = set()
        self._last: tuple[CandidateContainer, str] | None = None
        """The container that was answered for last, and the resource."""
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.able = False
        """Whether the choices of schedulers are heeded."""

    async def probe_access(self, cluster: ClusterClient) -> None:
        """Find out again and again whether pods may be read: rights come and go."""
        self._cluster = cluster
        while self._pods is not None:
            self._turn(able=await self._allowed(cluster))
            await asyncio.sleep(_PROBE * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load

    async def chosen_accelerators(self, resource: str, size: int) -> ChosenAccelerators | None:
        """Return what was chosen for the container that a kubelet asks so many units for; None: nothing was.

        RefusedError where that cannot be found out: any accelerator might be the wrong one.
        """
        if not self.able:
            return None
        try:
            async with timeout(_LIMIT):
                found = await self._settled(resource, size)
        except AccessError:
            self._turn(able=False)
            return None
        except (ClusterError, TimeoutError) as error:
            raise AllocationRefusedError(
                f"{resource}: the API server was asked in vain which accelerator was chosen: {error}",
                "a controller's pod is tried again; else make the pod anew when the API server is back",
            ) from None
        self._last = (found[0], resource) if found else None
        self._answered |= {each.mark for each in found[:1]}
        if not found or found[0].request.shares is None:
            return None
        if found[0].request.newer:
            raise AllocationRefusedError(
                f"{resource}: pod {found[0].pod}: {found[0].request.newer}", "upgrade the agent of this node"
            )
        return ChosenAccelerators(found[0].pod, accelerators_of(found[0].request.shares))

    async def _settled(self, resource: str, size: int) -> list[CandidateContainer]:
        """Return for whom it can be; where that makes a difference, wait until it is one only."""
        until = time.monotonic() + _PATIENCE
        while True:
            late = time.monotonic() > until
            try:
                found = await self._candidates(resource, size)
            except KubeletError:  # the warden may be starting anew
                if late:
                    raise
            else:
                if same_accelerators(found):
                    return found
                if late:
                    raise AllocationRefusedError(_unclear(resource, size, found))
            await asyncio.sleep(_PAUSE)

    async def _candidates(self, resource: str, size: int) -> list[CandidateContainer]:
        assert self._pods is not None, "asked only where the books can be read"
        listed = await self._pods.read()
        self._forget({(each.namespace, each.name) for each in listed})
        doubtful = [each for each in listed if self._doubtful(each, resource, size)]
        if not self._goes_on(doubtful):
            await self._read(doubtful)
        found = candidates(listed, self._known, resource, size, self._answered)
        if not found and len(doubtful) < len(listed):
            await self._read(listed)  # one may have come under the name of another that is gone
            found = candidates(listed, self._known, resource, size, self._answered)
        return found

    def _forget(self, names: Set[PodKey]) -> None:
        """Forget pods that the kubelet does not know any more."""
        if self._known.keys() <= names:
            return
        self._known = {key: each for key, each in self._known.items() if key in names}
        uids = {each.uid for each in self._known.values()}
        self._answered = {mark for mark in self._answered if mark[0] in uids}

    def _goes_on(self, doubtful: Sequence[KubeletPod]) -> bool:
        """Say whether the kubelet goes on with the pod that was answered for last, so that it is known.

        No other pod is in question, and the pod holds what was answered: it is the same pod, further on.
        A pod of hundreds of containers is read from the API server once, not once for each of them.
        """
        if self._last is None or len(doubtful) != 1:
            return False
        (last, resource), (pod,) = self._last, doubtful
        known = self._known.get((pod.namespace, pod.name))
        same = known is not None and known.uid == last.request.uid
        return same and resource in pod.held.get(last.container, ())

    def _doubtful(self, listed: KubeletPod, resource: str, size: int) -> bool:
        """Say whether a pod must be looked at: it is not known, or it may be the one in question."""
        known = self._known.get((listed.namespace, listed.name))
        return known is None or bool(pending_containers(known, listed, resource, size))

    async def _read(self, listed: Sequence[KubeletPod]) -> None:
        keys = [(each.namespace, each.name) for each in listed]
        self._known |= dict(zip(keys, await asyncio.gather(*map(self._wish, keys)), strict=True))

    async def _wish(self, key: PodKey) -> PodRequest:
        assert self._cluster is not None, "able only with a cluster"
        namespace, name = key
        async with self._room:
            try:
                return pod_request(await self._cluster.get(PODS, name, namespace), self._node)
            except NotFoundError:
                return PodRequest()

    async def _allowed(self, cluster: ClusterClient) -> bool:
        namespace, name = _NOBODY
        try:
            async with timeout(_LIMIT):
                await cluster.get(PODS, name, namespace)
        except NotFoundError:
            return True
        except AccessError:
            return False
        except (ClusterError, TimeoutError):
            return self.able
        return True

    def _turn(self, *, able: bool) -> None:
        if able != self.able:
            self.able = able
            self._say(f"placements that schedulers note in bindings are {'' if able else 'not '}heeded")
            self._due.set()


def _unclear(resource: str, size: int, found: Sequence[CandidateContainer]) -> str:
    names = " and ".join(sorted({each.pod for each in found}))
    return (
        f"{resource}: it is not clear which of {names} asks for {size}, "
        "and different accelerators were chosen for them"
    )
