"""Keeper, daemon, server, runner and command of jobs under MPS, killed in any order.

FAIRLEAD_CHAOS=long plays many seeds; FAIRLEAD_CHAOS_SEED=N begins at another one.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from fairlead.job import LocalJob, LocalState
from fairlead.ledger.judge import NEVER_STARTED, RUNNER_KILLED
from fairlead.local.reap import archive_ended
from tests.local.mps.world import MpsWorld, until

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
FIRST = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + (60 if LONG else 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_left_and_every_end_has_its_reason(seed: int, tmp_path: Path) -> None:
    world, random = MpsWorld(tmp_path), Random(seed)
    try:
        jobs = [world.start()]
        killed: set[str] = set()
        for _ in range(random.randint(2, 5)):
            time.sleep(random.uniform(0.0, 0.8))
            killed |= _kill_one(world, random)
            if random.random() < 0.4:
                jobs.append(world.start())
        world.gate.touch()
        ended = [_end(world, job) for job in jobs]
        for job in ended:
            _check(job, killed)
        until(lambda: _is_empty(world), f"an empty world: {world.processes()}", world.describe)
    finally:
        world.close()


def _is_empty(world: MpsWorld) -> bool:
    """Return whether nothing is left; a keeper that was killed just now holds its lock for a moment more."""
    if not world.nothing_is_left():
        world.next_command()
    return world.nothing_is_left()


def _kill_one(world: MpsWorld, random: Random) -> set[str]:
    """Send SIGKILL to one process; return what it is: a runner by its job, else the part."""
    daemon = world.daemon()
    servers = [int(line.split()[1]) for line in world.lines("connected")]
    parts = {
        **{f"runner of {job}": pid for job, pid in world.runners.items()},
        **{f"command of {job.id}": job.command.pid for job in world.ledger.own_jobs() if job.command},
        **({"keeper": keeper} if (keeper := world.keeper()) is not None else {}),
        **({"daemon": daemon.pid} if daemon is not None else {}),
        **({"server": servers[-1]} if servers and servers[-1] in world.processes() else {}),
    }
    part = random.choice(sorted(parts)) if parts else ""
    if part:
        with suppress(ProcessLookupError):
            os.kill(parts[part], signal.SIGKILL)
    return {part}


def _end(world: MpsWorld, job_id: str) -> LocalJob:
    world.reap(job_id)

    def ended() -> bool:
        archive_ended(world.ledger, world.history)
        return world.job(job_id).state.ended

    until(ended, f"the end of {world.job(job_id)}")
    return world.job(job_id)


def _check(job: LocalJob, killed: set[str]) -> None:
    if job.state is LocalState.DONE:
        assert job.exit_code == 0
        return
    assert job.state is LocalState.FAILED
    if f"runner of {job.id}" in killed and job.reason in (RUNNER_KILLED, NEVER_STARTED):
        return
    if f"command of {job.id}" in killed and job.reason == "ended by SIGKILL":
        return
    if "daemon" in killed and job.reason.startswith("the MPS daemon of "):
        assert job.reason.endswith("its programs cannot go on")
        return
    assert "server" in killed
    assert job.exit_code == 7  # a server that was never seen, because it lived too short, gives no reason
    assert job.reason == "" or job.reason.startswith("the MPS server of ")
