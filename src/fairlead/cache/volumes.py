"""The nodes that a pod's volumes allow, and the volumes to bind once its node is chosen. Pure.

A bound claim ties the pod to the nodes that reach its volume. A claim of a class with WaitForFirstConsumer
gets its volume when the pod's node is chosen: an existing volume is reserved for it, or one is provisioned.
Until then the pod's place is reserved; when the volume is bound, the pod is read again, and bound.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.cache.claim_index import ClaimIndex
from fairlead.cache.origin import LIVE, ObjectOrigin
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import LivePod
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.pod.rules import label_selector, label_terms
from fairlead.manifest.types.storage import (
    NO_PROVISIONER,
    STORAGE_RESOURCE,
    WAIT_FOR_FIRST_CONSUMER,
    StorageClass,
    Topology,
    Volume,
    VolumeClaim,
)
from fairlead.placement import NodeState
from fairlead.request import LabelTerm, MatchOperator, Request, Selector

_NAME: Final = "metadata.name"
_ENDLESS: Final = 1 << 100
_MOST: Final = 256
"""The most alternative selectors that a pod and its volumes may have together."""


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """What to write for a claim once its pod has a node."""

    claim: VolumeClaim
    node: str
    volume: Volume | None = None
    """The volume to reserve for it; None: one is provisioned."""


def volume_claims(pod: LivePod) -> list[tuple[str, Key]]:
    """Return the volume claims of a pod, each with the field that names it."""
    meta = pod.metadata
    claims = []
    for at, volume in enumerate(pod.spec.volumes):
        field = f"spec.volumes[{at}]"
        if volume.persistent_volume_claim is not None:
            claims.append((field, (meta.namespace, volume.persistent_volume_claim.claim_name)))
        elif volume.ephemeral is not None:
            claims.append((field, (meta.namespace, f"{meta.name}-{volume.name}")))
    return claims


class VolumeCache:
    """Claims, volumes and classes, and the pending pods that use them."""

    def __init__(self, origin: ObjectOrigin = LIVE) -> None:
        self._origin = origin
        self._claims: dict[Key, VolumeClaim] = {}
        self._volumes: dict[str, Volume] = {}
        self._free: dict[str, Volume] = {}
        """Volumes that are reserved for no claim."""
        self._reserved: dict[Key, Volume] = {}
        """The volume that is reserved for a claim."""
        self._classes: dict[str, StorageClass] = {}
        self._users = ClaimIndex()

    def on_event(self, change: ObjectChange[Any]) -> frozenset[str]:
        """Store a change, and return the ids of pods that may now read otherwise."""
        item = change.object
        if isinstance(item, VolumeClaim):
            _store(self._claims, change.key, change.new)
            return frozenset(self._users.of(change.key))
        if isinstance(item, Volume):
            return self._on_volume(item.metadata.name, change.new)
        _store(self._classes, item.metadata.name, change.new)
        return self._users.all_pods

    def _on_volume(self, name: str, now: Volume | None) -> frozenset[str]:
        """Store a volume; one that is or was free affects all pods, another only the users of its claim."""
        before = self._volumes.get(name)
        _store(self._volumes, name, now)
        was_free = self._free.pop(name, None) is not None
        if before is not None and before.claimed_by is not None:
            self._reserved.pop(before.claimed_by, None)
        if now is not None and now.claimed_by is not None:
            self._reserved[now.claimed_by] = now
        elif now is not None:
            self._free[name] = now
        if was_free or name in self._free:
            return self._users.all_pods
        claims = [
            each.claimed_by for each in (before, now) if each is not None and each.claimed_by is not None
        ]
        return frozenset(uid for key in claims for uid in self._users.of(key))

    def index_pod(self, uid: str, pod: LivePod | None) -> None:
        """Store the claims of a pending pod; None where it is no longer pending."""
        self._users.put(uid, [key for _, key in volume_claims(pod)] if pod is not None else ())

    def unbound_claims(self, pod: LivePod) -> list[VolumeClaim]:
        """Return the claims of a pod that get their volume when its node is chosen."""
        claims = [self._claims.get(key) for _, key in volume_claims(pod)]
        return [claim for claim in claims if claim is not None and not claim.bound]

    def bindings(self, pod: LivePod, node: NodeState) -> list[VolumeBinding]:
        """Return the bindings to write for a pod's claims on its node, without those already written."""
        bindings: list[VolumeBinding] = []
        taken: set[str] = set()
        for claim in self.unbound_claims(pod):
            if self._reserved_for(claim) is not None:
                continue
            reached = [volume for volume in self._free_for(claim) if _reaches(volume, node)]
            left = [volume for volume in reached if volume.metadata.name not in taken]
            if left:
                taken.add(left[0].metadata.name)
                bindings.append(VolumeBinding(claim, node.name, left[0]))
            elif self._has_provisioner(claim) and claim.node != node.name:
                bindings.append(VolumeBinding(claim, node.name))
        return bindings

    def with_volumes(
        self, pod: LivePod, request: Request, known: Callable[[str], bool]
    ) -> Request | UnreadablePod:
        """Return a request with the node affinity of its volumes, or why one of them is unavailable."""
        try:
            return self._with_volume_affinity(pod, request, known)
        except ManifestError as error:
            return UnreadablePod.of(pod, error)

    def _with_volume_affinity(self, pod: LivePod, request: Request, known: Callable[[str], bool]) -> Request:
        """Return a request with the node affinity of its volumes; ManifestError where one is unavailable.

        `known` says whether a node of a name exists: a claim's selected node counts only while it does.
        """
        affinity = request.affinity
        for field, key in volume_claims(pod) if self._origin.storage else ():
            where = f"{self._origin.place('Pod', pod)}: {field}"
            affinity = _intersection(affinity, self._node_selectors(where, key, known))
            if len(affinity) > _MOST:
                raise ManifestError(f"{where}: its volumes have too many alternatives", "use fewer volumes")
        return replace(request, affinity=affinity)

    def _node_selectors(self, where: str, key: Key, known: Callable[[str], bool]) -> tuple[Selector, ...]:
        """Return the selectors of which one must match for a claim; empty: every node matches."""
        claim, name = self._claims.get(key), "/".join(key)
        if claim is None:
            raise ManifestError(f"{where}: no PersistentVolumeClaim {name}", "create it, beside the pod")
        if claim.metadata.deletion_timestamp:
            raise ManifestError(f"{where}: PersistentVolumeClaim {name} is being deleted", "name another")
        if claim.status.phase == "Lost":
            raise ManifestError(
                f"{where}: PersistentVolumeClaim {name} has lost its volume", "create it again"
            )
        volume = self._volumes.get(claim.spec.volume_name) if claim.bound else self._reserved_for(claim)
        if volume is not None:
            return reachable(volume)
        kind = self._class_of(claim)
        if claim.bound or kind is None or kind.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            hint = f"see: kubectl describe pvc {key[1]}"
            raise ManifestError(f"{where}: PersistentVolumeClaim {name} has no volume yet", hint)
        if claim.node and known(claim.node):
            return (Selector(names=(LabelTerm(_NAME, MatchOperator.IN, (claim.node,)),)),)
        return self._unbound_selectors(where, claim, kind)

    def _unbound_selectors(self, where: str, claim: VolumeClaim, kind: StorageClass) -> tuple[Selector, ...]:
        """Return the selectors of the nodes that reach a free volume, or for which one can be provisioned."""
        free = [reachable(volume) for volume in self._free_for(claim)]
        provisioned = tuple(map(_of_topology, kind.allowed_topologies))
        if self._has_provisioner(claim):
            return () if not provisioned or not all(free) else (*provisioned, *_flat(free))
        if not free:
            raise ManifestError(
                f"{where}: no free volume of class {kind.metadata.name} is large enough and matches it",
                "create a PersistentVolume: this class has no provisioner",
            )
        return () if not all(free) else _flat(free)

    def _reserved_for(self, claim: VolumeClaim) -> Volume | None:
        volume = self._reserved.get(claim.key)
        ref = volume.spec.claim_ref if volume is not None else None
        # A person who reserves one by hand may omit the uid; another uid is that of a deleted claim.
        return volume if ref is not None and ref.uid in ("", claim.metadata.uid) else None

    def _free_for(self, claim: VolumeClaim) -> list[Volume]:
        """Return the free volumes that match a claim, the smallest first."""
        spec = claim.spec
        size = _bytes(spec.resources.requests.get(STORAGE_RESOURCE, 0))
        labels = label_selector("selector", spec.selector) if spec.selector is not None else Selector()
        volumes = [
            volume
            for volume in self._free.values()
            if volume.status.phase == "Available"
            and volume.spec.storage_class_name == (spec.storage_class_name or "")
            and volume.spec.volume_mode == spec.volume_mode
            and set(spec.access_modes) <= set(volume.spec.access_modes)
            and labels.selects(volume.metadata.labels)
            and _bytes(volume.spec.capacity.get(STORAGE_RESOURCE, 0)) >= size
        ]
        return sorted(
            volumes, key=lambda one: (_bytes(one.spec.capacity.get(STORAGE_RESOURCE, 0)), one.metadata.name)
        )

    def _has_provisioner(self, claim: VolumeClaim) -> bool:
        """Say whether a volume can be provisioned for a claim."""
        kind = self._class_of(claim)
        return kind is not None and kind.provisioner != NO_PROVISIONER

    def _class_of(self, claim: VolumeClaim) -> StorageClass | None:
        name = claim.spec.storage_class_name
        if name is None:
            return next((class_ for class_ in self._classes.values() if class_.is_default), None)
        return self._classes.get(name)


def reachable(volume: Volume) -> tuple[Selector, ...]:
    """Return the selectors of the nodes that reach a volume, one of which must match; empty: every node."""
    required = volume.spec.node_affinity.required
    where = f"volume {volume.metadata.name}: spec.nodeAffinity.required"
    selectors = [
        Selector(label_terms(where, term.match_expressions), label_terms(where, term.match_fields))
        for term in (required.node_selector_terms if required is not None else ())
    ]
    return tuple(selector for selector in selectors if selector.terms or selector.names)


def _reaches(volume: Volume, node: NodeState) -> bool:
    places, names = reachable(volume), {_NAME: node.name}
    return not places or any(
        place.selects(node.labels) and all(term.holds(names) for term in place.names) for place in places
    )


def _of_topology(topology: Topology) -> Selector:
    terms_ = topology.match_label_expressions
    return Selector(tuple(LabelTerm(term.key, MatchOperator.IN, term.values) for term in terms_))


def _intersection(one: Sequence[Selector], other: Sequence[Selector]) -> tuple[Selector, ...]:
    """Return the alternatives that match where one of each side matches."""
    if not one or not other:
        return (*one, *other)
    return tuple(
        Selector((*mine.terms, *theirs.terms), (*mine.names, *theirs.names))
        for mine in one
        for theirs in other
    )


def _flat(alternatives: Iterable[Sequence[Selector]]) -> tuple[Selector, ...]:
    return tuple(dict.fromkeys(selector for selectors in alternatives for selector in selectors))


def _bytes(value: Any) -> int:
    """Return a size; one too large to parse, which the API server accepts, is larger than any volume."""
    try:
        return amounts.quantity(STORAGE_RESOURCE, value)
    except ManifestError:
        return _ENDLESS


def _store(objects: dict[Any, Any], key: Any, now: Any) -> None:
    if now is None:
        objects.pop(key, None)
    else:
        objects[key] = now
