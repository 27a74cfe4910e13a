"""Faults of the NVIDIA driver: each is one line of the view, and none stops the program."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.host import Host
from fairlead.local.machine import LocalMachine
from fairlead.local.machine.devices import DeviceReader
from fairlead.local.machine.nvml_process import HUNG, SILENT, NvmlAnswer, NvmlProcess
from fairlead.local.view import DeviceProcess, DeviceView, MachineView
from fairlead.nvml import Gpu
from fairlead.units import Bytes, Seconds
from tests.accelerators import accelerator
from tests.test_nvml import built, needs_compiler
from tests.test_nvml_mig import SPLIT
from tests.worlds import X86, World, pci

ADDRESS = "0000:3b:00.0"
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
FILES = {
    **pci(ADDRESS, "10de:2335", kind="0x030200", driver="nvidia"),
    f"/proc/driver/nvidia/gpus/{ADDRESS}/information": f"Model: NVIDIA H200\nGPU UUID: {UUID}\n",
    "/dev/nvidia0": "",
    "/proc/cpuinfo": X86,
    "/proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 600000 kB\n",
}
pytestmark = needs_compiler
Machine = Callable[..., LocalMachine]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of the fake library; its processes are in the file beside it."""
    folder = tmp_path_factory.mktemp("nvml")
    return built(folder, f'-DPROCESSES="{folder}/processes"')


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file whose words are the faults of the fake driver."""
    path = tmp_path / "faults"
    path.write_text("")
    monkeypatch.setenv("NVML_FAULTS", str(path))
    return path


@pytest.fixture
def machine(world: World, library: str) -> Iterator[Machine]:
    """Return a function that makes a machine with an H200; its processes end with the test."""
    made: list[LocalMachine] = []

    def make(nvml: str = library, patience: float = 60.0) -> LocalMachine:
        host = Host(world(FILES).root, here=True)
        made.append(LocalMachine(host, None, {}, NvmlProcess(nvml, Seconds(patience))))
        return made[-1]

    yield make
    for each in made:
        each.close()


def gpu(view: MachineView) -> DeviceView:
    return next(device for device in view.devices if device.accelerator.bus == f"pci:{ADDRESS}")


def test_a_healthy_gpu_shows_its_memory_load_power_and_processes(machine: Machine, library: str) -> None:
    Path(library).with_name("processes").write_text(f"{os.getpid()} 7000 50\n")
    view = machine().view()
    device = gpu(view)
    assert (device.accelerator.uuid, device.accelerator.memory) == (UUID, 150754820096)
    assert (device.memory_used, device.busy, device.power, device.fault) == (1000, 0.42, 123.456, "")
    assert device.processes == (DeviceProcess(os.getpid(), Bytes(7000), 0.5),)
    assert view.problems == ()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (18, "driver mismatch: the NVIDIA libraries and the loaded kernel driver have different versions"),
        (4, "the NVIDIA driver refuses this user"),
        (9, "NVML cannot reach the NVIDIA driver"),
        (999, "NVML does not start: its error 999"),
    ],
)
def test_a_driver_that_nvml_cannot_use_is_a_fault_of_its_gpus(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    monkeypatch.setenv("NVML_INIT", str(code))
    view = machine().view()
    assert view.problems == (gpu(view).fault,)
    assert gpu(view).fault.startswith(words)
    assert gpu(view).recoverable
    assert "\n" not in gpu(view).fault


def test_a_missing_library_is_a_problem_and_jobs_still_run(machine: Machine) -> None:
    view = machine("libnot-there-at-all.so.9").view()
    assert [problem.partition(":")[0] for problem in view.problems] == [
        "NVML is missing although the NVIDIA driver is loaded"
    ]
    assert (gpu(view).fault, gpu(view).memory_used, gpu(view).processes) == ("", None, None)


def test_a_gpu_that_is_lost_has_a_fault_until_it_is_back(machine: Machine, faults: Path) -> None:
    here = machine()
    assert (gpu(here.view()).fault, gpu(here.view()).lost) == ("", False)
    faults.write_text("lost")
    assert gpu(here.view()).fault.startswith("NVML calls the GPU lost")
    assert gpu(here.view()).lost
    assert gpu(here.view()).recoverable
    faults.write_text("")
    assert (gpu(here.view()).fault, gpu(here.view()).lost) == ("", False)


def test_a_gpu_whose_compute_mode_is_prohibited_takes_no_jobs(machine: Machine, faults: Path) -> None:
    faults.write_text("prohibited")
    fault = gpu(machine().view()).fault
    assert fault == "its compute mode forbids every CUDA program; allow them: nvidia-smi -c 0"


@pytest.mark.parametrize(("xid", "fault"), [(31, ""), (79, "the driver reported XID 79")])
def test_an_xid_is_a_fault_unless_the_program_on_the_gpu_caused_it(
    machine: Machine, faults: Path, xid: int, fault: str
) -> None:
    here = machine()
    here.view()  # starts the watch
    faults.write_text(f"xid {xid}")
    here.view()
    assert gpu(here.view()).fault.partition(";")[0] == fault


def test_an_xid_counts_for_ten_minutes_because_no_reset_is_reported(world: World) -> None:
    now = [100.0]
    reader = DeviceReader(Host(world(FILES).root, here=True), lambda: now[0])
    known = Gpu(0, ADDRESS, "NVIDIA H200", UUID, None, None, "550", None)
    device = accelerator(f"pci:{ADDRESS}", vendor="NVIDIA", driver="nvidia", uuid=UUID)

    def fault(*xids: int) -> str:
        return reader.views([device], NvmlAnswer((known,), xids={0: xids}))[0].fault

    assert fault(79).startswith("the driver reported XID 79")
    now[0] += 599
    assert fault().startswith("the driver reported XID 79")
    now[0] += 2
    assert not fault()
    assert fault(74).startswith("the driver reported XID 74")


def test_mig_instances_are_devices_of_their_own_that_come_and_go(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, faults: Path
) -> None:
    here = machine()
    assert {device.accelerator.mig for device in here.view().devices} == {None}
    here.close()  # the next session sees the GPU split
    monkeypatch.setenv("NVML_MIG", SPLIT.decode())
    view = here.view()
    whole = next(device for device in view.devices if device.accelerator.mig_instances)
    parts = [device for device in view.devices if device.accelerator.mig]
    assert whole.fault.startswith("split into ")
    assert not whole.recoverable
    assert len(parts) == whole.accelerator.mig_instances
    assert {part.fault for part in parts} == {""}
    assert None not in {part.memory_used for part in parts}
    faults.write_text("lost")
    assert all("lost" in device.fault for device in here.view().devices if device.accelerator.mig)


def test_a_driver_that_hangs_is_a_fault_and_a_late_answer_still_counts(
    machine: Machine, faults: Path
) -> None:
    faults.write_text("hang")
    here = machine(patience=0.2)
    first = here.view()
    assert gpu(first).fault.startswith("the NVIDIA driver does not answer")
    assert first.problems == (gpu(first).fault,)
    assert not gpu(first).lost  # it may only be slow: running jobs go on
    began = time.monotonic()
    here.view()
    here.close()  # kills a process that waits inside the library
    assert time.monotonic() - began < 60


def test_a_driver_that_hangs_for_a_minute_is_lost_and_asked_again(library: str, faults: Path) -> None:
    now = [0.0]
    faults.write_text("hang")
    nvml = NvmlProcess(library, Seconds(0.0), lambda: now[0])
    assert nvml.read().failure == SILENT
    now[0] = 59.0
    assert nvml.read().failure == SILENT
    now[0] = 61.0
    assert nvml.read().failure == HUNG
    faults.write_text("")
    answers = (nvml.read() for _ in range(1000))
    assert next(answer for answer in answers if answer.failure is None).gpus[0].uuid == UUID
    nvml.close()


def test_a_slow_driver_is_a_fault_only_until_it_answers(library: str, faults: Path) -> None:
    faults.write_text("slow")
    nvml = NvmlProcess(library, Seconds(0.2))
    assert nvml.read().failure == SILENT
    faults.write_text("")
    answers = (nvml.read() for _ in range(1000))  # each waits for a twentieth of a second
    assert next(answer for answer in answers if answer.failure is None).gpus[0].uuid == UUID
    nvml.close()


def test_a_library_that_crashes_is_a_fault(library: str, faults: Path) -> None:
    faults.write_text("crash")
    nvml = NvmlProcess(library, Seconds(60))
    failure = nvml.read().failure
    assert failure is not None
    assert failure.reason.startswith("NVML ended its process")
    faults.write_text("")
    assert nvml.read().failure is None
    nvml.close()


def test_the_process_holds_no_file_of_the_program_and_ends_with_it(library: str, tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w", encoding="utf-8"):
        nvml = NvmlProcess(library, Seconds(60))
        nvml.read()
        pid = nvml.pid
        links = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        assert {link for link in links if not link.startswith("socket:")} == {"/dev/null"}
    nvml.close()
    assert not os.path.exists(f"/proc/{pid}")


def test_a_fork_of_the_program_has_a_process_of_its_own(library: str) -> None:
    nvml = NvmlProcess(library, Seconds(60))
    nvml.read()
    first = nvml.pid
    fork = os.fork()
    if not fork:
        try:
            answered = nvml.read().failure is None and nvml.pid not in (0, first)
            nvml.close()
            os._exit(0 if answered else 1)
        finally:
            os._exit(2)
    assert os.waitpid(fork, 0)[1] == 0
    assert nvml.read().failure is None
    assert nvml.pid == first
    nvml.close()


def test_the_processes_of_a_gpu_are_asked_for_alone(machine: Machine, library: str) -> None:
    processes = Path(library).with_name("processes")
    processes.write_text("70 7000 50\n")
    here = machine()
    device = gpu(here.view()).accelerator.id
    processes.write_text("71 8000 0\n72 9000 0\n")
    assert here.held([device], tuple) == {device: {71: 8000, 72: 9000}}
    processes.write_text("")
    assert here.held([device], tuple) == {device: {}}
    assert here.held([], tuple) == here.held(["other"], tuple) == {}
    assert gpu(here.view()).processes == ()


def test_without_a_report_and_while_the_driver_hangs_no_process_is_known(
    machine: Machine, library: str, faults: Path
) -> None:
    Path(library).with_name("processes").write_text("")  # other tests use the same library
    here = machine(patience=0.2)
    assert here.held(["any"], tuple) == {}
    device = gpu(here.view()).accelerator.id
    faults.write_text("slow")
    assert here.held([device], tuple) == {}
    assert gpu(here.view()).fault.startswith("the NVIDIA driver does not answer")
    assert here.held([device], tuple) == {}
    faults.write_text("")
    views = (gpu(here.view()) for _ in range(1000))  # each waits for a twentieth of a second
    assert next(each for each in views if not each.fault).memory_used == 1000, "a report, not a list"
    assert here.held([device], tuple) == {device: {}}
