"""Volumes of the lab: directories of this machine, made, enlarged and removed as claims ask. No CSI driver.

It is a provisioner and a resizer, as the sidecars of a CSI driver are, for volumes that the kubelet mounts by
itself (`hostPath`). A directory can hold more than its volume says: the quota of a store is what holds.
Steps are decided in pure code, and performed by `DirectoryVolumes`.
"""

import asyncio
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import Kind
from fairlead.errors import ConflictError, NotFoundError
from fairlead.keys import DOMAIN

DRIVER: Final = f"lab.{DOMAIN}/directories"
CLAIMS: Final = Kind.of("", "v1", "persistentvolumeclaims", namespaced=True, name="PersistentVolumeClaim")
VOLUMES: Final = Kind.of("", "v1", "persistentvolumes", namespaced=False, name="PersistentVolume")
CLASSES: Final = Kind.of("storage.k8s.io", "v1", "storageclasses", namespaced=False, name="StorageClass")
_BY: Final = "pv.kubernetes.io/provisioned-by"
_SHARED: Final = 0o2777
"""Whoever the pods run as may write."""
_POLL: Final = 0.2
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VolumeSteps:
    """What is done next."""

    create: tuple[Json, ...] = ()
    """Volumes to make, with their directories."""
    enlarge: tuple[tuple[Json, str], ...] = ()
    """Claims that ask for more than they have, and how much."""
    remove: tuple[str, ...] = ()
    """Volumes whose claim is gone."""


def storage_class(name: str, *, can_grow: bool = True, waits: bool = False) -> Json:
    """Return a storage class of such volumes; `waits`: a volume is made once a pod has a node."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    rules = {"allowVolumeExpansion": can_grow, "reclaimPolicy": "Delete", "volumeBindingMode": mode}
    return {"metadata": {"name": name}, "provisioner": DRIVER, **rules}


def next_steps(
    claims: Iterable[Json], volumes: Iterable[Json], classes: Mapping[str, Json], root: Path
) -> VolumeSteps:
    """Return what is done next."""
    ours = {
        each["metadata"]["name"]: each
        for each in volumes
        if (each["metadata"].get("annotations") or {}).get(_BY) == DRIVER
    }
    create, enlarge = [], []
    for claim in claims:
        found = classes.get(claim["spec"].get("storageClassName") or "")
        if found is None or found["provisioner"] != DRIVER or claim["metadata"].get("deletionTimestamp"):
            continue
        volume = ours.get(_name(claim))
        asked = claim["spec"]["resources"]["requests"]["storage"]
        if volume is None and not claim["spec"].get("volumeName") and _has_node(claim, found):
            create.append(_volume(claim, found, root))
        elif volume is not None and claim.get("status", {}).get("phase") == "Bound":
            had = (claim["status"].get("capacity") or {}).get("storage")
            enlarge += [(claim, asked)] if had != asked else []
    gone = [name for name, each in ours.items() if each.get("status", {}).get("phase") == "Released"]
    return VolumeSteps(tuple(create), tuple(enlarge), tuple(gone))


def _has_node(claim: Json, found: Json) -> bool:
    waits = found.get("volumeBindingMode") == "WaitForFirstConsumer"
    return not waits or bool(_node(claim))


def _node(claim: Json) -> str:
    notes = claim["metadata"].get("annotations") or {}
    return str(notes.get("volume.kubernetes.io/selected-node") or "")


def _name(claim: Json) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _volume(claim: Json, found: Json, root: Path) -> Json:
    meta = claim["metadata"]
    reference = {key: meta[key] for key in ("namespace", "name", "uid")}
    spec: Json = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": found["metadata"]["name"],
        "persistentVolumeReclaimPolicy": found.get("reclaimPolicy", "Delete"),
        "hostPath": {"path": str(root / _name(claim)), "type": "Directory"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
    }
    if node := _node(claim):
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return {"metadata": {"name": _name(claim), "annotations": {_BY: DRIVER}}, "spec": spec}


class DirectoryVolumes:
    """Performs the steps, until it is cancelled."""

    def __init__(self, client: Client, root: Path) -> None:
        self._client = client
        self._root = root

    async def run(self) -> None:
        """Make, enlarge and remove volumes."""
        while True:
            with suppress(ConflictError, NotFoundError):  # it has changed meanwhile: the next look sees how
                await self.step()
            await asyncio.sleep(_POLL)

    async def step(self) -> VolumeSteps:
        """Look once, and do what is due."""
        classes = {each["metadata"]["name"]: each for each in await self._list(CLASSES)}
        steps = next_steps(await self._list(CLAIMS), await self._list(VOLUMES), classes, self._root)
        for volume in steps.create:
            path = Path(volume["spec"]["hostPath"]["path"])
            path.mkdir(parents=True, exist_ok=True)
            os.chmod(path, _SHARED)
            await self._client.create(VOLUMES.raw(), volume)
        for claim, size in steps.enlarge:
            await self._enlarge(claim, size)
        for name in steps.remove:
            shutil.rmtree(self._root / name, ignore_errors=True)
            await self._client.delete(VOLUMES.raw(), name)
        return steps

    async def _enlarge(self, claim: Json, size: str) -> None:
        await self._client.patch(VOLUMES.raw(), _name(claim), {"spec": {"capacity": {"storage": size}}})
        meta = claim["metadata"]
        status = {"status": {"capacity": {"storage": size}, "conditions": None}}
        await self._client.patch_status(CLAIMS.raw(), meta["name"], status, meta["namespace"])

    async def _list(self, kind: Kind[Any]) -> list[Json]:
        return [each.document() for each in (await self._client.list(kind.raw())).items]
