"""Counts in messages agree with their noun: `1 pod`, `2 pods`."""

from pathlib import Path

from fairlead.catalog import Catalog
from fairlead.catalog.lookup import unknown_name_error
from fairlead.cli.placement import snapshot
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState, NodeState
from fairlead.request import Demand, Gang, Request
from fairlead.schedule import EngineCluster, place_gang
from tests.analyze.models import graph, node, saved, value
from tests.cli.examples import Run
from tests.fakecluster.patches import OwnershipError

ROW = """schema = 1
[[device]]
id = "my-stick"
name = "My Stick"
vendor = "Me"
kind = "npu"
match.usb = ["18d1:9302"]
unverified = ["peak"]
driver = [{userspace = true}]
"""


def test_one_pending_pod() -> None:
    found = Snapshot(nodes=(NodeState("a"),), pending=(Request("late"),))
    assert str(snapshot.table(found)).endswith("\n1 pending pod")
    assert str(snapshot.table(Snapshot())).endswith("\n0 pending pods")
    assert snapshot.summary(found) == "1 node, 0 accelerators, 0 running pods, 1 pending pod"


def test_one_fault_of_a_catalog(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(ROW)
    code, out, _ = run("catalog", "lint", "--catalog", str(mine))
    assert code == 1
    assert out.endswith(" devices, 1 fault\n")


def test_one_operator(run: Run, tmp_path: Path) -> None:
    file = saved(tmp_path, graph([node("Relu", "x", "y")], [value("x", 1, 4)]))
    code, out, _ = run("analyze", file)
    assert code == 0
    assert out.splitlines()[0] == "tiny.onnx: onnx, fp32, batch 1, 1 operator in about 1 kernel"


def test_one_job(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.yaml"
    trace.write_text(
        "{version: 1, name: small, nodes: [{name: a, cpu: 4, memory: 8GiB, devices: [t4]}],"
        " jobs: [{name: j, gpu-memory: 1GiB, duration: 1m}]}"
    )
    code, out, err = run("simulate", "--trace", str(trace))
    assert code == 0
    assert out.startswith("small: 1 job, seed 0\n")
    assert err.startswith("fairlead: 1 job in ")


def test_one_member_of_a_gang_that_fits() -> None:
    gang = [Request(f"m{at}", gang=Gang("g", 2), demand=Demand(1)) for at in range(2)]
    node = NodeState("n", cpu=4000, pods=9, devices=(DeviceState("t4-0", "t4"),))
    assert "only 1 of 2 of the gang fits; then " in place_gang(EngineCluster([node]), gang)[0].sentence()


def test_one_device_of_a_group(catalog: Catalog) -> None:
    alone = [catalog.devices["coral-usb"]]
    assert (
        str(unknown_name_error(alone, "google", groups=True))
        == "'google' is a group of 1 device of the catalog"
    )


def test_one_conflict() -> None:
    error = OwnershipError([("kubectl", ("spec", "replicas"))])
    assert str(error) == "apply failed with 1 conflict: 'kubectl' owns .spec.replicas"
