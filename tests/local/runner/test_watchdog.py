"""The watchdog in the runner: the offender ends with the reason, its neighbours and honest jobs go on."""

import os
import signal
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from fairlead.history.store import JobHistory
from fairlead.job import Assumed, Limiter, LocalJob, LocalState, Requested
from fairlead.ledger.liveness import process_ref
from fairlead.limiter.overuse import PAUSE, Reading
from fairlead.local.runner.job_runner import JobRunner
from fairlead.local.runner.signals import CallerState
from fairlead.local.runner.start import start_job
from fairlead.local.runner.watchdog import LONGEST_PAUSE, Members, Watchdog
from fairlead.local.view import StartDecision
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.accelerators import accelerator
from tests.local.runner.jobs import GIB, PYTHON, FakeMachine, add, queued, view
from tests.local.runner.programs import World, forked

NOTHING = CallerState()
GPU = accelerator(mebibytes=16 << 10, kind="gpu")
LIMIT = Bytes(4 * GIB)
STATED: Mapping[str, Any] = {
    "requested": Requested(gpu_memory=LIMIT),
    "assumed": Assumed(memory=Bytes(GIB // 64), gpus=1, need=Need.fixed(LIMIT)),
}
SHARE = DeviceShare(GPU.id, LIMIT)


def run_holding(world: World, held: int, *argv: str, checks: int = 0, **fields: Any) -> dict[str, Any]:
    """Run a command whose process holds some memory of the GPU, beside a large neighbour.

    Once the watchdog has checked it this often, a word is written to the fifo `hold`.
    """
    done = pid = 0

    def listed() -> Reading:
        nonlocal done
        done += 1
        if done == checks:
            (world.folder / "hold").write_text("over")
        return {GPU.id: {pid: Bytes(held), 1: Bytes(12 * GIB)}}

    def run() -> Mapping[str, Any]:
        nonlocal pid
        job, spec = add(world.ledger, *argv, **{**STATED, **fields})
        NOTHING.block()
        with world.ledger.locked():
            running: Any = start_job(world.ledger, job, StartDecision((SHARE,)), view(GPU), NOTHING, spec)
        pid = running.process.pid
        machine = FakeMachine(lambda _: view(GPU), listed=listed)
        ended = JobRunner(world.ledger, running, NOTHING, world.environ, print, machine).run_until_end()
        return {"state": ended.state, "code": ended.exit_code, "reason": ended.reason, "checks": done}

    return forked(run)


def test_an_offender_is_ended_with_the_reason_and_teaches_that_the_limit_is_too_small(world: World) -> None:
    ended = run_holding(world, round(4.6 * GIB), "sleep", "600")
    reason = f"held 4.6 GiB of {GPU.id}: its limit is 4 GiB; state a larger --gpu-mem, or --limiter none"
    assert ended == {"state": "failed", "code": 143, "reason": reason, "checks": 2}
    assert [job.state for job in world.history()] == [LocalState.FAILED]
    learned = JobHistory.open(world.ledger.place, world.environ).all_learned()
    footprints = [each.gpu for each in learned if each.gpu is not None]
    assert footprints
    assert {each.refused for each in footprints} == {LIMIT}
    assert all(each.least is not None and each.least > LIMIT for each in footprints)
    assert all(run.short for each in learned for run in each.runs)


def test_an_offender_that_ignores_sigterm_is_killed_soon_and_its_ram_is_not_blamed(world: World) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    ended = run_holding(world, 9 * GIB, *PYTHON, code)
    assert ended["code"] in (128 + signal.SIGKILL, 128 + signal.SIGTERM)  # it may end before it ignores
    learned = JobHistory.open(world.ledger.place, world.environ).all_learned()
    assert not any(each.memory is not None and each.memory.surprises for each in learned)


@pytest.mark.parametrize(
    ("held", "requested"),
    [
        (4 * GIB, Requested(gpu_memory=LIMIT)),
        (6 * GIB, Requested(gpu_memory=LIMIT, gpu_limit=Bytes(8 * GIB))),
    ],
)
def test_a_job_inside_its_limit_goes_on(world: World, held: int, requested: Requested) -> None:
    os.mkfifo(world.folder / "hold")
    ended = run_holding(world, held, "cat", str(world.folder / "hold"), checks=2, requested=requested)
    assert (ended["state"], ended["checks"]) == ("done", 2)


def test_without_a_limiter_a_job_is_not_watched(world: World) -> None:
    requested = Requested(gpu_memory=LIMIT, limiter=Limiter.NONE)
    ended = run_holding(world, 9 * GIB, "sleep", str(1.5 * PAUSE), requested=requested)
    assert (ended["state"], ended["checks"]) == ("done", 0)


class Listing:
    """Readings one after the other, by a clock that the test moves."""

    def __init__(self, *readings: Reading | Exception) -> None:
        self.now = 0.0
        self.readings = list(readings)
        self.watchdog = Watchdog(running_job(), self.read, lambda: self.now)

    def read(self, devices: Collection[str], members: Members) -> Reading:
        assert list(devices) == [GPU.id]
        reading = self.readings.pop(0)
        if isinstance(reading, Exception):
            raise reading
        return reading

    def check(self) -> str:
        self.now = max(self.now, self.watchdog.due)
        overuse = self.watchdog.check()
        return overuse.reason if overuse is not None else ""


def running_job() -> LocalJob:
    """Return a job whose command is this process."""
    return queued(state=LocalState.RUNNING, shares=(SHARE,), command=process_ref(os.getpid()), **STATED)


OVER: Reading = {GPU.id: {os.getpid(): Bytes(5 * GIB)}}
UNDER: Reading = {GPU.id: {os.getpid(): Bytes(GIB)}}


@pytest.mark.parametrize(
    ("readings", "ends"),
    [
        ([OVER, OVER], True),
        ([OVER, UNDER], False),
        ([OVER, {}], False),
        ([{}], False),
        ([OSError("the driver is away")], False),
        ([OVER, OSError("the driver is away")], False),
        ([{GPU.id: {1: Bytes(15 * GIB)}}], False),
    ],
)
def test_a_reading_counts_once_a_second_one_says_the_same(
    readings: list[Reading | Exception], ends: bool
) -> None:
    listing = Listing(*readings)
    assert bool(listing.check()) == ends
    assert not listing.readings
    assert PAUSE <= listing.watchdog.due - listing.now <= LONGEST_PAUSE


def test_between_two_readings_nothing_is_asked() -> None:
    listing = Listing(UNDER)
    listing.check()
    listing.now = listing.watchdog.due - 0.01
    assert listing.watchdog.check() is None  # a second reading would fail: there is none
