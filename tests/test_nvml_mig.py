"""MIG instances through the NVML door, with the library built for tests: no GPU is split here."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.nvml import (
    Gpu,
    GpuProcess,
    MigInstance,
    instance_index,
    instance_place,
    is_instance,
    open_session,
)
from fairlead.units import Bytes
from tests.test_nvml import SILENT, built, needs_compiler
from tests.worlds import World, pci

SPLIT = b"1g.18gb:9:0:16:1:16384 1c.3g.71gb:1:1:20:1:71680 1g.18gb+me:13:0:16:1:16384"
"""The second shares its GPU instance with others that do not exist."""
UUID = "MIG-01234567-89ab-5def-0123-4567"
SMALL = MigInstance(
    index=instance_index(0, 9, 0),
    uuid=f"{UUID}00090000",
    name="NVIDIA H200 MIG 1g.18gb",
    gpu_instance=9,
    compute_instance=0,
    memory=Bytes(16 << 30),
    multiprocessors=16,
    slices=1,
)


@needs_compiler
def test_a_split_gpu_lists_its_instances_in_the_order_of_their_ids(tmp_path: Path) -> None:
    library = built(tmp_path)
    ctypes.CDLL(library).test_mig(SPLIT)
    with open_session(library) as nvml:
        assert nvml is not None
        gpu, other = nvml.gpus()
    assert (gpu.mig_enabled, gpu.multiprocessors, gpu.most_instances) == (True, 132, 7)
    assert [each.profile for each in gpu.instances] == ["1c.3g.71gb", "1g.18gb", "1g.18gb+me"]
    assert gpu.instances[1] == SMALL
    assert [gpu.compute_share(each) for each in gpu.instances] == [20 / 132, 16 / 132, 16 / 132]
    assert not other.mig_enabled


@needs_compiler
def test_a_gpu_without_an_instance_and_a_whole_one_have_none(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        seen = []
        for text in (b"", None):
            stand_in.test_mig(text)
            gpu = nvml.gpus()[0]
            seen.append((gpu.mig_enabled, gpu.instances, gpu.multiprocessors))
    assert seen == [(True, (), 132), (False, (), None)]


@needs_compiler
def test_a_driver_that_does_not_count_cores_leaves_the_share_of_the_slices(tmp_path: Path) -> None:
    library = built(tmp_path, "-DWITHOUT_CORES")
    ctypes.CDLL(library).test_mig(SPLIT)
    with open_session(library) as nvml:
        assert nvml is not None
        gpu = nvml.gpus()[0]
    assert [gpu.compute_share(each) for each in gpu.instances] == [1 / 7] * 3
    bare = Gpu(0, "", "", "", None, None, "", None)
    assert bare.compute_share(SMALL) is None


@needs_compiler
def test_only_the_memory_of_an_instance_is_measured_and_nothing_of_one_that_is_gone(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    stand_in.test_mig(SPLIT)
    with open_session(library) as nvml:
        assert nvml is not None
        reading = nvml.reading(SMALL.index)
        assert reading is not None
        assert (reading.memory_used, reading.memory_total) == (300 << 20, 16 << 30)
        assert (reading.memory_free, reading.memory_reserved) == ((16384 - 320) << 20, 20 << 20)
        # The library returns the power of the whole GPU; utilisation is not supported, which is not zero.
        assert (reading.power, reading.busy_percent, reading.health) == (None, None, SILENT.health)
        stand_in.test_mig(b"1g.18gb:13:0:16:1:16384")
        assert nvml.reading(SMALL.index) is None
        assert nvml.processes(SMALL.index) is None


@needs_compiler
def test_the_processes_of_an_instance_are_its_own_and_those_of_the_gpu_are_all(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    stand_in.test_mig(SPLIT)
    with open_session(library) as nvml:
        assert nvml is not None
        for pid, place in ((7, (9, 0)), (8, (13, 0)), (9, (1, 1))):
            stand_in.test_process_on(pid, ctypes.c_ulonglong(pid << 20), 1, *place)
        small, other = GpuProcess(7, Bytes(7 << 20)), GpuProcess(9, Bytes(9 << 20))
        assert nvml.processes(SMALL.index) == (small,)
        assert nvml.processes(instance_index(0, 1, 1)) == (other,)
        assert len(nvml.processes(0) or ()) == 3
        assert nvml.busy(SMALL.index, 0) is None


@needs_compiler
def test_an_xid_of_an_instance_is_not_one_of_the_gpu(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        nvml.xids()
        stand_in.test_xid_on(ctypes.c_ulonglong(43), 9, 0)
        stand_in.test_xid_on(ctypes.c_ulonglong(94), 9, 0xFFFFFFFF)
        stand_in.test_xid(ctypes.c_ulonglong(79))
        assert nvml.xids() == {0: [79], instance_index(0, 9, 0): [43], instance_index(0, 9, 255): [94]}


@pytest.mark.parametrize("place", [(0, (0, 0)), (3, (13, 7)), (15, (255, 255))])
def test_the_number_of_an_instance_is_never_that_of_a_gpu(place: tuple[int, tuple[int, int]]) -> None:
    number = instance_index(place[0], *place[1])
    assert is_instance(number)
    assert instance_place(number) == place
    assert not is_instance(place[0])
    assert not is_instance(-1)


@needs_compiler
def test_the_agent_shows_the_instances_that_nvml_lists(tmp_path: Path, world: World) -> None:
    address = "0000:3b:00.0"
    files = {
        **pci(address, "10de:2335", kind="0x030200", driver="nvidia"),
        f"/proc/driver/nvidia/gpus/{address}/information": "Model: \t NVIDIA H200\nDevice Minor: \t 0\n",
        "/dev/nvidia0": "",
    }
    os.rename(built(tmp_path), tmp_path / "libnvidia-ml.so.1")
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "NVML_MIG": SPLIT.decode()}
    command = [sys.executable, "-m", "fairlead", "serve", "agent", "--once", "--host-root", world(files).root]
    page = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=300).stdout
    lines = page.splitlines()
    small = "pci-0000-3b-00-0-mig-1g-18gb-9-0"
    assert f'fairlead_accelerator_state{{id="{small}",model="h200",state="healthy"}} 1.0' in lines
    used = [line for line in lines if line.startswith("fairlead_accelerator_memory_used_bytes")]
    assert len(used) == 3
    assert f'{{id="{small}",model="h200",unified="false"}} 314572800.0' in "".join(used)
    assert not [line for line in lines if "busy_ratio" in line and "-mig-" in line]
    labels = 'GPU_I_PROFILE="1g.18gb+me",GPU_I_ID="13"'
    assert [line for line in lines if line.startswith("DCGM_FI_DEV_FB_USED{") and labels in line]
