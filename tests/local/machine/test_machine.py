"""The view of a machine: the cached inventory, RAM and cores within the limits of cgroups, live values."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.catalog.load import SYSTEM, VARIABLE
from fairlead.detect.nvidia import GPUS
from fairlead.host import Host
from fairlead.local.machine import LocalMachine, inventory_cache
from fairlead.local.machine.limits import CpuReading, read_cpu, read_ram, used_between
from fairlead.local.view import DeviceProcess
from fairlead.nvml import DRIVER_SIGNS
from fairlead.units import Bytes
from tests.worlds import X86, Files, Link, World, pci

MEMINFO = "MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable: 6000000 kB\n"
CORAL = {**pci("0000:02:00.0", "1ac1:089a", kind="0x0ff00", driver="apex"), "/dev/apex_0": ""}
BASE: Files = {
    "/proc/cpuinfo": X86,
    "/proc/meminfo": MEMINFO,
    "/proc/stat": "cpu  9\ncpu0 100 0 50 7 7 0 0 0 9 9\n",
}


@dataclass
class Place:
    """The part of a state directory that a machine uses."""

    private: str


def names(machine: LocalMachine) -> list[str]:
    return [device.accelerator.id for device in machine.view().devices]


def test_the_constants_that_are_written_twice_for_speed_are_equal() -> None:
    assert (inventory_cache.CATALOG_VARIABLE, inventory_cache.CATALOG_FOLDER) == (VARIABLE, SYSTEM)
    assert (inventory_cache.DRIVER_SIGNS, inventory_cache.GPUS) == (DRIVER_SIGNS, GPUS)


def test_a_second_program_reads_the_cache_and_sees_the_same(world: World, tmp_path: Path) -> None:
    host, place = world({**BASE, **CORAL}), Place(str(tmp_path))
    first = LocalMachine(host, place, {}).view()
    assert [device.fault for device in first.devices] == [""]
    text = (tmp_path / "inventory.json").read_text()
    marked = json.loads(text)
    marked["accelerators"][0]["name"] = "from the cache"
    (tmp_path / "inventory.json").write_text(json.dumps(marked))
    assert LocalMachine(host, place, {}).view().devices[0].accelerator.name == "from the cache"
    (tmp_path / "inventory.json").write_text(text)
    second = LocalMachine(host, place, {}).view()
    assert (second.machine, second.devices) == (first.machine, first.devices)


@pytest.mark.parametrize("change", ["plugged", "unbound", "node", "module", "boot", "catalog", "old"])
def test_a_machine_that_changed_is_scanned_again(world: World, tmp_path: Path, change: str) -> None:
    host, place = world({**BASE, **CORAL}), Place(str(tmp_path))
    environ: dict[str, str] = {}
    cache = tmp_path / "inventory.json"
    LocalMachine(host, place, environ).view()
    marked = json.loads(cache.read_text())
    marked["accelerators"] = [row for row in marked["accelerators"] if row["kind"] != "cpu"]
    marked["accelerators"][0]["name"] = "from the cache"
    root = host.root
    if change == "plugged":
        os.mkdir(f"{root}/sys/bus/pci/devices/0000:09:00.0")
    elif change == "unbound":
        os.unlink(f"{root}/sys/bus/pci/devices/0000:02:00.0/driver")
    elif change == "node":
        os.unlink(f"{root}/dev/apex_0")
    elif change == "module":
        os.makedirs(f"{root}/sys/module/gasket")
    elif change == "boot":
        os.makedirs(f"{root}/proc/sys/kernel/random")
        Path(f"{root}/proc/sys/kernel/random/boot_id").write_text("another")
    elif change == "catalog":
        environ = {VARIABLE: str(tmp_path / "own.toml")}
    else:
        marked["at"] -= 601
    cache.write_text(json.dumps(marked))
    view = LocalMachine(Host(root), place, environ).view()
    assert view.devices[0].accelerator.name != "from the cache"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version":2}', '{"version":1,"accelerators":3}', "\0", "link"]
)
def test_a_cache_that_cannot_be_read_is_ignored(world: World, tmp_path: Path, text: str) -> None:
    host, place, cache = world({**BASE, **CORAL}), Place(str(tmp_path)), tmp_path / "inventory.json"
    if text == "link":
        cache.symlink_to("/dev/zero")
    else:
        cache.write_text(text)
    assert names(LocalMachine(host, place, {})) == ["pci-0000-02-00-0"]
    assert names(LocalMachine(host, Place(str(tmp_path / "missing")), {})) == ["pci-0000-02-00-0"]


@pytest.mark.parametrize(
    ("cgroup", "files", "total", "available"),
    [
        ("", {}, 8000000 << 10, 6000000 << 10),
        (
            "0::/a/b\n",
            {"/sys/fs/cgroup/a/b/memory.max": "max", "/sys/fs/cgroup/a/b/memory.current": "5"},
            8000000 << 10,
            6000000 << 10,
        ),
        (
            "0::/a/b\n",
            {
                "/sys/fs/cgroup/a/b/memory.max": str(3 << 30),
                "/sys/fs/cgroup/a/b/memory.current": str(1 << 30),
                "/sys/fs/cgroup/a/memory.max": str(2 << 30),
                "/sys/fs/cgroup/a/memory.current": str(1 << 30),
                "/sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {1 << 29}\n",
            },
            2 << 30,
            3 << 29,
        ),
        (
            "0::/../../outside\n",
            {"/sys/fs/cgroup/memory.max": "1000", "/sys/fs/cgroup/memory.current": "2000"},
            1000,
            0,
        ),
        (
            "4:memory:/job\n2:cpu,cpuacct:/\n0::/\n",
            {
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": str(1 << 30),
                "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1000",
                "/sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 400\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "/sys/fs/cgroup/memory/memory.usage_in_bytes": "5000",
            },
            1 << 30,
            (1 << 30) - 600,
        ),
    ],
)
def test_ram_is_what_the_cgroups_leave(
    world: World, cgroup: str, files: Files, total: int, available: int
) -> None:
    ram = read_ram(world({**BASE, "/proc/self/cgroup": cgroup, **files}))
    assert (ram.total, ram.available) == (total, available)


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("", {}, CpuReading(2000, 1.5, "cores")),
        ("0::/a\n", {"/sys/fs/cgroup/a/cpu.max": "max 100000"}, CpuReading(2000, 1.5, "cores")),
        ("0::/a\n", {"/sys/fs/cgroup/a/cpu.max": "900000 100000"}, CpuReading(2000, 1.5, "cores")),
        (
            "0::/a/b\n",
            {
                "/sys/fs/cgroup/a/b/cpu.max": "150000 100000",
                "/sys/fs/cgroup/a/cpu.max": "50000 100000",
                "/sys/fs/cgroup/a/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            },
            CpuReading(500, 2.5, "/sys/fs/cgroup/a"),
        ),
        (
            "3:cpu,cpuacct:/job\n",
            {
                "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000",
                "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "/sys/fs/cgroup/cpuacct/job/cpuacct.usage": "4000000000",
            },
            CpuReading(1500, 4.0, "/sys/fs/cgroup/cpu/job"),
        ),
    ],
)
def test_cores_are_what_the_quota_leaves(
    world: World, cgroup: str, files: Files, expected: CpuReading
) -> None:
    assert read_cpu(world({**BASE, "/proc/self/cgroup": cgroup, **files}), 2) == expected


def test_an_older_kernel_shows_free_memory_in_parts(world: World) -> None:
    text = "MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 5 kB\nCached: 20 kB\nSwapCached: 7 kB\n"
    assert read_ram(world({"/proc/meminfo": text})).available == 35 << 10


def test_a_machine_without_accelerators_needs_few_imports(world: World, tmp_path: Path) -> None:
    root = world(BASE).root
    program = (
        "import sys; from fairlead.host import Host; from fairlead.local.machine import LocalMachine\n"
        "class Place: private = sys.argv[2]\n"
        "LocalMachine(Host(sys.argv[1]), Place, {}).view(); print(*sys.modules)"
    )
    command = [sys.executable, "-c", program, root, str(tmp_path)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    slow = {f"fairlead.{room}" for room in ("catalog", "detect", "measure", "nvml", "publish", "attribution")}
    assert slow & set(runs[0].split())  # the first scans
    assert not (slow | {"ctypes", "asyncio", "yaml", "msgspec", "numpy"}) & set(runs[1].split())


def test_the_use_of_cores_needs_two_readings_of_one_kind() -> None:
    before, after = CpuReading(2000, 10.0, "cores"), CpuReading(2000, 13.0, "cores")
    assert used_between(before, after, 2.0) == 1500
    assert used_between(after, before, 2.0) is None
    assert used_between(before, after, 0.0) is None
    assert used_between(None, after, 2.0) is None
    assert used_between(CpuReading(500, 1.0, "/sys/fs/cgroup/a"), after, 2.0) is None


def test_an_amd_gpu_shows_its_memory_load_processes_and_uuid(world: World) -> None:
    kfd = "/sys/class/kfd/kfd"
    gpu = "/sys/devices/pci0000:00/0000:05:00.0"
    files = {
        **pci("0000:05:00.0", "1002:74a1", kind="0x120000", driver="amdgpu"),
        f"{gpu}/mem_info_vram_total": str(192 << 30),
        f"{gpu}/mem_info_vram_used": str(5 << 30),
        f"{gpu}/gpu_busy_percent": "40",
        f"{gpu}/unique_id": "6f1d2c3b4a596877",
        f"{gpu}/drm/renderD128": "",
        "/dev/dri/renderD128": "",
        "/dev/kfd": "",
        f"{kfd}/topology/nodes/1/gpu_id": "77",
        f"{kfd}/topology/nodes/1/properties": "domain 0\nlocation_id 1280\n",
        f"{kfd}/proc/4242/vram_77": str(3 << 30),
    }
    device = LocalMachine(world({**BASE, **files}), None, {}).view().devices[0]
    assert (device.memory_used, device.busy) == (5 << 30, 0.4)
    assert device.processes == (DeviceProcess(4242, Bytes(3 << 30)),)
    assert device.accelerator.uuid == "GPU-6f1d2c3b4a596877"


XE = "drm-driver:\txe\ndrm-client-id:\t{client}\ndrm-pdev:\t0000:03:00.0\ndrm-total-system:\t9 MiB\n"
ARC = {
    **pci("0000:03:00.0", "8086:e20b", kind="0x030000", driver="xe"),
    "/sys/devices/pci0000:00/0000:03:00.0/drm/renderD128": "",
    "/dev/dri/renderD128": "",
    "/proc/50/fd/3": Link("/dev/dri/renderD128"),
    "/proc/50/fdinfo/3": XE.format(client=7) + "drm-total-vram0:\t900 KiB\ndrm-resident-vram0:\t300 KiB\n",
    "/proc/50/fd/4": Link("/dev/dri/card0"),
    "/proc/50/fdinfo/4": XE.format(client=8) + "drm-total-vram0:\t2 MiB\n",
    "/proc/51/fd/3": Link("/dev/dri/renderD128"),  # inherited: the same client
    "/proc/51/fdinfo/3": XE.format(client=7) + "drm-resident-vram0:\t300 KiB\n",
    "/proc/52/fd/3": Link("/dev/null"),
    "/proc/52/fdinfo/3": XE.format(client=9) + "drm-resident-vram0:\t5 MiB\n",
}


def test_an_intel_gpu_shows_the_clients_of_its_driver(world: World) -> None:
    device = LocalMachine(world({**BASE, **ARC}), None, {}).view().devices[0]
    used = (300 << 10) + (2 << 20)
    assert device.processes == (DeviceProcess(50, Bytes(used)),)
    assert device.memory_used == (used if os.geteuid() == 0 else None)


def test_the_memory_of_a_jobs_processes_is_read_without_a_view(world: World) -> None:
    machine = LocalMachine(world({**BASE, **ARC}), None, {})
    device = machine.view().devices[0].accelerator.id
    used = (300 << 10) + (2 << 20)
    assert machine.held([device], lambda: [50, 52]) == {device: {50: used}}
    assert machine.held([device], lambda: [52]).get(device, {}) == {}
    assert machine.held(["other"], lambda: [50]) == {}


def test_a_machine_without_accelerators_has_cores_and_ram(world: World) -> None:
    machine = LocalMachine(world(BASE), None, {})
    view = machine.view()
    assert (view.devices, view.problems, view.cpu, view.cpu_used) == ((), (), 1000, None)
    assert (view.memory, view.memory_available) == (8000000 << 10, 6000000 << 10)
    assert [acc.kind for acc in machine.inventory().accelerators] == ["cpu"]


def test_a_captured_jetson_counts_ram_as_the_memory_of_its_gpu() -> None:
    root = os.path.join(os.path.dirname(__file__), "..", "..", "hosts", "jetson-orin-nano", "root")
    view = LocalMachine(Host(root), None, {}).view()
    device = view.devices[0]
    assert device.accelerator.unified_memory
    assert device.memory_used == view.memory - view.memory_available
