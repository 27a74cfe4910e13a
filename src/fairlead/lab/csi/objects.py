"""The driver's objects, and which volumes are made, enlarged and removed: pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.kinds import Kind
from fairlead.keys import DOMAIN
from fairlead.units import Bytes, parse_quantity

DRIVER: Final = f"volumes.lab.{DOMAIN}"
CLASS: Final = "lab"
"""The storage class that a lab with volumes has."""
FILE_SYSTEM: Final = "xfs"
SMALLEST: Final = Bytes(16 << 20)
"""XFS cannot be smaller."""
CLAIMS: Final = Kind.of("", "v1", "persistentvolumeclaims", namespaced=True, name="PersistentVolumeClaim")
VOLUMES: Final = Kind.of("", "v1", "persistentvolumes", namespaced=False, name="PersistentVolume")
CLASSES: Final = Kind.of("storage.k8s.io", "v1", "storageclasses", namespaced=False, name="StorageClass")
DRIVERS: Final = Kind.of("storage.k8s.io", "v1", "csidrivers", namespaced=False, name="CSIDriver")
_BY: Final = "pv.kubernetes.io/provisioned-by"
_PENDING: Final = "NodeResizePending"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VolumeSteps:
    """What is done next."""

    create: tuple[Json, ...] = ()
    """Volumes to make, with their images."""
    enlarge: tuple[tuple[Json, Bytes], ...] = ()
    """Claims that ask for more than they have, and how much; the node's part then grows the file system."""
    remove: tuple[str, ...] = ()
    """Volumes whose claim is gone."""


def storage_class(name: str = CLASS, *, can_grow: bool = True, waits: bool = False) -> Json:
    """Return a storage class of such volumes; `waits`: a volume is made once a pod has a node."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    rules = {"allowVolumeExpansion": can_grow, "reclaimPolicy": "Delete", "volumeBindingMode": mode}
    return {"metadata": {"name": name}, "provisioner": DRIVER, **rules}


def csi_driver() -> Json:
    """Return the object by which Kubernetes knows the driver: nothing is attached before a mount."""
    spec = {"attachRequired": False, "podInfoOnMount": False, "fsGroupPolicy": "File"}
    return {"metadata": {"name": DRIVER}, "spec": {**spec, "volumeLifecycleModes": ["Persistent"]}}


def size_of(quantity: str) -> Bytes:
    """Return the size of an image: whole blocks, and at least what a file system needs."""
    return Bytes(max(SMALLEST, -(-parse_quantity(quantity) // 4096) * 4096))


def next_steps(claims: Iterable[Json], volumes: Iterable[Json], classes: Mapping[str, Json]) -> VolumeSteps:
    """Return what is done next."""
    ours = {each["metadata"]["name"]: each for each in volumes if _is_ours(each)}
    create, enlarge = [], []
    for claim in claims:
        found = classes.get(claim["spec"].get("storageClassName") or "")
        if found is None or found["provisioner"] != DRIVER or claim["metadata"].get("deletionTimestamp"):
            continue
        volume = ours.get(volume_name(claim))
        if volume is None and _can_have_one(claim, found):
            create.append(_volume(claim, found))
        elif volume is not None and (size := _missing(claim, volume)):
            enlarge.append((claim, size))
    gone = [name for name, each in ours.items() if _is_over(each)]
    return VolumeSteps(tuple(create), tuple(enlarge), tuple(gone))


def resize_pending(size: str, conditions: Iterable[Json] = ()) -> Json:
    """Return the status of a claim whose image has grown: a kubelet then grows its file system."""
    waiting = {
        "type": "FileSystemResizePending",
        "status": "True",
        "message": "the file system grows once a pod uses the volume",
    }
    others = [each for each in conditions if each["type"] != waiting["type"]]
    grown = {"allocatedResources": {"storage": size}, "allocatedResourceStatuses": {"storage": _PENDING}}
    return {"status": {**grown, "conditions": [*others, waiting]}}


def volume_name(claim: Json) -> str:
    """Return the name of a claim's volume, which is its handle and the name of its image."""
    return f"pvc-{claim['metadata']['uid']}"


def _is_ours(volume: Json) -> bool:
    return (volume["metadata"].get("annotations") or {}).get(_BY) == DRIVER


def _is_over(volume: Json) -> bool:
    kept = volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain"
    return volume.get("status", {}).get("phase") == "Released" and not kept


def _can_have_one(claim: Json, found: Json) -> bool:
    """Return whether a claim can get a volume now; volumes are file systems, not block devices."""
    if claim["spec"].get("volumeName") or claim["spec"].get("volumeMode", "Filesystem") != "Filesystem":
        return False
    notes = claim["metadata"].get("annotations") or {}
    waits = found.get("volumeBindingMode") == "WaitForFirstConsumer"
    return not waits or bool(notes.get("volume.kubernetes.io/selected-node"))


def _missing(claim: Json, volume: Json) -> Bytes | None:
    """Return the size to which a bound claim's volume grows; None: it has that, or is about to."""
    status = claim.get("status", {})
    if status.get("phase") != "Bound":
        return None
    asked = size_of(claim["spec"]["resources"]["requests"]["storage"])
    known = (status.get("allocatedResourceStatuses") or {}).get("storage")
    grown = parse_quantity(volume["spec"]["capacity"]["storage"]) >= asked
    had = parse_quantity((status.get("capacity") or {}).get("storage", "0")) >= asked
    return None if grown and (had or known) else asked


def _volume(claim: Json, found: Json) -> Json:
    meta, name = claim["metadata"], volume_name(claim)
    asked = claim["spec"]["resources"]["requests"]["storage"]
    reference = {key: meta[key] for key in ("namespace", "name", "uid")}
    spec: Json = {
        "capacity": {"storage": asked if size_of(asked) == parse_quantity(asked) else str(size_of(asked))},
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": found["metadata"]["name"],
        "persistentVolumeReclaimPolicy": found.get("reclaimPolicy", "Delete"),
        "csi": {"driver": DRIVER, "volumeHandle": name, "fsType": FILE_SYSTEM},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
    }
    return {"metadata": {"name": name, "annotations": {_BY: DRIVER}}, "spec": spec}
