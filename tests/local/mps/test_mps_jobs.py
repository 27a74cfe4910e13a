"""Jobs under MPS from their start to their end, with real processes and a played daemon."""

import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from fairlead.job import LocalState
from fairlead.ledger.liveness import is_alive
from fairlead.limiter.process import find_process
from fairlead.local.mps.link import GRACE, PERIOD, MpsLink
from tests.local.mps.world import OBSTINATE, MpsWorld, until


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def pid_of_daemon(world: MpsWorld) -> int:
    daemon = world.daemon()
    assert daemon is not None
    return daemon.pid


def connected(world: MpsWorld, count: int) -> None:
    until(lambda: len(world.lines("connected")) >= count, f"{count} connected programs", world.describe)


@pytest.mark.parametrize("length", ["world", "short_world"])
def test_a_job_runs_under_a_daemon_that_ends_after_the_last_job(
    length: str, request: pytest.FixtureRequest
) -> None:
    world: MpsWorld = request.getfixturevalue(length)
    first, second = world.start(gpu_compute=25), world.start()
    connected(world, 2)
    assert sorted(world.lines("started")) == ["started 0=3072M", "started 0=3072M 25"]
    assert len(set(world.lines("connected"))) == 1, "both are clients of one server"
    inside = world.files.daemon_folder.path.startswith(str(world.state))
    assert inside is (length == "short_world")
    assert stat.S_IMODE(os.stat(world.files.daemon_folder.path).st_mode) == 0o700
    world.gate.touch()
    assert [world.end_of(job).state for job in (first, second)] == [LocalState.DONE] * 2
    until(world.nothing_is_left, "the end of the daemon and its keeper")
    world.gate.unlink()
    again = world.start()
    connected(world, 3)
    world.gate.touch()
    assert world.end_of(again).exit_code == 0
    until(world.nothing_is_left, "the end of the second daemon")


def test_a_job_whose_daemon_is_killed_fails_with_the_reason_and_a_new_daemon_comes(world: MpsWorld) -> None:
    job = world.start()
    connected(world, 1)
    daemon = pid_of_daemon(world)
    kill(daemon)
    ended = world.end_of(job)
    reason = f"the MPS daemon of {world.device.id} ended (process {daemon}): its programs cannot go on"
    assert (ended.state, ended.exit_code, ended.reason) == (LocalState.FAILED, 7, reason)
    world.gate.touch()
    assert world.end_of(world.start()).exit_code == 0
    until(world.nothing_is_left, "the end of the daemon and its keeper")


def test_a_job_whose_server_is_killed_can_say_so_for_a_moment(world: MpsWorld) -> None:
    world.start(OBSTINATE)  # it keeps the daemon, and never becomes a client
    now = 1000.0
    link = MpsLink(world.ledger.place, world.device, world.environ, lambda: now)
    assert link.wait(lambda: False) == ""
    client = {**world.environ, **link.variables(world.add())}
    server = int(subprocess.check_output([world.program, "client"], env=client))
    link.look()
    assert (link.fault, link.due) == ("", now + PERIOD)
    kill(server)
    until(lambda: find_process(server) is None, "the end of the server")
    link.look()
    reason = f"the MPS server of {world.device.id} ended (process {server}): its programs cannot go on"
    assert link.fault == reason
    assert not link.is_overdue, "a program that was no client goes on"
    now += GRACE + 0.1
    assert link.fault == ""


def test_a_program_that_does_not_notice_the_end_of_its_daemon_is_ended(world: MpsWorld) -> None:
    job = world.start(OBSTINATE, speed=20.0)
    until(lambda: bool(world.lines("started")), "the program")
    daemon = pid_of_daemon(world)
    kill(daemon)
    ended = world.end_of(job)
    assert ended.reason.startswith(f"the MPS daemon of {world.device.id} ended (process {daemon})")
    assert (ended.state, ended.exit_code) == (LocalState.FAILED, 128 + signal.SIGKILL)
    until(world.nothing_is_left, "the end of the daemon and its keeper")


def test_a_keeper_whose_folder_is_removed_ends_its_daemon(short_world: MpsWorld) -> None:
    world = short_world
    job = world.start()
    connected(world, 1)
    daemon = world.daemon()
    assert daemon is not None
    kill(world.runners[job])
    world.reap(job)
    os.rename(world.state, world.folder / "moved")  # in one step: its keeper may not come first
    world.gate.touch()
    until(lambda: not world.processes(), "the end of the daemon and its keeper")
    assert not is_alive(daemon)


def test_a_killed_keeper_is_replaced_by_a_runner_and_the_daemon_goes_on(world: MpsWorld) -> None:
    job = world.start()
    connected(world, 1)
    daemon, keeper = world.daemon(), world.keeper()
    kill(keeper)
    until(lambda: world.keeper() not in (None, keeper), "another keeper")
    assert world.daemon() == daemon
    assert daemon is not None
    assert is_alive(daemon)
    world.gate.touch()
    assert world.end_of(job).exit_code == 0
    until(world.nothing_is_left, "the end of the daemon and its keeper")


def test_what_a_killed_keeper_and_a_killed_runner_leave_is_ended_by_the_next_command(world: MpsWorld) -> None:
    job = world.start()
    connected(world, 1)
    kill(world.keeper())
    kill(world.runners[job])
    world.reap(job)
    world.gate.touch()
    until(lambda: world.job(job).state.ended, "the end of the command")
    daemon = world.daemon()
    assert daemon is not None
    assert is_alive(daemon)
    world.next_command()
    until(world.nothing_is_left, "the end of the daemon and its keeper")


def test_a_daemon_whose_keeper_was_killed_before_it_said_so_is_taken_over(world: MpsWorld) -> None:
    job = world.start()
    connected(world, 1)
    daemon = world.daemon()
    assert daemon is not None
    kill(world.runners[job])  # no runner starts a keeper meanwhile
    world.reap(job)
    keeper = world.keeper()
    kill(keeper)
    until(lambda: world.keeper() is None, "the end of the keeper")
    os.unlink(Path(world.ledger.place.private, "mps", world.files.key, "status.json"))
    second = world.start()
    connected(world, 2)
    assert world.daemon() == daemon
    world.gate.touch()
    assert world.end_of(second).exit_code == 0
    until(world.nothing_is_left, "the end of the daemon and its keeper")


def test_a_daemon_that_does_not_start_fails_the_job_before_its_command_runs(tmp_path: Path) -> None:
    world = MpsWorld(tmp_path, refusal="the GPU is prohibited")
    try:
        job = world.end_of(world.start())
        program = f"{world.program} -d: exit code 1: the GPU is prohibited"
        reason = f"the MPS daemon of {world.device.id} cannot be started: {program}; write --limiter watchdog"
        assert (job.state, job.exit_code, job.reason) == (LocalState.FAILED, 125, reason)
        assert not world.log.exists()
        until(world.nothing_is_left, "the end of the keeper")
    finally:
        world.close()


def test_a_folder_that_others_can_open_is_refused(world: MpsWorld) -> None:
    path = world.files.daemon_folder.path
    os.mkdir(path)
    os.chmod(path, 0o755)
    job = world.end_of(world.start())
    assert job.exit_code == 125
    assert f"{path}: it belongs to another user, or others can open it" in job.reason
    assert not world.log.exists()


def test_a_job_that_is_cancelled_while_it_waits_for_its_daemon_ends(world: MpsWorld) -> None:
    lock = world.files.take_lock()  # a keeper that never says anything
    assert lock is not None
    job = world.start()
    until(lambda: world.job(job).state is LocalState.RUNNING, "its record")
    os.kill(world.runners[job], signal.SIGTERM)
    ended = world.end_of(job)
    assert (ended.state, ended.exit_code) == (LocalState.FAILED, 125)
    assert ended.reason == f"ended while the MPS daemon of {world.device.id} was started"
    lock.remove()
