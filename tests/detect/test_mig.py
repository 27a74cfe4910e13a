"""A GPU that is split by MIG: its instances as accelerators, whatever the witnesses show of them."""

from dataclasses import replace

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.inventory import Accelerator, State
from fairlead.nvml import Gpu, MigInstance
from fairlead.units import Bytes, Watts
from tests.soundness import assert_sound
from tests.worlds import Entry, World, pci

ADDRESS, ID = "0000:03:00.0", "pci-0000-03-00-0"
CAPABILITIES = "/proc/driver/nvidia/capabilities/gpu3/mig"
SMALL = MigInstance(65536, "MIG-1", "NVIDIA X MIG 1g.2gb", 9, 0, Bytes(2 << 30), 4, 1)
WHOLE = Gpu(0, ADDRESS, "NVIDIA X", "GPU-1", Bytes(16 << 30), Watts(250), "550.54.15", 0)
SPLIT = replace(WHOLE, mig_enabled=True, instances=(SMALL,), multiprocessors=40, most_instances=7)


def access(path: str, number: int) -> dict[str, Entry]:
    """Return a capability of the driver, and its node."""
    return {
        f"{CAPABILITIES}/{path}/access": f"DeviceFileMinor: {number}\nDeviceFileMode: 292\n",
        f"/dev/nvidia-caps/nvidia-cap{number}": "",
    }


def look(world: World, small: Catalog, gpu: Gpu | None, files: dict[str, Entry]) -> list[Accelerator]:
    card: dict[str, Entry] = dict(pci(ADDRESS, "10de:1111", kind="0x030200", driver="nvidia"))
    card[f"/proc/driver/nvidia/gpus/{ADDRESS}/information"] = "Model: \t NVIDIA X\nDevice Minor: \t 3\n"
    inventory = detect(world({**card, "/dev/nvidia3": "", **files}), small, [gpu] if gpu else [])
    assert_sound(inventory, small)
    return [acc for acc in inventory.accelerators if acc.kind == "gpu"]


def test_an_instance_has_its_part_of_the_gpu(world: World, small: Catalog) -> None:
    files = {**access("gi9", 84), **access("gi9/ci0", 85), **access("gi9/ci1", 86), **access("gi1", 12)}
    gpu, instance = look(world, small, SPLIT, files)
    assert (gpu.id, gpu.state, gpu.reason) == (ID, State.DRIVER_BOUND, "split into 1 MIG instance")
    assert (instance.id, instance.state, instance.model) == (f"{ID}-mig-1g-2gb-9-0", State.HEALTHY, gpu.model)
    assert (instance.uuid, instance.memory, instance.power) == ("MIG-1", 2 << 30, 25.0)
    assert instance.effective == {name: rate / 10 for name, rate in gpu.effective.items()}
    assert instance.mig is not None
    assert instance.mig.nodes == ("/dev/nvidia-caps/nvidia-cap84", "/dev/nvidia-caps/nvidia-cap85")
    assert (instance.mig.compute_share, instance.mig.memory_share) == (0.1, 0.125)


@pytest.mark.parametrize(
    ("numbers", "granted"),
    [((84, 85), 2), ((1, 85), 1), ((84, 2), 1), ((1, 2), 0)],
)
def test_rights_over_every_instance_are_never_an_instances_own(
    world: World, small: Catalog, numbers: tuple[int, int], granted: int
) -> None:
    files = {**access("gi9", numbers[0]), **access("gi9/ci0", numbers[1])}
    instance = look(world, small, SPLIT, files)[1]
    assert instance.mig is not None
    assert len(instance.mig.nodes) == granted


@pytest.mark.parametrize(
    ("gpu", "files", "reason"),
    [
        (WHOLE, {}, ""),
        (replace(SPLIT, instances=()), {}, "MIG is enabled but no instance exists: nvidia-smi mig -cgi"),
        # NVML shows an instance only to a process that may use it.
        (
            replace(SPLIT, instances=()),
            {**access("gi1", 12), **access("gi1/ci0", 13), **access("gi1/ci1", 14)},
            "split into 2 MIG instances that NVML does not show",
        ),
        (None, {**access("gi9", 84), **access("gi9/ci0", 85)}, "split into 1 MIG instance that NVML"),
        # The driver makes the folder of every GPU that could be split.
        (None, {f"{CAPABILITIES}/other": ""}, "no vital sign"),
    ],
)
def test_a_gpu_without_visible_instances(
    world: World, small: Catalog, gpu: Gpu | None, files: dict[str, Entry], reason: str
) -> None:
    (found,) = look(world, small, gpu, files)
    assert reason in found.reason
    assert found.state.allocatable is (not reason or reason == "no vital sign")
    assert (found.mig, found.mig_instances) == (None, 0)


def test_a_fault_of_the_gpu_is_one_of_its_instances(world: World, small: Catalog) -> None:
    gpu, instance = look(world, small, replace(SPLIT, ecc_errors=3), {})
    assert gpu.reason == instance.reason
    assert "uncorrected memory errors" in instance.reason
    assert instance.state is State.DRIVER_BOUND
    assert gpu.mig_instances == 1


def test_compute_instances_of_one_gpu_instance_share_its_memory(world: World, small: Catalog) -> None:
    parts = tuple(
        replace(
            SMALL, index=65536 + at, compute_instance=at, name="NVIDIA X MIG 1c.3g.8gb", memory=Bytes(6 << 30)
        )
        for at in range(3)
    )
    found = look(world, small, replace(SPLIT, instances=parts), {})[1:]
    assert [acc.id.removeprefix(ID) for acc in found] == [f"-mig-1c-3g-8gb-9-{at}" for at in range(3)]
    assert sum(acc.memory or 0 for acc in found) == 6 << 30


def test_an_unknown_part_is_not_claimed_to_be_any(world: World, small: Catalog) -> None:
    bare = replace(SMALL, name="?", uuid="", memory=None, multiprocessors=None, slices=None)
    gpu, instance = look(world, small, replace(SPLIT, instances=(bare,)), {})
    assert (instance.peak, instance.effective, instance.power, instance.memory) == ({}, {}, None, None)
    assert instance.id == f"{ID}-mig-9-0"
    assert gpu.peak
