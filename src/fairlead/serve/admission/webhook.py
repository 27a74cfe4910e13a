"""Answer AdmissionReviews: read the pods of a request, and apply the rules.

Schedulers bind far more often than they evict, so a binding costs one read from the API server's cache. The
fields that the rules use never change during a pod's life, and the uid says whether it is the same pod; where
the cache does not have it yet, it is read again from etcd.
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
"""The most pending pods that are searched where an eviction names no preemptor."""


class _GroupSpec(ObjectPart, frozen=True):
    priority: int = 0


class _Group(ObjectPart, frozen=True):
    spec: _GroupSpec = _GroupSpec()


class _Pods(ObjectPart, frozen=True):
    items: tuple[Pod, ...] = ()


class Webhook:
    """Decides the AdmissionReviews of bindings and evictions."""

    def __init__(self, client: Client, rules: Rules, say: Callable[[str], None]) -> None:
        self._client = client
        self._rules = rules
        self._say = say

    async def answer(self, body: bytes) -> Response:
        """Answer one AdmissionReview; with 503 where a pod cannot be read, so that the API server refuses."""
        try:
            request = review.parse(body)
        except ValueError as error:
            return Response(400, f"{error}\n".encode())
        try:
            refusal = await self._refusal(request)
        except ClusterError as error:
            self._say(f"{request.what} of {request.namespace}/{request.pod} is not decided: {error}")
            return Response(503, f"the pod could not be read: {error}\n".encode())
        if refusal:
            self._say(f"refused {request.what} of {request.namespace}/{request.pod}: {refusal}")
        return Response(200, review.answer(request.uid, refusal), _JSON)

    async def _refusal(self, request: AdmissionRequest) -> str:
        if request.user != self._rules.account:
            return ""
        if request.what == review.BINDING:
            pod = await self._pod(request.namespace, request.pod, cached=True)
            if pod is None or pod.metadata.uid != request.pod_uid:
                pod = await self._pod(request.namespace, request.pod)
            return review.refuse_binding(request, pod, self._rules.scheduler)
        if request.what == review.EVICTION:
            victim = await self._pod(request.namespace, request.pod)
            refusal = review.refuse_victim(request, victim, self._rules.protected)
            if refusal or victim is None:
                return refusal
            if request.full_device:
                rules = self._rules
                return review.refuse_guard(request, victim, rules.scheduler, allowed=rules.guard)
            return await self._refuse_unneeded(request, victim)
        return (
            f"fairlead-scheduler/known: a webhook for bindings and evictions was request about {request.what}"
        )

    async def _refuse_unneeded(self, request: AdmissionRequest, victim: Pod) -> str:
        """Return why no pod may preempt a victim: of the named preemptors, else of all pending pods."""
        named = [
            await self._pod(*named_preemptor) for named_preemptor in review.named_preemptors(request, victim)
        ]
        waiting = [pod for pod in named if pod is not None] or await self._pending()
        outranked = [await self._outranks(victim, pod) for pod in waiting]
        return review.refuse_eviction(victim, outranked, self._rules.scheduler)

    async def _outranks(self, victim: Pod, pod: Pod) -> bool:
        group = pod.spec.scheduling_group.pod_group_name
        priority = await self._group_priority(pod.metadata.namespace, group) if group else 0
        return review.outranks(victim, pod, self._rules.scheduler, priority)

    async def _pod(self, namespace: str, name: str, *, cached: bool = False) -> Pod | None:
        query = {"resourceVersion": "0"} if cached else None
        try:
            body = await self._client.request("GET", PODS.path(namespace, name), query=query)
        except NotFoundError:
            return None
        return codec.decode_as(Pod, body, "Pod")

    async def _pending(self) -> tuple[Pod, ...]:
        fields = f"spec.schedulerName={self._rules.scheduler},spec.nodeName="
        body = await self._client.request("GET", PODS.path(), query={"fieldSelector": fields, "limit": _PAGE})
        return codec.decode_as(_Pods, body, "PodList").items

    async def _group_priority(self, namespace: str, name: str) -> int:
        try:
            body = await self._client.request("GET", _GROUPS.format(namespace, name))
        except (NotFoundError, MissingApiError):
            return 0
        return codec.decode_as(_Group, body, "PodGroup").spec.priority
