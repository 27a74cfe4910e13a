"""A replica that shares one node's accelerators by measured use, on a model of the API server."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from fairlead import keys
from fairlead.cache.types import NODES, PODS, LivePod
from fairlead.serve.machine.flow import Log
from fairlead.serve.scheduler.events import UsageRefreshed
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.scheduler import SchedulerSettings
from fairlead.units import Bytes
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport, UseSample
from tests import catalogs
from tests.serve.scheduler.model import Api
from tests.serve.scheduler.objects import GIB, device_slice, node, pod, read
from tests.serve.scheduler.simulated import WALL, EffectQueue, SimulatedReplica

NODE = "n1"
PERIOD = 15.0
RUNS = 3
"""Runs of an image from which its size is learned in these tests; one is too few."""
LEASE = LeaderElectionConfig("default", duration=60.0, deadline=40.0)
"""A leader keeps it for more than one period."""


class LoggedReplica(SimulatedReplica):
    """A replica whose log can be read."""

    def logged(self) -> str:
        """Return all lines."""
        texts = [effects.decode() for _, _, effects in self.history if b'"Log"' in effects]
        return "\n".join(texts)


def settings(policy: str = "fairlead-safe", **fields: Any) -> SchedulerSettings:
    base = SchedulerSettings(
        "one", initial_backoff=0.0, lease=LEASE, policy=policy, usage=True, usage_period=PERIOD
    )
    return replace(base, **fields)


class SharedNode:
    """One node with accelerators of 8 GiB, and the one replica that places pods on it."""

    def __init__(
        self, policy: str = "fairlead-safe", devices: int = 1, *, agent: bool = True, **fields: Any
    ) -> None:
        self.api = Api()
        self.effects = EffectQueue(self.api)
        self.now = 100.0
        self._settings = settings(policy, **fields)
        document = msgspec.to_builtins(node(NODE))
        document["metadata"]["annotations"] = {keys.BY_USE: "1"} if agent else {}
        self._surroundings = [read(NODES, document), device_slice(NODE, devices=devices, gib=8)]
        self.replica = self.start()

    def start(self, name: str = "one") -> LoggedReplica:
        """Start a replica, which leads once the Lease is free."""
        made = LoggedReplica(
            name, self.effects, catalogs.shipped(), lambda: self.now, replace(self._settings, me=name)
        )
        for each in self._surroundings:
            made.add_object(each)
        made.begin()
        self.replica = made
        self.run()
        return made

    def create(
        self, name: str, mib: int, image: str = "engine:1", notes: dict[str, str] | None = None, **spec: Any
    ) -> str:
        """Create a pod, and return its uid."""
        document = msgspec.to_builtins(pod(name, mib=mib, notes=notes, **spec))
        document["spec"]["containers"][0]["image"] = image
        made = self.api.create("pods", document)
        self.run()
        return str(made["metadata"]["uid"])

    def delete(self, name: str) -> None:
        """Delete a pod, and its claim, as controllers do."""
        uid = self.api.get("pods", name)["metadata"]["uid"]
        self.api.delete("pods", name)
        for claim in list(self.api.all("resourceclaims")):
            if any(owner["uid"] == uid for owner in claim["metadata"].get("ownerReferences", ())):
                self.api._remove(("resourceclaims", claim["metadata"]["name"]), claim)
        self.run()

    def patch_status(self, name: str, status: dict[str, Any]) -> None:
        """Write a pod's status, as its kubelet does."""
        old = self.api.get("pods", name)
        self.api._store(("pods", name), "MODIFIED", {**old, "status": {**old["status"], **status}})
        self.run()

    def run(self, steps: int = 30) -> None:
        """Deliver every effect, and let the replica work, until nothing happens any more."""
        for _ in range(steps):
            self.replica.observe_all()
            self.replica.end_sleeps(LEASE.period)
            self.replica.work()
            waiting = list(self.effects.in_flight)
            for sent in waiting:
                self.effects.deliver(sent, "done")
            if not waiting:
                return

    # Measured use

    def measure(
        self,
        use: Mapping[str, float],
        device: float | None = None,
        foreign: float = 0.0,
        lag: float = 0.0,
    ) -> None:
        """Let a period pass, and report GiB by the names of pods on the first accelerator."""
        self.now += PERIOD
        wall = WALL + self.now
        key = DeviceKey(NODE, "gpu-0")
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.api.all("pods")}
        total = sum(use.values()) + foreign if device is None else device
        pods = {
            PodDeviceKey(uids[name], *key): UseSample(wall - lag, Bytes(round(gib * GIB)), 0.1)
            for name, gib in use.items()
        }
        held = {key: Bytes(round(foreign * GIB))} if foreign else {}
        devices = {key: UseSample(wall - lag, Bytes(round(total * GIB)), 0.1)}
        self.report(UseReport(wall, "prometheus", devices, pods, held))

    def fail(self, fault: UseFault, detail: str = "no route to host") -> None:
        """Let a period pass in which the source of measured use fails."""
        self.now += PERIOD
        self.report(UseReport(WALL + self.now, "prometheus", faults={fault: 1}, detail=detail))

    def report(self, report: UseReport) -> None:
        """Hand a report to the replica, and let it act."""
        self.replica.work()  # the machine's clock is set by ticks
        self.replica.handle(UsageRefreshed.of(report))
        self.run()

    # What came of it

    def pod(self, name: str) -> LivePod:
        live: LivePod = read(PODS, self.api.get("pods", name))
        return live

    def bound(self) -> list[str]:
        """Return the names of the pods that have a node."""
        return sorted(
            each["metadata"]["name"] for each in self.api.all("pods") if each["spec"].get("nodeName")
        )

    def claimed(self, name: str) -> str:
        """Return the memory that a pod's claim consumes."""
        uid = self.api.get("pods", name)["metadata"]["uid"]
        for claim in self.api.all("resourceclaims"):
            if any(owner["uid"] == uid for owner in claim["metadata"].get("ownerReferences", ())):
                (result,) = claim["status"]["allocation"]["devices"]["results"]
                return str(result["consumedCapacity"]["memory"])
        return ""

    def size(self, name: str) -> float:
        """Return the GiB that a pod's claim consumes; 0: it has none."""
        text = self.claimed(name)
        return int(text.removesuffix("Mi")) / 1024 if text else 0.0

    def free(self) -> float:
        """Return the GiB that the engine counts as free on the first accelerator."""
        return self.replica.machine.cache.cluster.free(NODE).devices[0].memory / GIB

    def events(self, reason: str) -> list[str]:
        """Return the messages of events with a reason."""
        return [each["message"] for each in self.api.all("events") if each["reason"] == reason]

    def source(self, name: str) -> str:
        """Return what the need of a pod was derived from."""
        need = self.replica.machine.use.tracker.need(self.api.get("pods", name)["metadata"]["uid"])
        return "" if need is None else need.source.value

    def state(self, image: str, least: float, full: float) -> None:
        """State the sizes of an image in GiB, as a model profile does."""
        book, sizes = self.replica.machine.use.tracker.book, (round(least * GIB), round(full * GIB))
        book.state(f"image:{image}", least=Bytes(sizes[0]), full=Bytes(sizes[1]), ramp=0.0, now=self.now)

    def learn(self, image: str = "engine:1", gib: float = 1.5, mib: int = 6144) -> None:
        """Let some pods of an image run for a while, one after the other, and end."""
        self.measure({})
        for _ in range(RUNS):
            self.create("first", mib, image)
            for _ in range(5):
                self.measure({"first": gib})
            self.delete("first")
            self.measure({})


__all__ = ["GIB", "NODE", "PERIOD", "Log", "LoggedReplica", "SharedNode", "settings"]
