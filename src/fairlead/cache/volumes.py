"""Where the volumes of a pod let it be, and which of them are found when it has a node. Pure.

A claim that has its volume ties the pod to where that can be reached. One of a class that waits for the
first consumer gets its volume when the pod's node is chosen: one that is there is kept for it, or one is to
be made. Until then the pod's place is kept; when the volume is there the pod is read anew, and bound.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.cache.claim_index import ClaimIndex
from fairlead.cache.origin import LIVE, ObjectOrigin
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
"""Alternatives that a pod and its volumes may have together."""


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """What is to become of a claim now that its pod has a node."""

    claim: VolumeClaim
    node: str
    volume: Volume | None = None
    """To be kept for it; None: one is to be made."""


def volume_claims(pod: LivePod) -> list[tuple[str, Key]]:
    """Return the volume claims of a pod, each with the field that names it."""
    meta = pod.metadata
    found = []
    for at, each in enumerate(pod.spec.volumes):
        if each.persistent_volume_claim is not None:
            found.append((f"spec.volumes[{at}]", (meta.namespace, each.persistent_volume_claim.claim_name)))
        elif each.ephemeral is not None:
            found.append((f"spec.volumes[{at}]", (meta.namespace, f"{meta.name}-{each.name}")))
    return found


class VolumeCache:
    """Claims, volumes and classes, and who waits for them."""

    def __init__(self, origin: ObjectOrigin = LIVE) -> None:
        self._origin = origin
        self._claims: dict[Key, VolumeClaim] = {}
        self._volumes: dict[str, Volume] = {}
        self._free: dict[str, Volume] = {}
        """Volumes that are kept for nobody."""
        self._reserved: dict[Key, Volume] = {}
        """By claim: the volume that is kept for it."""
        self._classes: dict[str, StorageClass] = {}
        self._users = ClaimIndex()

    def on_event(self, change: ObjectChange[Any]) -> frozenset[str]:
        """Take a change in, and return the ids of pods that may now read otherwise."""
        item = change.object
        if isinstance(item, VolumeClaim):
            _store(self._claims, change.key, change.new)
            return frozenset(self._users.of(change.key))
        if isinstance(item, Volume):
            return self._on_volume(item.metadata.name, change.new)
        _store(self._classes, item.metadata.name, change.new)
        return self._users.all_pods

    def _on_volume(self, name: str, now: Volume | None) -> frozenset[str]:
        """Take in a volume; one that is free, or was, concerns everybody, else only who it is kept for."""
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
        found = [
            each.claimed_by for each in (before, now) if each is not None and each.claimed_by is not None
        ]
        return frozenset(uid for key in found for uid in self._users.of(key))

    def index_pod(self, uid: str, pod: LivePod | None) -> None:
        """Note for which claims a pod waits; None where it waits no more."""
        self._users.put(uid, [key for _, key in volume_claims(pod)] if pod is not None else ())

    def unbound_claims(self, pod: LivePod) -> list[VolumeClaim]:
        """Return the claims of a pod that get their volume when its node is chosen."""
        found = [self._claims.get(key) for _, key in volume_claims(pod)]
        return [each for each in found if each is not None and not each.bound]

    def bindings(self, pod: LivePod, node: NodeState) -> list[VolumeBinding]:
        """Return what is to be done for a pod's claims on its node, where that has not been done."""
        found: list[VolumeBinding] = []
        taken: set[str] = set()
        for claim in self.unbound_claims(pod):
            if self._reserved_for(claim) is not None:
                continue
            there = [each for each in self._free_for(claim) if _reaches(each, node)]
            left = [each for each in there if each.metadata.name not in taken]
            if left:
                taken.add(left[0].metadata.name)
                found.append(VolumeBinding(claim, node.name, left[0]))
            elif self._has_provisioner(claim) and claim.node != node.name:
                found.append(VolumeBinding(claim, node.name))
        return found

    def with_volume_affinity(self, pod: LivePod, asked: Request, known: Callable[[str], bool]) -> Request:
        """Return a request that goes where its volumes are; ManifestError where one of them is not to be had.

        `known` says whether there is a node of a name: a choice of one that is gone binds nobody.
        """
        affinity = asked.affinity
        for field, key in volume_claims(pod) if self._origin.storage else ():
            where = f"{self._origin.place('Pod', pod)}: {field}"
            affinity = _intersection(affinity, self._node_selectors(where, key, known))
            if len(affinity) > _MOST:
                raise ManifestError(f"{where}: its volumes can be in too many ways", "use fewer volumes")
        return replace(asked, affinity=affinity)

    def _node_selectors(self, where: str, key: Key, known: Callable[[str], bool]) -> tuple[Selector, ...]:
        """Return the selectors of which one must hold for a claim; none: it may be anywhere."""
        claim, name = self._claims.get(key), "/".join(key)
        if claim is None:
            raise ManifestError(f"{where}: no PersistentVolumeClaim {name}", "create it, beside the pod")
        if claim.metadata.deletion_timestamp:
            raise ManifestError(f"{where}: PersistentVolumeClaim {name} is being deleted", "name another")
        if claim.status.phase == "Lost":
            raise ManifestError(f"{where}: PersistentVolumeClaim {name} has lost its volume", "make it anew")
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
        """Return from where a volume could be reached that is there, or could be made."""
        there = [reachable(each) for each in self._free_for(claim)]
        made = tuple(map(_of_topology, kind.allowed_topologies))
        if self._has_provisioner(claim):
            return () if not made or not all(there) else (*made, *_flat(there))
        if not there:
            raise ManifestError(
                f"{where}: no free volume of class {kind.metadata.name} is large enough and alike",
                "make a PersistentVolume: this class makes none by itself",
            )
        return () if not all(there) else _flat(there)

    def _reserved_for(self, claim: VolumeClaim) -> Volume | None:
        found = self._reserved.get(claim.key)
        ref = found.spec.claim_ref if found is not None else None
        # Who keeps one by hand may leave the uid out; one of another uid is that of a claim of before.
        return found if ref is not None and ref.uid in ("", claim.metadata.uid) else None

    def _free_for(self, claim: VolumeClaim) -> list[Volume]:
        """Return the free volumes that a claim could have, the smallest first."""
        wish = claim.spec
        size = _bytes(wish.resources.requests.get(STORAGE_RESOURCE, 0))
        labels = label_selector("selector", wish.selector) if wish.selector is not None else Selector()
        found = [
            each
            for each in self._free.values()
            if each.status.phase == "Available"
            and each.spec.storage_class_name == (wish.storage_class_name or "")
            and each.spec.volume_mode == wish.volume_mode
            and set(wish.access_modes) <= set(each.spec.access_modes)
            and labels.selects(each.metadata.labels)
            and _bytes(each.spec.capacity.get(STORAGE_RESOURCE, 0)) >= size
        ]
        return sorted(
            found, key=lambda each: (_bytes(each.spec.capacity.get(STORAGE_RESOURCE, 0)), each.metadata.name)
        )

    def _has_provisioner(self, claim: VolumeClaim) -> bool:
        """Say whether a volume can be made for a claim."""
        kind = self._class_of(claim)
        return kind is not None and kind.provisioner != NO_PROVISIONER

    def _class_of(self, claim: VolumeClaim) -> StorageClass | None:
        name = claim.spec.storage_class_name
        if name is None:
            return next((class_ for class_ in self._classes.values() if class_.is_default), None)
        return self._classes.get(name)


def reachable(volume: Volume) -> tuple[Selector, ...]:
    """Return the selectors of which one must hold where a volume can be reached; none: everywhere."""
    required = volume.spec.node_affinity.required
    where = f"volume {volume.metadata.name}: spec.nodeAffinity.required"
    found = [
        Selector(label_terms(where, each.match_expressions), label_terms(where, each.match_fields))
        for each in (required.node_selector_terms if required is not None else ())
    ]
    return tuple(each for each in found if each.terms or each.names)


def _reaches(volume: Volume, node: NodeState) -> bool:
    places, names = reachable(volume), {_NAME: node.name}
    return not places or any(
        place.selects(node.labels) and all(term.holds(names) for term in place.names) for place in places
    )


def _of_topology(topology: Topology) -> Selector:
    found = topology.match_label_expressions
    return Selector(tuple(LabelTerm(each.key, MatchOperator.IN, each.values) for each in found))


def _intersection(one: Sequence[Selector], other: Sequence[Selector]) -> tuple[Selector, ...]:
    """Return alternatives of which one holds where one of each holds."""
    if not one or not other:
        return (*one, *other)
    return tuple(
        Selector((*mine.terms, *theirs.terms), (*mine.names, *theirs.names))
        for mine in one
        for theirs in other
    )


def _flat(found: Iterable[Sequence[Selector]]) -> tuple[Selector, ...]:
    return tuple(dict.fromkeys(each for some in found for each in some))


def _bytes(value: Any) -> int:
    """Return a size; of one that is beyond counting, what nothing reaches: the server lets such pass."""
    try:
        return amounts.quantity(STORAGE_RESOURCE, value)
    except ManifestError:
        return _ENDLESS


def _store(found: dict[Any, Any], key: Any, now: Any) -> None:
    if now is None:
        found.pop(key, None)
    else:
        found[key] = now
