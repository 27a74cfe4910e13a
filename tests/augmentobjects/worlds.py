"""A small cluster: one Augmentation, what the operator made of it, a provisioner of volumes and kubelets."""

import copy
import itertools
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import yaml

from fairlead.augmentobjects.controller import AugmentationController
from fairlead.compat.times import UTC
from fairlead.keys import APPLIED, RETAINED_FOR
from fairlead.ownedobjects.kinds import NODES, STORAGE_CLASSES, digest
from fairlead.reconcile import (
    Manifest,
    Observed,
    PageReading,
    PodPage,
    Reconciled,
    ResourceKind,
)
from fairlead.units import parse_quantity
from tests.ownedworlds import StoredWorld
from tests.pipelineobjects.worlds import CountingIssuer, covers

Json = dict[str, Any]
NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
SPEC = """
device: camera-7
storage: {size: 2Gi, classes: [quick]}
application:
  image: detector:1
  command: [python3, detect.py]
  accelerator: {memory: 2Gi, compute: 25}
  ports: [8080]
"""
STORAGE_ALONE = "{device: camera-7, storage: {size: 2Gi}}"


def augmentation(text: str = SPEC, name: str = "cam", namespace: str = "shop") -> Json:
    """Return an Augmentation with the spec of a YAML text."""
    metadata = {"name": name, "namespace": namespace, "generation": 1}
    body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Augmentation", "metadata": metadata}
    return {**body, "spec": yaml.safe_load(text)}


class Cluster(StoredWorld):
    """An Augmentation in a cluster whose nodes and storage classes are those of a test."""

    def __init__(self, resource: Json) -> None:
        super().__init__(resource, NOW)
        self.classes = {"quick": True, "slow": False}
        """Storage classes, and whether their claims can grow."""
        self.busy: set[str] = set()
        """Parts for whose pods no node has room."""
        self.lost: set[str] = set()
        """Names of pods whose kubelet is away."""
        self.issuer = CountingIssuer()
        numbers = itertools.count(1)
        self.controller = AugmentationController(
            self.issuer, image="store:1", new_secret=lambda: f"secret-{next(numbers):032}"
        )
        self.conflicts: dict[tuple[str, str], str] = {}
        self.again: float | None = None
        self.report: Json | None = None
        """What the store answers; None: nothing yet."""
        self.asked: list[PodPage] = []

    def reconcile(self) -> Reconciled:
        """Let the operator do what is due once."""
        owned = self._owned(self.controller.owns)
        addresses = [{"type": "InternalIP", "address": "10.1.0.1"}]
        watched: dict[ResourceKind, tuple[Json, ...]] = {
            NODES: ({"metadata": {"name": "n1"}, "status": {"addresses": addresses}},),
            STORAGE_CLASSES: tuple({"metadata": {"name": name}} for name in self.classes),
        }
        observed = Observed(
            copy.deepcopy(self.resource), owned, watched, self.now, dict(self.conflicts), self._pages()
        )
        decided = self.controller.reconcile(observed)
        self._apply(decided)
        return decided

    def _pages(self) -> dict[PodPage, PageReading]:
        if self.report is None:
            return {}
        return dict.fromkeys(self.asked, PageReading(self.now, json.dumps(self.report).encode()))

    def live(self) -> list[str]:
        """Let operator, provisioner and kubelets go on until nothing happens, and return what was written."""
        begin = len(self.writes)
        for _ in range(50):
            wrote = self.settle()
            before = copy.deepcopy(self.objects)
            self._provision()
            self._run_pods()
            if not wrote and before == self.objects:
                return self.writes[begin:]
        raise AssertionError(f"not settled: {self.writes[begin:]}")

    def change(self, edit: Callable[[Json], Any]) -> None:
        """Let the user change the spec."""
        edit(self.resource["spec"])
        self.resource["metadata"]["generation"] += 1

    def delete(self) -> None:
        """Let the user delete the Augmentation."""
        self.resource["metadata"]["deletionTimestamp"] = self.now.isoformat()

    def pod(self, part: str) -> Json:
        """Return the pod of a part."""
        return self.objects["Pod", f"cam-{part}"]

    def claim(self, name: str = "cam-data") -> Json:
        """Return a claim."""
        return self.objects["PersistentVolumeClaim", name]

    def settings(self) -> dict[str, str]:
        """Return the settings of the store."""
        data: dict[str, str] = self.objects["ConfigMap", "cam-store-settings"]["data"]
        return data

    def says(self, kind: str) -> str:
        """Return what a condition says, in one line."""
        listed = self.resource["status"]["conditions"]
        at = next(each for each in listed if each["type"] == kind)
        return f"{at['status']} {at['reason']}: {at['message']}"

    def _provision(self) -> None:
        for (kind, _), each in self.objects.items():
            if (
                kind != "PersistentVolumeClaim"
                or each["spec"].get("storageClassName", "quick") not in self.classes
            ):
                continue
            each["spec"]["volumeName"] = f"volume-of-{each['metadata']['name']}"
            size = each["spec"]["resources"]["requests"]["storage"]
            each["status"] = {"phase": "Bound", "capacity": {"storage": size}}

    def _run_pods(self) -> None:
        for key, each in list(self.objects.items()):
            if key[0] != "Pod":
                continue
            if each["metadata"].get("deletionTimestamp"):
                if key[1] not in self.lost:
                    del self.objects[key]
            elif key[1].removeprefix("cam-") in self.busy:
                reason = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: no room"}
                each["status"] = {"phase": "Pending", "conditions": [reason]}
            else:
                each["spec"]["nodeName"] = "n1"
                ready = [{"type": "Ready", "status": "True"}]
                image = {"name": key[1].removeprefix("cam-"), "imageID": f"localhost/x@sha256:{'a' * 64}"}
                each["status"] = {"phase": "Running", "conditions": ready, "containerStatuses": [image]}
                each["status"]["podIP"] = "10.0.0.9"

    def _apply(self, decided: Reconciled) -> None:
        self.conflicts = {}
        super()._apply(decided)
        self.again = decided.again_after
        self.asked = list(decided.pages)
        if self.is_gone:
            self.objects = {
                key: each for key, each in self.objects.items() if RETAINED_FOR in each["metadata"]["labels"]
            }

    def _write(self, verb: str, key: tuple[str, str], each: Manifest) -> None:
        known = self.objects.get(key)
        if known is not None and key[0] == "PersistentVolumeClaim":
            old, new = (
                parse_quantity(one["spec"]["resources"]["requests"]["storage"]) for one in (known, each)
            )
            assert new >= old, "the API server refuses a smaller claim"
            if new > old and not self.classes.get(each["spec"].get("storageClassName", "quick")):
                self.conflicts[key] = "the class does not support expansion"
                return
        self.writes.append(f"{verb} {'/'.join(key)}")
        stored = copy.deepcopy(dict(each))
        annotations = {**stored["metadata"].get("annotations", {}), APPLIED: digest(each)}
        stored["metadata"] = {**stored["metadata"], "annotations": annotations}
        stored["metadata"]["creationTimestamp"] = self.now.isoformat()
        if known is not None:
            if key[0] == "Pod":
                assert covers(known["spec"], stored["spec"]), "pods do not change"
            stored["spec" if key[0] == "Pod" else "status"] = known.get(
                "spec" if key[0] == "Pod" else "status"
            )
            stored["metadata"]["creationTimestamp"] = known["metadata"]["creationTimestamp"]
            if "status" in known:
                stored["status"] = known["status"]
        if key == ("Service", "cam-store"):
            stored["spec"]["ports"][0].setdefault("nodePort", 30443)
        self.objects[key] = stored
