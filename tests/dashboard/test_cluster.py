"""A live cluster as tables: changes of objects in, rows out."""

from typing import Any

import msgspec
import pytest

from fairlead.cache.types import PLACEMENT, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import DeviceRow, NodeRow, WorkloadRow
from fairlead.dashboard.sources.cluster.custom_rows import augmentation_row, pipeline_answer, pipeline_row
from fairlead.dashboard.sources.cluster.node_rows import agent_state
from fairlead.dashboard.sources.cluster.tables import ClusterTables
from fairlead.keys import DEVICES
from fairlead.manifest.types.kubernetes import Node
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.use import DeviceKey, PodDeviceKey, UseReport, UseSample
from fairlead.whatif.pipeline.report import explain_pipeline
from tests.augmentobjects.worlds import augmentation
from tests.serve.scheduler.objects import device_slice, node, pod
from tests.whatif.pipeline.worlds import observe, run_status, running

COMMANDS = dict.fromkeys(("nodes", "devices", "workloads"), "command")
NOTE = PLACEMENTS.encode((DeviceShare("gpu-1", Bytes(1 << 30)),))


class World:
    """A board, and the objects that feed it."""

    def __init__(self, catalog: Catalog) -> None:
        self.board = Board(COMMANDS, lambda: 1000.0)
        self.tables = ClusterTables(self.board, catalog)

    def see(self, *objects: Any) -> None:
        for each in objects:
            self.tables.on_event(ObjectChange(None, each))
        self.tables.refresh()

    def change(self, old: Any, new: Any) -> None:
        self.tables.on_event(ObjectChange(old, new))
        self.tables.refresh()

    def row(self, table: str, key: str) -> Any:
        return self.board.tables[table].rows[key]


@pytest.fixture
def world(catalog: Catalog) -> World:
    return World(catalog)


def test_bound_pod_is_a_share_of_its_accelerator(world: World) -> None:
    world.see(node("n"), device_slice("n"), pod("a", on="n", mib=1024, notes={PLACEMENT: NOTE}))
    device, workload = world.row("devices", "n/gpu-1"), world.row("workloads", "default/a")
    assert isinstance(device, DeviceRow)
    assert isinstance(workload, WorkloadRow)
    assert [(share.holder, share.requested_bytes) for share in device.shares] == [("default/a", 1 << 30)]
    assert (workload.state, workload.devices) == ("starting", ("n/gpu-1",))
    assert workload.requested.accelerator_bytes == 1 << 30


def test_deleted_pod_leaves_its_accelerator(world: World) -> None:
    placed = pod("a", on="n", mib=1024, notes={PLACEMENT: NOTE})
    world.see(node("n"), device_slice("n"), placed)
    world.change(placed, None)
    assert world.row("devices", "n/gpu-1").shares == ()
    assert "default/a" not in world.board.tables["workloads"].rows


def test_pod_of_the_same_name_follows_a_deleted_one(world: World) -> None:
    first = pod("a", uid="one")
    world.see(first)
    world.tables.on_event(ObjectChange(first, None))
    world.change(None, pod("a", uid="two", phase="Running", on="n"))
    assert world.row("workloads", "default/a").state == "running"


def test_deleted_node_takes_its_accelerators(world: World) -> None:
    there = node("n")
    world.see(there, device_slice("n"), node("m"), device_slice("m"))
    assert len(world.board.tables["devices"].rows) == 4
    world.change(there, None)
    assert sorted(world.board.tables["devices"].rows) == ["m/gpu-0", "m/gpu-1"]
    assert sorted(world.board.tables["nodes"].rows) == ["m"]


def test_lost_accelerator_is_dropped(world: World) -> None:
    before = device_slice("n", devices=2)
    world.see(node("n"), before)
    world.change(before, device_slice("n", 2, devices=1, generation=2))
    assert sorted(world.board.tables["devices"].rows) == ["n/gpu-0"]


def test_unchanged_objects_change_no_row(world: World) -> None:
    world.see(node("n"), device_slice("n"), pod("a"))
    before = world.board.revision
    world.change(node("n"), node("n", 2))
    assert world.board.revision == before


def test_waiting_pods_have_places_by_priority(world: World) -> None:
    world.see(pod("low"), pod("high", priority=5))
    assert [world.row("workloads", f"default/{name}").place for name in ("high", "low")] == [1, 2]


def test_why_a_pod_waits_is_what_its_scheduler_said(world: World) -> None:
    waiting = pod("a")
    condition = {"type": "PodScheduled", "status": "False", "message": "0 of 2 accelerators can take a"}
    status = {"phase": "Pending", "conditions": [condition]}
    told = msgspec.convert({**msgspec.to_builtins(waiting), "status": status}, LivePod)
    world.see(waiting, pod("b"))
    assert world.row("workloads", "default/b").why.startswith("it waits for the scheduler")
    world.change(waiting, told)
    assert world.row("workloads", "default/a").why == "0 of 2 accelerators can take a"


def test_measured_use_reaches_device_and_share(world: World) -> None:
    world.see(node("n"), device_slice("n"), pod("a", on="n", mib=1024, notes={PLACEMENT: NOTE}))
    key = DeviceKey("n", "gpu-1")
    devices = {key: UseSample(990.0, Bytes(3 << 30), 0.5)}
    pods = {PodDeviceKey("uid-a", *key): UseSample(990.0, Bytes(2 << 30))}
    world.tables.on_use(UseReport(1000.0, "agents", devices, pods))
    world.tables.refresh()
    row = world.row("devices", "n/gpu-1")
    assert (row.memory_used_bytes, row.utilisation, row.measured) == (3 << 30, 0.5, 990.0)
    assert row.shares[0].measured_bytes == 2 << 30
    world.tables.on_use(UseReport(1010.0, "agents"))
    world.tables.refresh()
    assert world.row("devices", "n/gpu-1").measured == 990.0, "it is shown with its age"


def with_condition(status: str, **spec: Any) -> Node:
    body = msgspec.to_builtins(node("n"))
    conditions = [{"type": "Ready", "status": status, "message": "kubelet stopped posting node status"}]
    document = {**body, "status": {**body["status"], "conditions": conditions}, "spec": spec}
    return msgspec.convert(document, Node)


@pytest.mark.parametrize(
    ("live", "state"),
    [
        (with_condition("True"), "ready"),
        (with_condition("Unknown"), "not-ready"),
        (with_condition("True", unschedulable=True), "cordoned"),
        (with_condition("False", unschedulable=True), "not-ready"),
    ],
)
def test_node_states(world: World, live: Node, state: str) -> None:
    world.see(live)
    row = world.row("nodes", "n")
    assert isinstance(row, NodeRow)
    assert (row.state, bool(row.reason)) == (state, state == "not-ready")


AGENT = {"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/component": "agent"}


def agent(ready: str) -> LivePod:
    body = msgspec.to_builtins(pod("agent", on="n"))
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert(
        {**body, "metadata": {**body["metadata"], "labels": AGENT}, "status": status}, LivePod
    )


@pytest.mark.parametrize(
    ("text", "pods", "state"),
    [
        ("", (), "unknown"),
        ('{"version":1,"accelerators":[]}', (), "missing"),
        ('{"version":1,"accelerators":[]}', (agent("False"),), "missing"),
        ('{"version":1,"accelerators":[]}', (agent("True"),), "ok"),
        ('{"version":99}', (agent("True"),), "old"),
    ],
)
def test_agent_states(text: str, pods: tuple[LivePod, ...], state: str) -> None:
    body = msgspec.to_builtins(node("n"))
    document = {**body, "metadata": {**body["metadata"], "annotations": {DEVICES: text}}}
    assert agent_state(msgspec.convert(document, Node), pods)[0] == state


def test_pipeline_shows_its_rate_and_its_graph() -> None:
    observed = observe(running(), run_status(bottleneck="blur"))
    report = explain_pipeline(observed)
    row = pipeline_row(observed.resource, report)
    assert (row.key, row.state, row.stages, row.bottleneck) == ("shop/count", "running", 3, "blur")
    assert row.frames_per_second == 25.0
    answer = pipeline_answer(row.key, observed.run, report)
    assert [(link.source, link.target, link.cut) for link in answer.links] == [
        ("camera", "blur", True),
        ("blur", "log", True),
    ]
    assert [stage.bottleneck for stage in answer.stages] == [False, True, False]


def test_pipeline_without_a_run_has_no_figures() -> None:
    observed = observe(running())
    row = pipeline_row(observed.resource, explain_pipeline(observed))
    assert (row.frames_per_second, row.dropped, row.bottleneck) == (None, None, None)


def test_augmentation_shows_its_size_and_why_it_waits() -> None:
    row = augmentation_row(augmentation())
    assert (row.key, row.device, row.storage_bytes, row.used_bytes) == ("shop/cam", "camera-7", 2 << 30, None)
    assert (row.state, row.reason) == ("waiting", "no operator has looked at it yet")
    ready = {"type": "Ready", "status": "True", "message": "2 of 2 pods are ready"}
    away = {"type": "Joined", "status": "False", "message": "camera-7 has not joined"}
    row = augmentation_row({**augmentation(), "status": {"used": "1Gi", "conditions": [ready, away]}})
    assert (row.state, row.reason, row.used_bytes) == ("ready", "camera-7 has not joined", 1 << 30)
