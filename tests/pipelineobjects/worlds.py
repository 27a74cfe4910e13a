"""A small cluster: one Pipeline, what the operator made of it, and kubelets that run its pods."""

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import yaml

from fairlead.compat.times import UTC
from fairlead.keys import APPLIED
from fairlead.pipelineobjects.certificates import CertifiedKey, HostNames
from fairlead.pipelineobjects.controller import PipelineController
from fairlead.pipelineobjects.names import NODES, digest
from fairlead.reconcile import Announcement, Manifest, Observed, Reconciled

Json = dict[str, Any]
NOW = datetime(2026, 11, 18, 20, 0, tzinfo=UTC)
SPEC = """
stages:
  - {name: camera, source: numbers, options: {count: 100, rate: 30}, host: edge}
  - {name: blur, run: "code.py:blur", host: server, replicas: 2, in: Image, out: Image}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}}
edges:
  - {from: camera, to: blur, policy: drop_oldest, depth: 4, max_age: 200ms}
  - {from: blur, to: log}
hosts:
  - name: edge
    nodeSelector: {room: lab}
    class: jetson-orin-nano
    tolerations: [{key: edge, operator: Exists, effect: NoSchedule}]
  - name: server
    resources: {requests: {cpu: "2"}, limits: {memory: 1Gi}}
    accelerator: {memory: 2Gi, compute: 25}
  - {name: spare}
files: {configMap: count-files-1, items: [{key: code.py, path: code.py}]}
"""


def pipeline(text: str = SPEC, name: str = "count", namespace: str = "shop") -> Json:
    """Return a Pipeline with the spec of a YAML text."""
    metadata = {"name": name, "namespace": namespace, "generation": 1}
    body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Pipeline", "metadata": metadata}
    return {**body, "spec": yaml.safe_load(text)}


def node(name: str, memory: str = "8Gi", **labels: str) -> Json:
    """Return a node that is ready."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {"conditions": [ready], "allocatable": {"cpu": "4", "memory": memory}},
    }


def lose(lost: Json, at: datetime) -> None:
    """Let a node be not ready from a time on."""
    lost["status"]["conditions"][0] |= {"status": "Unknown", "lastTransitionTime": at.isoformat()}


def bring_back(back: Json, at: datetime) -> None:
    """Let a node be ready again."""
    back["status"]["conditions"][0] |= {"status": "True", "lastTransitionTime": at.isoformat()}


class CountingIssuer:
    """Certificates that say what they are, numbered as they are made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def authority(self, name: str) -> CertifiedKey:
        """Return a new authority."""
        return self._make(f"authority {name}")

    def leaf(self, authority: CertifiedKey, names: HostNames) -> CertifiedKey:
        """Return a new certificate."""
        return self._make(f"{names.common_name} of {authority.certificate.decode()}")

    def _make(self, text: str) -> CertifiedKey:
        self.made.append(text)
        number = len(self.made)
        return CertifiedKey(f"{text} #{number}".encode(), f"key #{number}".encode())


class Cluster:
    """What is stored, and what has happened."""

    def __init__(self, resource: Json) -> None:
        self.resource = resource
        self.objects: dict[tuple[str, str], Json] = {}
        self.issuer = CountingIssuer()
        self.controller = PipelineController(self.issuer, image="image:1")
        self.nodes: list[Json] = [node("n1", room="lab"), node("n2")]
        self.now = NOW
        self.writes: list[str] = []
        self.events: list[Announcement] = []
        self.is_gone = False

    def reconcile(self) -> Reconciled:
        """Let the operator do what is due once."""
        kinds = self.controller.owns
        owned = {
            kind: tuple(
                copy.deepcopy(each) for (name, _), each in sorted(self.objects.items()) if name == kind.kind
            )
            for kind in kinds
        }
        watched = {NODES: tuple(copy.deepcopy(self.nodes))}
        decided = self.controller.reconcile(Observed(copy.deepcopy(self.resource), owned, watched, self.now))
        self._apply(decided)
        return decided

    def settle(self) -> list[str]:
        """Reconcile until nothing is written any more, and return what was."""
        begin = len(self.writes)
        for _ in range(20):
            before = len(self.writes)
            self.reconcile()
            if len(self.writes) == before:
                return self.writes[begin:]
        raise AssertionError(f"not settled: {self.writes[begin:]}")

    def pods(self) -> dict[str, Json]:
        """Return the pods by host."""
        label = "fairlead.dev/pipeline-host"
        return {
            each["metadata"]["labels"][label]: each
            for (kind, _), each in self.objects.items()
            if kind == "Pod"
        }

    def set_pod(self, host: str, **status: Any) -> None:
        """Let the kubelet say something of a pod."""
        self.pods()[host]["status"] = {"phase": "Running", **status}

    def run_pods(self) -> None:
        """Let kubelets end the pods that are deleted, and start the others."""
        for key, each in list(self.objects.items()):
            if key[0] != "Pod":
                continue
            if each["metadata"].get("deletionTimestamp"):
                del self.objects[key]
            elif (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                each["spec"].setdefault("nodeName", "n1")
                each["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def live(self) -> list[str]:
        """Let operator and kubelets go on until nothing happens, and return what was written."""
        begin = len(self.writes)
        for _ in range(20):
            wrote = self.settle()
            before = copy.deepcopy(self.objects)
            self.run_pods()
            if not wrote and before == self.objects:
                return self.writes[begin:]
        raise AssertionError(f"not settled: {self.writes[begin:]}")

    def change(self, edit: Callable[[Json], None]) -> None:
        """Let the user change the spec."""
        edit(self.resource["spec"])
        self.resource["metadata"]["generation"] += 1

    def condition(self, kind: str) -> Json:
        """Return a condition of the status."""
        found: Json = next(each for each in self.resource["status"]["conditions"] if each["type"] == kind)
        return found

    def says(self, kind: str) -> str:
        """Return what a condition says, in one line."""
        at = self.condition(kind)
        return f"{at['status']} {at['reason']}: {at['message']}"

    def _apply(self, decided: Reconciled) -> None:
        wanted = {(each["kind"], each["metadata"]["name"]): each for each in decided.objects}
        for key, each in wanted.items():
            if key not in self.objects:
                self._write("create", key, each)
            elif self.objects[key]["metadata"]["annotations"][APPLIED] != digest(each):
                assert key[0] != "Pod", "pods do not change"
                self._write("change", key, each)
        for key in sorted(self.objects.keys() - wanted.keys() - decided.keep):
            self._delete(key)
        if decided.status is not None and self.resource.get("status") != decided.status:
            self.writes.append("status")
            self.resource["status"] = copy.deepcopy(dict(decided.status))
        self.events += decided.announcements
        self.is_gone = decided.is_finished

    def _write(self, verb: str, key: tuple[str, str], each: Manifest) -> None:
        self.writes.append(f"{verb} {'/'.join(key)}")
        stored = copy.deepcopy(dict(each))
        notes = {**stored["metadata"].get("annotations", {}), APPLIED: digest(each)}
        self.objects[key] = {**stored, "metadata": {**stored["metadata"], "annotations": notes}}

    def _delete(self, key: tuple[str, str]) -> None:
        stored = self.objects[key]
        if key[0] != "Pod":
            del self.objects[key]
        elif "deletionTimestamp" not in stored["metadata"]:
            grace = timedelta(seconds=stored["spec"]["terminationGracePeriodSeconds"])
            stored["metadata"]["deletionTimestamp"] = (self.now + grace).isoformat()
        else:
            return
        self.writes.append(f"delete {'/'.join(key)}")


def covers(stored: Any, wanted: Any) -> bool:
    """Return whether a stored value has everything that is wanted; the server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(covers(stored.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(covers, stored, wanted))
    return bool(stored == wanted)
