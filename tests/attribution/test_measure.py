"""From the processes that drivers report to the use of pods: small trees of /proc and /sys, no device."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.attribution import ANSWER_LIMIT
from fairlead.attribution.cgroups import NoPod, PodContainer
from fairlead.attribution.procfs import ProcessTable
from fairlead.attribution.report import report
from fairlead.attribution.server import REQUEST, Attribution
from fairlead.attribution.sources import (
    DeviceProcesses,
    KfdSource,
    NvmapSource,
    NvmlSource,
    ProcessSource,
    ProcessUse,
)
from fairlead.nvml import Gpu, GpuProcess, MigInstance, ProcessBusy
from fairlead.units import Bytes
from tests.attribution.processes import HOST, ID, OTHER, SIDECAR, UID, in_pod, start

TICKS = 100
GPU = Gpu(0, "0000:3b:00.0", "T4", "GPU-1", None, None, "550", None)


def device(**processes: tuple[int | None, float | None]) -> DeviceProcesses:
    """Return a device whose processes are named p1, p2 and so on."""
    uses = {int(name[1:]): ProcessUse(*use) for name, use in processes.items()}
    return DeviceProcesses("GPU-1", "pci:0000:3b:00.0", uses)


def test_a_pid_of_a_process_that_started_later_belongs_to_another_process(tmp_path: Path) -> None:
    table = ProcessTable(str(tmp_path), TICKS)
    start(tmp_path, 7, in_pod(), ticks=5 * TICKS)
    assert table.owner(7, before=5.0) == PodContainer(UID, ID)
    assert table.owner(7, before=4.99) is None
    assert table.owner(8, before=5.0) is None


@pytest.mark.parametrize("name", ["a) S 1 1 1", "(()", ") ) 9", "", "x" * 15])
def test_the_name_of_a_program_cannot_move_its_start_time(tmp_path: Path, name: str) -> None:
    start(tmp_path, 7, HOST, ticks=3 * TICKS, name=name)
    table = ProcessTable(str(tmp_path), TICKS)
    assert (table.owner(7, 3.0), table.owner(7, 2.9)) == (NoPod.FOREIGN, None)


@pytest.mark.parametrize("stat", ["", "7 (x)", "7 (x) S 1 2", "7 (x)" + " a" * 30])
def test_a_stat_of_another_form_is_no_process(tmp_path: Path, stat: str) -> None:
    start(tmp_path, 7, in_pod())
    (tmp_path / "7" / "stat").write_text(stat)
    assert ProcessTable(str(tmp_path), TICKS).owner(7, 1e9) is None


def test_use_is_the_sum_of_a_containers_processes() -> None:
    owners = {1: PodContainer(UID, ID), 2: PodContainer(UID, ID), 3: PodContainer(UID, SIDECAR)}
    owners |= {4: PodContainer(OTHER, ID)}
    uses = device(p1=(100, 0.25), p2=(50, 0.5), p3=(7, 0.9), p4=(None, None), p5=(30, 0.0), p6=(9, 1.0))
    others = {5: NoPod.FOREIGN, 6: NoPod.UNCLEAR}
    (row,) = report([uses], lambda pid: owners.get(pid) or others.get(pid))
    assert row == {
        "uuid": "GPU-1",
        "bus": "pci:0000:3b:00.0",
        "foreign": 30,
        "containers": [
            {"pod": UID, "container": SIDECAR, "memory": 7, "busy": 0.9},
            {"pod": UID, "container": ID, "memory": 150, "busy": 0.75},
            {"pod": OTHER, "container": ID, "memory": None, "busy": None},
        ],
    }


def test_what_is_not_measured_is_not_zero_and_no_smaller_sum() -> None:
    mine = PodContainer(UID, ID)
    (row,) = report([device(p1=(100, None), p2=(None, 0.5))], lambda _: mine)
    assert row["containers"] == [{"pod": UID, "container": ID, "memory": None, "busy": None}]
    (row,) = report([device(p1=(100, 0.6), p2=(1, 0.6))], lambda _: mine)
    assert row["containers"][0]["busy"] == 1.0
    (row,) = report([device(p1=(100, None), p2=(None, None))], lambda _: NoPod.FOREIGN)
    assert (row["foreign"], row["containers"]) == (None, [])
    (row,) = report([device(p1=(100, None))], lambda _: None)  # it has ended
    assert (row["foreign"], row["containers"]) == (0, [])


class FakeNvml:
    """A session with one GPU that counts how often it is opened."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.listed: tuple[GpuProcess, ...] | None = (GpuProcess(7, Bytes(100)), GpuProcess(8, None))
        self.times: list[int] = []

    @contextmanager
    def connect(self) -> Iterator["FakeNvml"]:
        self.opened += 1
        yield self
        self.closed += 1

    def gpus(self) -> list[Gpu]:
        return [GPU]

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        return self.listed

    def busy(self, index: int, since: int) -> ProcessBusy | None:
        self.times.append(since)
        return ProcessBusy(since + 10, {7: 0.5}) if since < 20 else None


def test_nvml_stays_open_and_its_samples_are_read_once() -> None:
    session = FakeNvml()
    source = NvmlSource(session.connect)
    expected = {7: ProcessUse(100, 0.5), 8: ProcessUse(None, 0.0)}
    assert source.read() == [DeviceProcesses("GPU-1", "pci:0000:3b:00.0", expected)]
    source.read()
    (unsupported,) = source.read()
    assert session.times == [0, 10, 20]
    assert {use.busy for use in unsupported.processes.values()} == {None}
    assert (session.opened, session.closed) == (1, 0)
    session.listed = None
    assert source.read() == []  # not reported: not measured
    source.read()
    assert (session.opened, session.closed) == (2, 2)


def test_the_instances_of_a_split_gpu_stand_for_it_and_are_listed_again_at_each_reading() -> None:
    class SplitNvml(FakeNvml):
        """A GPU whose instances change while the session is open."""

        instances: tuple[int, ...] = (1,)

        def gpus(self) -> list[Gpu]:
            made = [MigInstance(number, f"MIG-{number}", "", number, 0, None) for number in self.instances]
            return [replace(GPU, mig_enabled=True, instances=tuple(made))]

        def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
            return (GpuProcess(10 + index, Bytes(index)),)

        def busy(self, index: int, since: int) -> ProcessBusy | None:
            return None

    session = SplitNvml()
    source = NvmlSource(session.connect)
    bus = "pci:0000:3b:00.0"
    one = DeviceProcesses("MIG-1", bus, {11: ProcessUse(1, None)})
    assert source.read() == [one]
    session.instances = (1, 2)
    assert source.read() == [one, DeviceProcesses("MIG-2", bus, {12: ProcessUse(2, None)})]
    assert session.opened == 1


def test_no_driver_is_no_device() -> None:
    nothing: Callable[[], AbstractContextManager[None]] = contextmanager(lambda: iter([None]))
    assert NvmlSource(nothing).read() == []
    assert KfdSource("/nowhere").read() == NvmapSource("/nowhere").read() == []


def test_amd_gpus_by_the_files_of_amdkfd(tmp_path: Path) -> None:
    kfd = tmp_path / "class/kfd/kfd"
    files = {
        "topology/nodes/0/gpu_id": "0\n",
        "topology/nodes/0/properties": "cpu_cores_count 64\ndomain 0\nlocation_id 0\n",
        "topology/nodes/1/gpu_id": "51000\n",
        "topology/nodes/1/properties": "simd_count 440\nlocation_id 50944\ndomain 1\n",
        "topology/nodes/2/gpu_id": "9\n",
        "proc/7/vram_51000": "8589934592\n",
        "proc/8/vram_51000": "0\n",
        "proc/9/vram_51000": "much\n",
        "proc/9/vram_9": "77\n",
    }
    for name, text in files.items():
        (kfd / name).parent.mkdir(parents=True, exist_ok=True)
        (kfd / name).write_text(text)
    expected = {7: ProcessUse(8 << 30, None)}
    assert KfdSource(str(tmp_path)).read() == [DeviceProcesses("", "pci:0001:c7:00.0", expected)]


def test_a_jetsons_gpu_by_the_clients_of_nvmap(tmp_path: Path) -> None:
    (tmp_path / "nvmap/iovmm").mkdir(parents=True)
    text = """CLIENT                        PROCESS      PID        SIZE
user                             Xorg     1234      2048K
user                        a 99 100K       77        10K
user                             Xorg     1234         1K
kernel                                               512K
total                                             102059K
"""
    (tmp_path / "nvmap/iovmm/clients").write_text(text)
    expected = {1234: ProcessUse(2049 << 10, None), 77: ProcessUse(10 << 10, None)}
    assert NvmapSource(str(tmp_path)).read() == [DeviceProcesses("", "nvmap", expected)]


class Scripted:
    """A source with scripted devices that counts how often it is read."""

    def __init__(self, *devices: DeviceProcesses) -> None:
        self.devices, self.reads = devices, 0

    def read(self) -> list[DeviceProcesses]:
        self.reads += 1
        return list(self.devices)

    def close(self) -> None:
        self.reads = -1


def attribution(tmp_path: Path, now: list[float], *drivers: ProcessSource) -> Attribution:
    return Attribution(drivers, ProcessTable(str(tmp_path), TICKS), lambda _: None, lambda: now[0])


def test_an_answer_is_repeated_to_a_client_that_asks_without_a_pause(tmp_path: Path) -> None:
    start(tmp_path, 7, in_pod())
    now, source = [50.0], Scripted(device(p7=(100, 0.5)))
    program = attribution(tmp_path, now, source)
    request = json.dumps(REQUEST).encode()
    first = program.answer(request)
    assert json.loads(first)["devices"][0]["containers"][0]["memory"] == 100
    source.devices = ()
    assert program.answer(request) == first
    now[0] += 0.3
    assert json.loads(program.answer(request)) == {"ok": True, "devices": []}
    assert source.reads == 2


def test_nothing_else_is_answered(tmp_path: Path) -> None:
    program = attribution(tmp_path, [1.0], Scripted())
    for line in (b"", b"{}", b"[1]", b'{"use": false}', b'{"use": true, "pid": 1}', b"\xff", b"[" * 100_000):
        assert json.loads(program.answer(line))["ok"] is False


def test_an_answer_has_a_largest_size(tmp_path: Path) -> None:
    for pid in range(1, 5001):
        start(tmp_path, pid, in_pod(f"{pid:08x}{UID[8:]}"))
    many = device(**{f"p{pid}": (1, 0.5) for pid in range(1, 5001)})
    program = attribution(tmp_path, [50.0], *(Scripted(many._replace(uuid=str(n))) for n in range(2)))
    answer = program.answer(b'{"use":true}')
    assert len(answer) < ANSWER_LIMIT
    assert "longer than" in json.loads(answer)["error"]
