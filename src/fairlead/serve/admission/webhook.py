"""Answer reviews: read the pods that a request is about, and apply the rules.

Schedulers bind far more often than they evict, so a binding costs one read from the API server's cache. What
the rules look at never changes during a pod's life, and the uid says whether it is the same pod; where the
cache does not know it yet, it is read again from the store.
"""

from collections.abc import Callable
from typing import Final

from fairlead.cluster.client import Client
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import PODS
from fairlead.cluster.meta import ObjectPart
from fairlead.errors import ClusterError, MissingApiError, NotFoundError
from fairlead.serve.admission import review
from fairlead.serve.admission.review import AdmissionRequest, Pod
from fairlead.serve.web.httpd import Response
from fairlead.settings.admission import Rules

_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups/{}"
_JSON: Final = "application/json"
_PAGE: Final = "500"
"""Waiting pods that are looked through where an eviction names no preemptor."""


class _GroupSpec(ObjectPart, frozen=True):
    priority: int = 0


class _Group(ObjectPart, frozen=True):
    spec: _GroupSpec = _GroupSpec()


class _Pods(ObjectPart, frozen=True):
    items: tuple[Pod, ...] = ()


class Webhook:
    """The webhook."""

    def __init__(self, client: Client, rules: Rules, say: Callable[[str], None]) -> None:
        self._client = client
        self._rules = rules
        self._say = say

    async def answer(self, body: bytes) -> Response:
        """Answer one AdmissionReview; where a pod could not be read, the API server is told to refuse."""
        try:
            asked = review.parse(body)
        except ValueError as error:
            return Response(400, f"{error}\n".encode())
        try:
            refusal = await self._refusal(asked)
        except ClusterError as error:
            self._say(f"{asked.what} of {asked.namespace}/{asked.pod} is not decided: {error}")
            return Response(503, f"the pod could not be read: {error}\n".encode())
        if refusal:
            self._say(f"refused {asked.what} of {asked.namespace}/{asked.pod}: {refusal}")
        return Response(200, review.answer(asked.uid, refusal), _JSON)

    async def _refusal(self, asked: AdmissionRequest) -> str:
        if asked.user != self._rules.account:
            return ""
        if asked.what == review.BINDING:
            pod = await self._pod(asked.namespace, asked.pod, cached=True)
            if pod is None or pod.metadata.uid != asked.pod_uid:
                pod = await self._pod(asked.namespace, asked.pod)
            return review.refuse_binding(asked, pod, self._rules.scheduler)
        if asked.what == review.EVICTION:
            victim = await self._pod(asked.namespace, asked.pod)
            refusal = review.refuse_victim(asked, victim, self._rules.protected)
            return refusal if refusal or victim is None else await self._unneeded(asked, victim)
        return f"fairlead-scheduler/known: a webhook for bindings and evictions was asked about {asked.what}"

    async def _unneeded(self, asked: AdmissionRequest, victim: Pod) -> str:
        """Return why no pod needs a victim's place: of those that are named, else of all that wait."""
        named = [
            await self._pod(*named_preemptor) for named_preemptor in review.named_preemptors(asked, victim)
        ]
        waiting = [pod for pod in named if pod is not None] or await self._waiting()
        outranked = [await self._outranks(victim, pod) for pod in waiting]
        return review.refuse_eviction(victim, outranked, self._rules.scheduler)

    async def _outranks(self, victim: Pod, pod: Pod) -> bool:
        group = pod.spec.scheduling_group.pod_group_name
        priority = await self._group_priority(pod.metadata.namespace, group) if group else 0
        return review.outranks(victim, pod, self._rules.scheduler, priority)

    async def _pod(self, namespace: str, name: str, *, cached: bool = False) -> Pod | None:
        query = {"resourceVersion": "0"} if cached else None
        try:
            found = await self._client.request("GET", PODS.path(namespace, name), query=query)
        except NotFoundError:
            return None
        return codec.decode_as(Pod, found, "Pod")

    async def _waiting(self) -> tuple[Pod, ...]:
        fields = f"spec.schedulerName={self._rules.scheduler},spec.nodeName="
        found = await self._client.request(
            "GET", PODS.path(), query={"fieldSelector": fields, "limit": _PAGE}
        )
        return codec.decode_as(_Pods, found, "PodList").items

    async def _group_priority(self, namespace: str, name: str) -> int:
        try:
            found = await self._client.request("GET", _GROUPS.format(namespace, name))
        except (NotFoundError, MissingApiError):
            return 0
        return codec.decode_as(_Group, found, "PodGroup").spec.priority
