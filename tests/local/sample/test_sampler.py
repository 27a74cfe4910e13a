"""Sampling one job: a small /proc that moves, devices that move, and one real tree of processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fairlead.job import ProcessRef
from fairlead.ledger.liveness import process_ref, seconds_since_boot
from fairlead.local.sample import JobSampler
from fairlead.local.sample.processes import JobProcesses
from fairlead.local.sample.trace import PeakTrace, TimeAtLevels
from fairlead.local.view import DeviceProcess, DeviceView
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Watts
from tests.local.jobs import GIB, GPU, WHOLE, shared

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START = 100 * TICKS
COMMAND = ProcessRef(10, START, "boot")


class Proc:
    """A /proc whose processes the test starts, changes and ends."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()
        self.put(1, 0, start=0)
        self.put(2, 1, start=0, name="other) 3 (job")

    def put(  # noqa: PLR0917 - the fields of a process
        self,
        pid: int,
        parent: int,
        cpu: float = 0.0,
        children_cpu: float = 0.0,
        own: float = 0.0,
        common: float = 0.0,
        start: int = START,
        group: int = 5,
        session: int = 5,
        name: str = "a b) c",
    ) -> None:
        """Write a process: CPU in seconds, and memory that it has alone and in common with others, in GiB."""
        folder = self.root / "proc" / str(pid)
        folder.mkdir(exist_ok=True)
        times = f"{round(cpu * TICKS)} 0 {round(children_cpu * TICKS)} 0"
        fields = f"S {parent} {group} {session} 0 -1 0 0 0 0 0 {times} 20 0 1 0 {start} 0 0"
        (folder / "stat").write_text(f"{pid} ({name}) {fields}\n")
        resident, common_pages = (round(size * GIB) // PAGE for size in (own + common, common))
        (folder / "statm").write_text(f"9999 {resident} {common_pages} 0 0 0 0\n")

    def end(self, pid: int) -> None:
        """End a process."""
        for file in (self.root / "proc" / str(pid)).iterdir():
            file.unlink()
        (self.root / "proc" / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    world = Proc(tmp_path)
    world.put(10, 1)
    return world


def pids(processes: JobProcesses) -> set[int]:
    return set(processes.scan())


def test_the_tree_is_the_command_and_what_descends_from_it(proc: Proc) -> None:
    processes = JobProcesses(COMMAND, str(proc.root))
    proc.put(11, 10)
    proc.put(12, 11)
    proc.put(20, 2)
    assert pids(processes) == {10, 11, 12}
    proc.end(11)
    proc.put(12, 1)
    assert pids(processes) == {10, 12}, "a member whose parent has ended is still one"
    proc.put(9, 12)
    assert pids(processes) == {9, 10, 12}, "a pid below its parent's"
    proc.end(12)
    proc.put(12, 1, start=START + 50)
    assert pids(processes) == {9, 10}, "another process with the pid of a member"
    proc.end(20)
    assert pids(processes) == {9, 10}
    proc.put(20, 10)
    assert pids(processes) == {9, 10, 20}, "a member with a pid that belonged to another process"


def test_a_command_that_leads_a_session_or_a_group_keeps_its_orphans(proc: Proc) -> None:
    proc.put(10, 1, group=10, session=5)
    proc.put(21, 1, group=10)
    proc.put(22, 1, session=10, group=22)
    proc.put(23, 1, start=START - 1, group=10)
    assert pids(JobProcesses(COMMAND, str(proc.root))) == {10, 21}, "23 is older than the command"
    proc.put(10, 1, group=10, session=10)
    assert pids(JobProcesses(COMMAND, str(proc.root))) == {10, 21, 22}
    proc.put(10, 1)
    assert pids(JobProcesses(COMMAND, str(proc.root))) == {10}, "the group is the shell's"


def test_memory_in_common_counts_once(proc: Proc) -> None:
    proc.put(10, 1, own=1.0, common=0.5)
    proc.put(11, 10, own=2.0, common=0.25)
    processes = JobProcesses(COMMAND, str(proc.root))
    assert processes.memory(processes.scan()) == 3.5 * GIB


class Clock:
    """Seconds since the boot, which the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class World:
    """A sampler over a /proc and devices."""

    def __init__(
        self,
        proc: Proc,
        shares: Sequence[DeviceShare] = (),
        devices: Callable[[], Sequence[DeviceView]] | None = None,
    ) -> None:
        self.clock = Clock()
        self.sampler = JobSampler(COMMAND, shares, devices, self.clock, str(proc.root))


def test_cores_are_averaged_and_no_time_of_an_ended_child_is_lost_or_counted_twice(proc: Proc) -> None:
    world = World(proc)
    cpu = []
    for now, states in (
        (101.0, {10: (1.0, 0.0)}),
        (102.0, {10: (1.0, 0.0), 11: (1.0, 0.0)}),
        (103.0, {10: (1.0, 2.0)}),  # 11 used another second, and was waited for
        (104.0, {10: (1.0, 2.0), 12: (4.0, 0.0)}),
        (105.0, {10: (1.5, 2.0)}),  # 12 has ended, and its time went to another parent
    ):
        world.clock.now = now
        for pid in {11, 12} - states.keys():
            if (proc.root / "proc" / str(pid)).exists():
                proc.end(pid)
        for pid, (own, children) in states.items():
            proc.put(pid, 1 if pid == 10 else 10, own, children)
        cpu.append(world.sampler.sample().cpu)
    assert cpu == [1000, 1000, 1000, 1750, 1500], "7.5 CPU seconds in 5 s"
    outcome = world.sampler.finish()
    assert (outcome.cpu_mean, outcome.seconds) == (1500, 5.0)
    assert 1750 <= outcome.cpu_high <= 1750 * 1.05


def test_old_use_of_cores_leaves_the_window(proc: Proc) -> None:
    world = World(proc)
    for second in range(1, 21):
        world.clock.now = 100.0 + second
        proc.put(10, 1, cpu=min(second, 10))
        use = world.sampler.sample()
    assert use.cpu == 0
    assert world.sampler.finish().cpu_mean == 500


def test_the_account_of_the_kernel_adds_what_no_sample_saw(proc: Proc) -> None:
    world = World(proc)
    world.clock.now = 101.0
    world.sampler.sample()
    world.clock.now = 102.0

    class Usage:
        ru_maxrss = 3 << 20
        ru_utime, ru_stime = 1.0, 0.5

    outcome = world.sampler.finish(Usage())
    assert (outcome.peak_memory, outcome.cpu_mean) == (3 * GIB, 750)


def test_memory_of_the_process_that_forked_the_command_is_not_the_commands(proc: Proc) -> None:
    class Usage:
        ru_maxrss = 30 << 10
        ru_utime = ru_stime = 0.0

    proc.put(10, 1, own=2 / 1024)
    world = World(proc)
    world.clock.now = 100.9
    peak = world.sampler.sample().memory
    assert 0 < peak < 30 << 20
    assert world.sampler.finish(Usage(), inherited=30 << 10).peak_memory == 30 << 20, (
        "it ran for less than 1 s"
    )
    longer = World(proc)
    longer.clock.now = 101.0
    longer.sampler.sample()
    assert longer.sampler.finish(Usage(), inherited=30 << 10).peak_memory == peak
    assert longer.sampler.finish(Usage(), inherited=29 << 10).peak_memory == 30 << 20


def test_a_job_has_settled_when_no_peak_is_new(proc: Proc) -> None:
    world, settled = World(proc), []
    for second, size in ((1, 1.0), (4, 2.0), (13, 2.05), (14, 2.05), (30, 4.0), (45, 4.0), (60, 4.1)):
        world.clock.now = 100.0 + second
        proc.put(10, 1, own=size)
        settled.append(world.sampler.sample().settled)
    assert settled == [False, False, False, True, False, False, True]


def test_a_job_with_an_accelerator_has_not_settled_before_it_uses_it(proc: Proc) -> None:
    held = [0.0]
    world = World(proc, shared(4), lambda: [gpu({10: held[0]} if held[0] else {})])
    proc.put(10, 1, own=1.0)
    settled = []
    for second, size in ((1, 0.0), (700, 0.0), (710, 2.0), (711, 2.0)):
        world.clock.now, held[0] = 100.0 + second, size
        settled.append(world.sampler.sample().settled)
    assert settled == [False, False, True, True], "after ten minutes it counts, whether it grows or not"


def test_a_job_without_accelerators_counts_its_share_of_the_processor_s_energy(proc: Proc) -> None:
    zone = proc.root / "sys/class/powercap/intel-rapl:0"
    (zone.parent / "intel-rapl:0:0").mkdir(parents=True)
    zone.mkdir()
    (zone / "max_energy_range_uj").write_text("1000000000\n")

    def move(joules: int, busy: float) -> None:
        for folder in (zone, zone.parent / "intel-rapl:0:0"):
            (folder / "energy_uj").write_text(f"{joules * 10**6}\n")
        (proc.root / "proc" / "stat").write_text(f"cpu  {round(busy * TICKS)} 0 0 999 0 0 0 0\n")

    move(900, 50.0)
    world = World(proc)
    for second, joules, busy, cpu in ((1, 940, 54.0, 1.0), (2, 20, 58.0, 3.0)):
        world.clock.now = 100.0 + second
        move(joules, busy)
        proc.put(10, 1, cpu=cpu)
        world.sampler.sample()
    assert world.sampler.finish().joules == pytest.approx(40 / 4 + 80 / 2), (
        "the counter began again at 1000 J"
    )
    (zone / "energy_uj").unlink()
    assert World(proc).sampler.finish().joules is None


def test_a_command_is_measured_often_at_first(proc: Proc) -> None:
    world, intervals = World(proc), []
    for second in (0.0, 0.1, 4.0, 100.0):
        world.clock.now = 100.0 + second
        world.sampler.sample()
        intervals.append(world.sampler.interval)
    assert intervals == [0.1, 0.1, 1.0, 2.0]


def gpu(
    memory: dict[int, float] | None,
    busy: dict[int, float] | None = None,
    used: float | None = None,
    power: float | None = None,
    device_busy: float | None = None,
) -> DeviceView:
    """Return the GPU with processes (None: not reported): their memory in GiB, and their busy shares."""
    processes = None
    if memory is not None:
        processes = tuple(
            DeviceProcess(pid, Bytes(round(size * GIB)), (busy or {}).get(pid))
            for pid, size in memory.items()
        )
    return DeviceView(
        GPU,
        None if used is None else Bytes(round(used * GIB)),
        device_busy,
        None if power is None else Watts(power),
        processes,
    )


def test_memory_busy_and_energy_of_the_tree_on_a_shared_gpu(proc: Proc) -> None:
    proc.put(11, 10)
    view = gpu({10: 1.0, 11: 2.0, 77: 5.0}, {10: 0.1, 11: 0.2, 77: 0.3}, used=8.0, power=200)
    world = World(proc, shared(4), lambda: [view])
    world.clock.now = 102.0
    use = world.sampler.sample()
    assert use.gpu_memory == {"gpu-0": 3 * GIB}
    assert use.gpu_busy == {"gpu-0": pytest.approx(0.3)}
    assert use.peak_gpu_memory == 3 * GIB
    outcome = world.sampler.finish()
    assert outcome.joules == pytest.approx(200.0), "half of 200 W for 2 s"
    assert outcome.busy == pytest.approx(0.3)
    assert (outcome.used_accelerator, outcome.device_memory) == (True, 16 * GIB)
    assert outcome.peak_gpu_memory == 3 * GIB


@pytest.mark.parametrize(
    ("shares", "views", "held", "used"),
    [
        (WHOLE, [gpu({}, used=0.5), gpu({}, used=0.5)], 0.0, False),
        (WHOLE, [gpu({}, used=0.5), gpu({}, used=3.5)], 3.0, True),
        (WHOLE, [gpu(None, used=0.5), gpu(None, used=3.5)], 3.0, True),
        (WHOLE, [gpu(None), gpu(None)], 0.0, None),
        (WHOLE, [gpu({77: 0.5}, used=0.5), gpu({77: 3.5}, used=3.5)], 0.0, False),
        (WHOLE, [gpu({}, used=8.0), gpu({}, used=0.5), gpu({}, used=3.5)], 3.0, True),
        (shared(4), [gpu({}, used=0.5), gpu({}, used=3.5)], 0.0, None),
        (shared(4), [gpu({}, used=0.5), gpu({10: 3.0}, used=3.5)], 3.0, True),
        ((), [gpu({}, used=0.5), gpu({10: 3.0}, used=3.5)], 3.0, True),
        ((), [gpu({}), gpu({})], 0.0, None),
    ],
    ids=[
        "idle", "in a container", "another vendor", "nothing known", "another process", "after another job",
        "shared in a container", "late", "without asking", "none given",
    ],
)  # fmt: skip
def test_a_device_that_lists_no_process_is_judged_by_its_growth(
    proc: Proc, shares: Sequence[DeviceShare], views: list[DeviceView], held: float, used: bool | None
) -> None:
    now = [views[0]]
    world = World(proc, shares, lambda: now)
    for second, view in enumerate(views, 1):
        now[0], world.clock.now = view, 100.0 + second
        world.sampler.sample()
    outcome = world.sampler.finish()
    assert (outcome.peak_gpu_memory, outcome.used_accelerator) == (held * GIB, used)


def test_a_trace_is_bounded_and_loses_no_peak() -> None:
    trace = PeakTrace(most=16)
    for second in range(1000):
        trace.add(float(second), 7.0 if second == 501 else 1.0)
    series = trace.series()
    assert len(series) < 16
    assert max(series.values) == 7.0
    assert series.times[-1] >= 990


def test_time_at_levels_gives_quantiles() -> None:
    levels = TimeAtLevels()
    for value, seconds in ((0.0, 50.0), (100.0, 45.0), (4000.0, 5.0)):
        levels.add(value, seconds)
    assert levels.quantile(0.4) == 0.0
    assert 100.0 <= levels.quantile(0.95) <= 105.0
    assert 4000.0 <= levels.quantile(0.96) <= 4200.0
    assert TimeAtLevels().quantile(0.5) == 0.0


def test_a_real_tree_of_processes_is_measured() -> None:
    child = "import sys; x = b'x' * (64 << 20); sum(range(10**6)); print(1, flush=True); sys.stdin.read()"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=sys.stdin, stdout=sys.stdout)\n"
        "child.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as command:
        ref = process_ref(command.pid)
        assert ref is not None
        assert command.stdin is not None
        assert command.stdout is not None
        assert command.stdout.readline() == b"1\n"
        sampler = JobSampler(ref, (), None, seconds_since_boot)
        use = sampler.sample()
        command.stdin.close()
        _, status, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
    outcome = sampler.finish(usage)
    assert use.memory > 64 << 20
    assert use.cpu > 0
    assert outcome.peak_memory >= use.memory
    assert outcome.cpu_mean > 0
    assert outcome.used_accelerator is None
