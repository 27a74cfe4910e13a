"""A small cluster: one Pipeline, what the operator made of it, and kubelets that run its pods."""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import yaml

from fairlead.compat.times import UTC
from fairlead.keys import APPLIED
from fairlead.ownedobjects.certificates import CertifiedKey, HostNames
from fairlead.ownedobjects.kinds import NODES, digest
from fairlead.pipelineobjects.controller import PipelineController
from fairlead.reconcile import Manifest, Observed, PageReading, PodPage, Reconciled
from tests.ownedworlds import StoredWorld

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


class Run:
    """The run of a coordinator, as its page shows it."""

    def __init__(self) -> None:
        self.digest = ""
        self.seconds = 0.0
        self.follows = True
        """Whether it carries its file out."""
        self.is_reached = True
        """Whether its page answers."""
        self.pending = self.failed = ""
        self.rate = 25
        """Frames that its source reads in a second."""
        self.share = 1.0
        """What of them its sink takes."""
        self.drops = self.failures = 0
        """Frames dropped, and failed, in a second."""
        self.counts = {"read": 0.0, "taken": 0.0, "dropped": 0, "failed": 0, "restarts": 0}
        self.seen = ""
        self.canary = {"in": 5, "failed": 0, "restarts": 0, "process_s": 0.1}
        """What a canary of its stage counts in a second."""
        self.versions: dict[str, dict[str, float]] = {}
        """What both versions have counted; empty: there is no canary."""
        self.scaling: Any = []
        """What it says of replicas that follow the load."""

    def go_on(self, text: str) -> None:
        """Let a second pass."""
        self.seconds += 1
        self.seen = hashlib.sha256(text.encode()).hexdigest()
        if self.follows or not self.digest:
            self.digest = self.seen
        self.counts["read"] += self.rate
        self.counts["taken"] += self.rate * self.share
        self.counts["dropped"] += self.drops
        self.counts["failed"] += self.failures
        if self.follows:
            self._count_versions(json.loads(text))

    def _count_versions(self, document: Json) -> None:
        """Let both versions of the stage work for a second, if the file has a canary."""
        if "canary" not in document["stages"][1]:
            self.versions = {}
            return
        stable = {"in": 45, "failed": 0, "restarts": 0, "process_s": 0.9}
        for name, counts in (("stable", stable), ("canary", self.canary)):
            known = self.versions.setdefault(name, dict.fromkeys(counts, 0))
            self.versions[name] = {key: known[key] + counts[key] for key in counts}

    def page(self) -> bytes:
        """Return what its page answers."""
        counts = {key: int(value) for key, value in self.counts.items()}
        stages: list[Json] = [
            {"name": "camera", "role": "source", "out": counts["read"], "blocked": 0.0},
            {
                "name": "blur",
                "role": "run",
                "failed": counts["failed"],
                "restarts": counts["restarts"],
            },
            {"name": "log", "role": "sink", "in": counts["taken"]},
        ]
        if self.versions:
            percent = {"stable": 90, "canary": 10}
            stages[1]["versions"] = [
                {"version": name, "percent": percent[name], **counts}
                for name, counts in self.versions.items()
            ]
        follow = {"digest": self.digest, "seen": self.seen, "pending": self.pending, "failed": self.failed}
        edges = [{"dropped": {"oldest": counts["dropped"]}}]
        body = {"pipeline": "count", "seconds": self.seconds, "stages": stages, "edges": edges}
        body |= {"scaling": self.scaling} if self.scaling else {}
        return json.dumps({**body, "follow": {**follow, "moving": False}}).encode()


class Cluster(StoredWorld):
    """A Pipeline in a cluster whose nodes and kubelets are those of a test."""

    def __init__(self, resource: Json) -> None:
        super().__init__(resource, NOW)
        self.held: set[str] = set()
        """The host names of pods that no kubelet starts."""
        self.lost: set[str] = set()
        """The names of pods whose kubelet is away: they are never gone by themselves."""
        self.issuer = CountingIssuer()
        self.controller = PipelineController(self.issuer, image="image:1")
        self.nodes: list[Json] = [node("n1", room="lab"), node("n2")]
        self.run = Run()
        self.pages: dict[PodPage, PageReading] = {}
        self.asked: Mapping[PodPage, float] = {}
        """The pages that the last pass asked for."""

    def reconcile(self) -> Reconciled:
        """Let the operator do what is due once."""
        owned = self._owned(self.controller.owns)
        pages = {page: reading for page, reading in self.pages.items() if page in self.asked}
        watched = {NODES: tuple(copy.deepcopy(self.nodes))}
        observed = Observed(copy.deepcopy(self.resource), owned, watched, self.now, pages=pages)
        decided = self.controller.reconcile(observed)
        self._apply(decided)
        self.asked = decided.pages
        return decided

    def pods(self) -> dict[str, Json]:
        """Return the pods by host and slot, as others reach them: `server-a`, `local`."""
        return {each["spec"]["hostname"]: each for (kind, _), each in self.objects.items() if kind == "Pod"}

    def file(self) -> Json:
        """Return the ConfigMap with the file of the run."""
        return self.objects["ConfigMap", f"{self.resource['metadata']['name']}-file"]

    def addresses(self) -> dict[str, str]:
        """Return the host names in the file of the run."""
        hosts = json.loads(self.file()["data"]["pipeline.yaml"]).get("hosts", {})
        return {name: each["address"].partition(".")[0] for name, each in hosts.items()}

    def set_pod(self, host: str, **status: Any) -> None:
        """Let the kubelet say something of a pod."""
        self.pods()[host]["status"] = {"phase": "Running", **status}

    def run_pods(self) -> None:
        """Let kubelets end the pods that are deleted, and start the others."""
        for key, each in list(self.objects.items()):
            if key[0] != "Pod":
                continue
            if each["metadata"].get("deletionTimestamp"):
                if key[1] not in self.lost:
                    del self.objects[key]
            elif (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                self.start_pod(each)
        if not self.run.digest and "local" in self.pods():
            self.run.go_on(self.file()["data"]["pipeline.yaml"])

    def start_pod(self, pod: Json) -> None:
        """Let a kubelet start a pod, unless the test holds it back."""
        host = pod["spec"]["hostname"]
        if host not in self.held:
            pod["spec"].setdefault("nodeName", f"n-{host}")
            ready = [{"type": "Ready", "status": "True"}]
            pod["status"] = {"phase": "Running", "podIP": "10.0.0.1", "conditions": ready}

    def read_pages(self) -> None:
        """Let the run do what it does for a second, and the operator read the pages that it asked for."""
        self.now += timedelta(seconds=1)
        if "local" in self.pods():
            self.run.go_on(self.file()["data"]["pipeline.yaml"])
        for page in self.asked:
            body = self.run.page() if self.run.is_reached else b""
            self.pages[page] = PageReading(self.now, body, "" if body else "no answer within 2s")

    def live(self, seconds: int = 300) -> list[str]:
        """Let operator, kubelets and the run go on until nothing happens, and return what was written."""
        begin = len(self.writes)
        for _ in range(seconds):
            wrote = self.settle()
            before = copy.deepcopy(self.objects)
            self.run_pods()
            if any(every <= 1.0 for every in self.asked.values()):  # rarer ones wait for nothing
                self.read_pages()
            elif not wrote and before == self.objects:
                return self.writes[begin:]
        raise AssertionError(f"not settled: {self.writes[begin:]}")

    def pass_time(self, seconds: int) -> list[str]:
        """Let some seconds pass, and return what was written."""
        begin = len(self.writes)
        for _ in range(seconds):
            self.settle()
            self.run_pods()
            self.read_pages()
        self.settle()
        return self.writes[begin:]

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

    def _write(self, verb: str, key: tuple[str, str], each: Manifest) -> None:
        self.writes.append(f"{verb} {'/'.join(key)}")
        stored = copy.deepcopy(dict(each))
        notes = {**stored["metadata"].get("annotations", {}), APPLIED: digest(each)}
        known = self.objects.get(key, {"metadata": {"creationTimestamp": self.now.isoformat()}})
        made = {"creationTimestamp": known["metadata"]["creationTimestamp"]}
        stored = {**stored, "metadata": {**stored["metadata"], "annotations": notes, **made}}
        if verb == "change" and key[0] == "Pod":  # what the kubelet and the scheduler wrote stays
            assert covers(known["spec"], stored["spec"]), "pods do not change"
            stored = {**known, "metadata": stored["metadata"]}
        self.objects[key] = stored


def covers(stored: Any, wanted: Any) -> bool:
    """Return whether a stored value has everything that is wanted; the server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(covers(stored.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(covers, stored, wanted))
    return bool(stored == wanted)
