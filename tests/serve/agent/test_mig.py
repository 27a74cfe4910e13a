"""An agent on a node with a split GPU: Allocate, samples, health and attribution go by instance."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from fairlead.attribution.client import DeviceShares
from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.faults import XidPolicy
from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory
from fairlead.measure import GpuHealth, Observer, nvml_index
from fairlead.metrics import MetricsSnapshot, render
from fairlead.nvml import GpuReading, Health, gpu_index, instance_index, xids_of
from fairlead.serve.agent.use_tracker import accelerator_of
from fairlead.telemetry import Metric
from fairlead.units import Bytes, Seconds, Watts
from tests.accelerators import node
from tests.serve.agent.test_monitor import SILENT
from tests.serve.agent.test_publisher import nook, place, until
from tests.test_metrics import series

__all__ = ["nook"]
ROOT = Path(__file__).parents[2] / "hosts/server-h200-mig/root"
HOST = Host(str(ROOT))
SPLIT = "pci-0000-1b-00-0"
SMALL, OTHER = (f"{SPLIT}-mig-1g-18gb-{number}-0" for number in (9, 10))
PROFILE = "fairlead.dev/h200-mig-1g.18gb"
UUIDS = {SMALL: "MIG-00000000-0000-5000-8000-000000000009", OTHER: "MIG-00000000-0000-5000-8000-000000000010"}


@pytest.fixture
def inventory(catalog: Catalog) -> Inventory:
    return detect(HOST, catalog, read_gpus(HOST))


def gpus_only(inventory: Inventory) -> list[Accelerator]:
    return [acc for acc in inventory.accelerators if acc.kind == "gpu"]


def test_a_container_is_allocated_one_instance_with_its_own_capabilities(
    nook: Path, inventory: Inventory
) -> None:
    async def play() -> None:
        async with place(nook) as it:
            shutil.copytree(ROOT / "proc/driver", nook / "machine/proc/driver")
            it.publisher.offer(node(*gpus_only(inventory)))
            await until(lambda: it.kubelet.healthy(PROFILE) == 2)
            response = await it.kubelet.admit("a", PROFILE, 1)
            granted = response.envs["FAIRLEAD_DEVICE"]
            assert response.envs["NVIDIA_VISIBLE_DEVICES"] == UUIDS[granted]
            assert [each.name for each in response.cdi_devices] == [f"fairlead.dev/accelerator={granted}"]
            spec = json.loads((it.cdi / "fairlead.dev-accelerators.json").read_bytes())
            nodes = {
                device["name"]: [each["path"] for each in device["containerEdits"].get("deviceNodes", ())]
                for device in spec["devices"]
            }
            first = {SMALL: 84, OTHER: 93}[granted]
            assert nodes[granted] == [f"/dev/nvidia-caps/nvidia-cap{at}" for at in (first, first + 1)]
            assert SPLIT not in nodes
            second = await it.kubelet.admit("b", PROFILE, 1)
            assert second.envs["FAIRLEAD_DEVICE"] == ({SMALL, OTHER} - {granted}).pop()
            assert it.kubelet.healthy("fairlead.dev/h200") == 0  # MIG is enabled on the other GPU

    asyncio.run(play())


class Nvml:
    """A session in which every GPU and instance reports its own number as its use."""

    def reading(self, index: int) -> GpuReading | None:
        memory = (Bytes(index), Bytes(0), Bytes(1 << 40))
        busy = None if index > 1 else 50.0
        return GpuReading(*memory, busy, None, Watts(100) if index < 2 else None, None, None, None, None)


def test_an_instance_is_sampled_by_its_own_number_and_has_no_utilisation(inventory: Inventory) -> None:
    accelerators, gpus = gpus_only(inventory), read_gpus(HOST)
    samples = Observer().look(HOST, accelerators, Seconds(0), Seconds(0), gpus, Nvml())
    used = {each.accelerator: each.value for each in samples if each.metric is Metric.MEMORY_USED}
    assert SPLIT not in used  # its instances have the memory
    assert used[SMALL] == instance_index(0, 9, 0)
    assert used[OTHER] == instance_index(0, 10, 0)
    whole = {"pci-0000-1b-00-0", "pci-0000-43-00-0"}
    for metric in (Metric.BUSY, Metric.POWER, Metric.LINK):
        assert {each.accelerator for each in samples if each.metric is metric} == whole
    assert nvml_index(accelerators[3], []) is None


def test_the_page_names_instances_as_dcgm_does(inventory: Inventory) -> None:
    samples = Observer().look(HOST, gpus_only(inventory), Seconds(0), Seconds(0), read_gpus(HOST), Nvml())
    found = series(render(MetricsSnapshot(inventory, samples, node="n1")))
    used = [dict(labels) for name, labels in found if name == "DCGM_FI_DEV_FB_USED"]
    small = next(labels for labels in used if labels.get("GPU_I_ID") == "9")
    assert small == {
        "gpu": "0",
        "UUID": "GPU-00000000-0000-0000-0000-000000000001",
        "pci_bus_id": "00000000:1B:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H200",
        "Hostname": "n1",
        "GPU_I_PROFILE": "1g.18gb",
        "GPU_I_ID": "9",
    }
    assert sorted((labels["gpu"], labels.get("GPU_I_ID", "")) for labels in used) == [
        ("0", "10"), ("0", "2"), ("0", "3"), ("0", "9"), ("1", ""),
    ]  # fmt: skip
    busy = [dict(labels) for name, labels in found if name == "DCGM_FI_DEV_GPU_UTIL"]
    assert sorted(labels["gpu"] for labels in busy) == ["0", "1"]
    for name in ("state", "memory_bytes", "peak_ops", "effective_ops"):  # sums count nothing twice
        ids = {dict(labels)["id"] for metric, labels in found if metric == f"fairlead_accelerator_{name}"}
        assert SPLIT not in ids
        assert SMALL in ids


@pytest.mark.parametrize(
    ("xids", "faulty"),
    [
        ({0: [], 1: []}, set()),
        ({0: [79], 1: []}, {SMALL, OTHER}),
        ({0: [], 1: [], instance_index(0, 9, 0): [94]}, {SMALL}),
        ({0: [], 1: [], instance_index(0, 10, 255): [94]}, {OTHER}),
        ({1: [79]}, set()),
    ],
)
def test_an_xid_of_an_instance_leaves_the_others_healthy(
    inventory: Inventory, xids: dict[int, list[int]], faulty: set[str]
) -> None:
    health, gpus = GpuHealth(XidPolicy()), read_gpus(HOST)
    for acc in gpus_only(inventory):
        index = nvml_index(acc, gpus)
        assert index is not None
        health.record(acc.id, {0: Health(), 1: Health()}.get(gpu_index(index)), xids_of(index, xids))
    states = {acc.id: health.with_faults(acc).state.allocatable for acc in gpus_only(inventory)}
    assert {name for name in (SMALL, OTHER) if not states[name]} == faulty
    assert (SMALL in {sample.accelerator for sample in health.samples()}) is (0 in xids)


@pytest.mark.parametrize(
    ("uuid", "expected"),
    [
        (UUIDS[OTHER], OTHER),
        ("GPU-00000000-0000-0000-0000-000000000001", SPLIT),
        ("", SPLIT),
        ("MIG-00000000-0000-5000-8000-000000000099", None),  # made since the last scan
    ],
)
def test_use_belongs_to_the_instance_that_reports_it(
    inventory: Inventory, uuid: str, expected: str | None
) -> None:
    found = accelerator_of(DeviceShares(uuid, "pci:0000:1b:00.0", Bytes(0), ()), inventory)
    assert (found.id if found else None) == expected


def test_an_unsupported_value_of_an_instance_is_absent(inventory: Inventory) -> None:
    class Silent:
        """A session that reports nothing."""

        def reading(self, index: int) -> GpuReading | None:
            return SILENT

    accelerators = [acc for acc in gpus_only(inventory) if acc.mig]
    assert Observer().look(HOST, accelerators, Seconds(0), Seconds(0), read_gpus(HOST), Silent()) == ()
