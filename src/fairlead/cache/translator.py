"""Translate pods to requests, each once; a pod that cannot be read has a reason instead."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from fairlead import keys
from fairlead.cache.latency import LatencyEstimator
from fairlead.cache.origin import LIVE, ObjectOrigin
from fairlead.cache.types import LiveClaim, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.http.codec import encode_plain
from fairlead.cluster.meta import Metadata
from fairlead.cluster.meta import replace as changed
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ManifestError
from fairlead.keys import MEMORY_LIMIT, PLACEMENT
from fairlead.manifest.files.collect import FoundObject, FoundObjects
from fairlead.manifest.pod.admitted import admitted_request
from fairlead.manifest.pod.allocated import with_allocated_claims
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.pod.effective import named_resources
from fairlead.manifest.pod.gangs import UNSTATED
from fairlead.manifest.pod.request import ReadContext, memory_by_model, read_request
from fairlead.manifest.types.dra import ResourceClaimSpec
from fairlead.manifest.types.kubernetes import PodGroup
from fairlead.modelprofiles.types import ModelProfile
from fairlead.placement import NodeState
from fairlead.request import Request
from fairlead.units import Bytes

K = TypeVar("K")
_DEVICE_ANNOTATIONS: Final = frozenset(
    {keys.MODEL, keys.COUNT, keys.COMPUTE, keys.KAI_FRACTION, keys.KAI_MEMORY, keys.KAI_DEVICES}
)
"""Annotations by which a pod requests accelerators without a resource."""
_READ_ERRORS: Final = (ManifestError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a pod may raise: the content of one pod must not keep others from being placed."""
_WRITTEN: Final = (MEMORY_LIMIT, PLACEMENT)
"""Annotations that the scheduler writes: they say nothing about what a pod requests."""
_MAX_PATTERNS: Final = 4096
"""The most pod templates whose requests are kept."""


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """A pod that cannot be read as a request; the reason is for its user."""

    name: str
    namespace: str
    id: str
    problem: str
    hint: str = ""

    @classmethod
    def of(cls, pod: LivePod, error: Exception) -> "UnreadablePod":
        """Return a pod with the error that reading it raised."""
        meta = pod.metadata
        if isinstance(error, ManifestError):
            return cls(meta.name, meta.namespace, meta.uid, str(error), error.hint)
        text = f"{meta.name} cannot be read: {type(error).__name__}: {str(error)[:200]}"
        return cls(meta.name, meta.namespace, meta.uid, text)

    @property
    def reason(self) -> str:
        """The problem, and the hint where there is one."""
        return f"{self.problem} ({self.hint})" if self.hint else self.problem


def asks_for_devices(pod: LivePod) -> bool:
    """Say whether a pod may request part of a device; in doubt, yes."""
    annotated = not _DEVICE_ANNOTATIONS.isdisjoint(pod.metadata.annotations)
    return annotated or bool(pod.spec.resource_claims) or any(map(is_accelerator, named_resources(pod.spec)))


def affected_pods(change: ObjectChange[Any], pods: Iterable[LivePod]) -> set[str]:
    """Return the uids of the pods that a change of a rule affects: those of its namespace, or all."""
    namespace = change.key[0]
    return {pod.metadata.uid for pod in pods if namespace in ("", pod.metadata.namespace)}


class PodTranslator:
    """The classes, templates, groups and models that pods refer to, and the requests read so far."""

    def __init__(self, catalog: Catalog, origin: ObjectOrigin = LIVE) -> None:
        self.unreadable: dict[str, UnreadablePod] = {}
        """Bound pods that are read from their spec alone, by uid, and why."""
        self._catalog = catalog
        self._origin = origin
        self._latency = LatencyEstimator(catalog)
        self._rules: dict[tuple[str, str, str], FoundObject] = {}
        self._objects: FoundObjects | None = FoundObjects()
        self._sizes: dict[str, Bytes] = {}
        self._known: dict[str, Request] = {}
        self._specs: dict[str, list[ResourceClaimSpec]] = {}
        """The specs of a pod's claims when the pod was read, by uid."""
        self._admitted: dict[str, Request] = {}
        """The requests of pods that are read from their spec alone."""
        self._patterns: dict[bytes, Request] = {}

    def on_rule(self, change: ObjectChange[Any]) -> bool:
        """Store a change of a class, template or group; say whether pods may now read otherwise."""
        kind = type(change.object).__name__
        key = (kind, *change.key)
        if change.new is None:
            self._rules.pop(key, None)
        else:
            self._rules[key] = FoundObject(f"{kind} {'/'.join(filter(None, change.key))}", kind, change.new)
        self._objects = None
        if change.old is not None and change.new is not None and _is_same_rule(change.old, change.new):
            return False  # only its labels changed, or the status of a group
        self._forget(change.key[0])
        return True

    def group(self, pod: LivePod) -> PodGroup | None:
        """Return the PodGroup of a pod; None where it has none."""
        name = pod.spec.scheduling_group.pod_group_name
        group = self._rules.get(("PodGroup", pod.metadata.namespace, name)) if name else None
        return group.body if group else None

    def on_profile(self, change: ObjectChange[ModelProfile]) -> bool:
        """Store a change of a ModelProfile; say whether pods that name a model may read otherwise."""
        changed_content = self._latency.on_event(change)
        if changed_content:
            self._forget()
        return changed_content

    def set_device_sizes(self, nodes: Iterable[NodeState]) -> bool:
        """Store the sizes of the cluster's accelerators; say whether pods now read otherwise."""
        by_model = memory_by_model(nodes)
        if by_model == self._sizes:
            return False
        self._sizes = by_model
        self._forget()
        return True

    def _forget(self, namespace: str = "") -> None:
        """Drop the requests of a namespace, or all: a change by one tenant costs the others nothing."""
        self._known = _of_other_namespaces(self._known, namespace)
        self._admitted = _of_other_namespaces(self._admitted, namespace)
        self._patterns = _of_other_namespaces(self._patterns, namespace)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._known.pop(uid, None)
        self._specs.pop(uid, None)
        self._admitted.pop(uid, None)
        self.unreadable.pop(uid, None)

    def translate_bound(self, pod: LivePod, claims: Mapping[str, LiveClaim]) -> Request:
        """Return the request of a bound pod; where it cannot be read as a whole, from its spec alone."""
        try:
            bound = self._read(pod, claims)
        except _READ_ERRORS as error:
            self.unreadable[pod.metadata.uid] = UnreadablePod.of(pod, error)
            return self.admitted(pod)
        self.unreadable.pop(pod.metadata.uid, None)
        return bound

    def admitted(self, pod: LivePod) -> Request:
        """Return the request of a bound pod as its kubelet admitted it, whatever its annotations are now."""
        uid = pod.metadata.uid
        known = self._admitted.get(uid)
        if known is None:
            where = self._origin.place("Pod", pod)
            known = self._admitted[uid] = admitted_request(where, pod, self._catalog, self._sizes)
        return known

    def translate_pending(self, pod: LivePod, claims: Mapping[str, LiveClaim]) -> Request | UnreadablePod:
        """Return the request of a pending pod, or why it cannot be placed."""
        self.drop(pod.metadata.uid)
        try:
            if not self._origin.authored:
                self._check_claims(pod, claims)
            pending = with_allocated_claims(self._read(pod, claims), claims.values())
            return pending if self._origin.authored else _require_gang_size(pending)
        except _READ_ERRORS as error:
            return UnreadablePod.of(pod, error)

    def _check_claims(self, pod: LivePod, claims: Mapping[str, LiveClaim]) -> None:
        """Raise where a claim does not exist yet; the error names what the pod waits for."""
        namespace = pod.metadata.namespace
        for at, each in enumerate(pod.spec.resource_claims):
            if each.name in claims:
                continue
            where = f"{self._origin.place('Pod', pod)}: spec.resourceClaims[{at}]"
            template = each.resource_claim_template_name
            if not template:
                missing = f"no ResourceClaim {namespace}/{each.resource_claim_name}"
                raise ManifestError(f"{where}: {missing}", "create it: a pod uses claims of its namespace")
            if ("ResourceClaimTemplate", namespace, template) in self._rules:
                raise ManifestError(
                    f"{where}: no claim exists yet for ResourceClaimTemplate {namespace}/{template}",
                    "Kubernetes' resourceclaim controller creates it",
                )
            missing = f"no ResourceClaimTemplate {namespace}/{template}"
            raise ManifestError(f"{where}: {missing}", "create it: a pod uses templates of its namespace")

    def _read(self, pod: LivePod, claims: Mapping[str, LiveClaim]) -> Request:
        uid, specs = pod.metadata.uid, [claim.spec for claim in claims.values()]
        known = self._known.get(uid)
        if known is None or self._specs.get(uid, []) != specs:
            known = self._known[uid] = self._read_or_reuse(pod, claims)
            if specs:
                self._specs[uid] = specs
        return known

    def _read_or_reuse(self, pod: LivePod, claims: Mapping[str, LiveClaim]) -> Request:
        """Read a pod, or reuse the request of another pod of its controller: they differ in name alone."""
        meta = pod.metadata
        where = self._origin.place("Pod", pod)
        context = ReadContext(self._catalog, self._objects_with(claims), self._sizes)
        if pod.spec.resource_claims:
            return self._read_request(where, pod, context)
        annotations = {name: text for name, text in meta.annotations.items() if name not in _WRITTEN}
        spec = changed(pod.spec, node_name="", volumes=())
        key = encode_plain((spec, meta.namespace, meta.labels, annotations))
        pattern = self._patterns.get(key)
        if pattern is None:
            if len(self._patterns) >= _MAX_PATTERNS:
                self._patterns.clear()
            pattern = self._patterns[key] = self._read_request(where, pod, context)
        return pattern if pattern.uid == meta.uid else replace(pattern, name=meta.name, uid=meta.uid)

    def _read_request(self, where: str, pod: LivePod, context: ReadContext) -> Request:
        asked = read_request(where, pod, context)
        if self._origin.authored:
            return asked  # the models of a manifest are files beside it: no ModelProfile describes them
        return self._latency.with_expectations(where, pod, asked, self._sizes)

    def _objects_with(self, claims: Mapping[str, LiveClaim]) -> FoundObjects:
        if self._objects is None:
            self._objects = FoundObjects.of(self._rules.values())
        if not claims:
            return self._objects
        named = {
            claim.key: FoundObject(f"claim {claim.metadata.name}", "ResourceClaim", claim)
            for claim in claims.values()
        }
        return FoundObjects.of([*self._rules.values(), *named.values()])


def _of_other_namespaces(known: dict[K, Request], namespace: str) -> dict[K, Request]:
    """Return the requests of other namespaces; none where the namespace is empty."""
    return {key: each for key, each in known.items() if each.namespace != namespace} if namespace else {}


def _is_same_rule(before: Any, now: Any) -> bool:
    """Say whether two versions of a rule have the same content: for most kinds, the spec."""
    return bool(_rule_content(before) == _rule_content(now))


def _rule_content(rule: Any) -> Any:
    return rule.spec if hasattr(rule, "spec") else changed(rule, metadata=Metadata())


def _require_gang_size(asked: Request) -> Request:
    """Return the request unchanged; raise where neither the pod nor a group states the size of its gang."""
    if asked.gang is not None and asked.gang.size == UNSTATED:
        raise ManifestError(
            f"{asked.name}: no annotation states how many pods the gang {asked.gang.name[:80]} must have",
            f"add the annotation {keys.GANG_SIZE}",
        )
    return asked
