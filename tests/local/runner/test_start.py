"""The start protocol and the runner, with real processes."""

import errno
import os
import resource
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.history.store import JobHistory
from fairlead.job import LocalState
from fairlead.ledger.files import LedgerFiles
from fairlead.ledger.judge import NEVER_STARTED
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import is_alive, process_ref
from fairlead.ledger.place import StateDirectory
from fairlead.local.runner.detached import start_detached
from fairlead.local.runner.job_runner import JobRunner
from fairlead.local.runner.process_end import GRACE, Termination
from fairlead.local.runner.signals import CallerState
from fairlead.local.runner.start import NotStarted, RunningCommand, start_job
from fairlead.local.view import MachineView, StartDecision
from fairlead.share import DeviceShare
from fairlead.units import Seconds
from tests.accelerators import accelerator
from tests.ledger.jobs import as_user, needs_root
from tests.local.runner.jobs import PYTHON, FakeMachine, add, view
from tests.local.runner.programs import LONG, World, forked

NOTHING = CallerState()


def started(ledger: JobLedger, decision: StartDecision, seen: MachineView, *argv: str, **fields: Any) -> Any:
    """Start a job under the lock, with the signals blocked as its runner needs them."""
    job, spec = add(ledger, *argv, **fields)
    NOTHING.block()
    with ledger.locked():
        return start_job(ledger, job, decision, seen, NOTHING, spec)


def run_to_end(world: World, *argv: str, **fields: Any) -> Mapping[str, Any]:
    """Start a job and follow it to its end; return how it ended."""
    running = started(world.ledger, StartDecision(), view(), *argv, **fields)
    lines: list[str] = []
    ended = JobRunner(world.ledger, running, NOTHING, world.environ, lines.append).run_until_end()
    return {"state": ended.state, "code": ended.exit_code, "reason": ended.reason, "lines": lines}


def test_a_command_never_runs_if_its_starter_dies_before_the_release(world: World) -> None:
    ran = world.folder / "ran"

    def die() -> Mapping[str, Any]:
        running = started(world.ledger, StartDecision(), view(), "touch", str(ran))
        assert isinstance(running, RunningCommand)
        (world.folder / "command").write_text(str(running.process.pid))
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    assert forked(die) == {"signal": "SIGKILL"}
    command = process_ref(int((world.folder / "command").read_text()))
    until = time.monotonic() + LONG
    while command is not None and is_alive(command) and time.monotonic() < until:
        os.sched_yield()
    (job,) = world.ledger.jobs()
    assert (job.state, job.reason) == (LocalState.FAILED, NEVER_STARTED)
    assert not world.ledger.was_started(job.id)
    assert not ran.exists()
    with world.ledger.locked():
        pass  # no process holds the lock


class FullDisk(LedgerFiles):
    """A disk without space for what is written once it is full."""

    full = False

    def write(self, file: int, data: bytes) -> None:
        """Write, or refuse."""
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(file, data)


def test_a_start_that_cannot_be_recorded_does_not_happen(world: World) -> None:
    ran = world.folder / "ran"

    def start() -> Mapping[str, Any]:
        files = FullDisk()
        ledger = JobLedger(world.ledger.place, files=files)
        job, spec = add(ledger, "touch", str(ran))
        files.full = True
        NOTHING.block()
        with ledger.locked():
            answer = start_job(ledger, job, StartDecision(), view(), NOTHING, spec)
            assert isinstance(answer, NotStarted)
            states = [each.state for each in ledger.jobs()]
        return {"reason": answer.reason, "code": answer.exit_code, "states": states}

    answer = forked(start)
    assert "No space left on device" in answer["reason"]
    assert (answer["code"], answer["states"]) == (None, ["queued"])
    assert not ran.exists()


@needs_root
def test_a_job_waits_while_its_user_may_start_no_process() -> None:
    """Root is above the limit of processes; another user is not."""

    def attempt() -> None:
        os.chdir("/")
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        ledger = JobLedger(StateDirectory.at(f"{folder}/state"))
        open_files = os.listdir("/proc/self/fd")
        answers = [started(ledger, StartDecision(), view(), "true")]
        with ledger.locked():
            answers += start_detached(ledger, [(ledger.jobs()[0], StartDecision())], view(), {})
        reason = "no process can be started for it: Resource temporarily unavailable"
        assert answers == [NotStarted(reason), NotStarted(reason)]
        assert os.listdir("/proc/self/fd") == open_files

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        problem = as_user(64003, attempt)
        assert not problem, problem


def test_an_exec_that_fails_has_a_reason(world: World) -> None:
    script = world.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ended = forked(lambda: run_to_end(world, str(script)))
    reason = f"no such command, or its interpreter is missing: {script}"
    assert ended == {"state": "failed", "code": 127, "reason": reason, "lines": []}
    assert not world.ledger.jobs()


def test_the_use_of_a_job_is_recorded_while_it_runs(world: World) -> None:
    hold = world.folder / "hold"
    os.mkfifo(hold)

    def measure() -> Mapping[str, Any]:
        watcher = os.fork()
        if watcher == 0:  # another process waits for the measured record, then ends the command
            while not any(job.measured for job in world.ledger.jobs()):
                time.sleep(0.01)
            hold.write_text("over")
            os._exit(0)
        ended = run_to_end(world, "cat", str(hold))
        os.waitpid(watcher, 0)
        return ended

    assert forked(measure)["state"] == "done"
    (job,) = world.history()
    assert job.measured is not None
    assert job.measured.peak_memory > 0
    assert JobHistory.open(world.ledger.place, world.environ).all_learned()


def test_a_lost_accelerator_ends_the_command(world: World) -> None:
    gpu = accelerator(mebibytes=1024)
    machine = FakeMachine(lambda reading: view(gpu, fault="fell off the bus" if reading > 1 else ""))

    def lose() -> Mapping[str, Any]:
        decision = StartDecision((DeviceShare(gpu.id, whole=True),))
        running = started(world.ledger, decision, view(gpu), "sleep", "600")
        runner = JobRunner(world.ledger, running, NOTHING, world.environ, print, machine)
        ended = runner.run_until_end()
        return {"lost": runner.lost_device, "code": ended.exit_code, "reason": ended.reason}

    reason = f"lost {gpu.id}: fell off the bus"
    assert forked(lose) == {"lost": reason, "code": 143, "reason": reason}
    assert world.history()[0].state is LocalState.FAILED


STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"


def test_what_ignores_sigterm_is_killed_with_its_descendants(world: World) -> None:
    read, write = os.pipe()
    parent = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", '"$@" & "$@"', "sh", *PYTHON, STUBBORN],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)],
    )
    os.close(write)
    shown = b""
    while shown.count(b"1") < 2:
        shown += os.read(read, 100)
    command = process_ref(parent)
    assert command is not None
    termination = Termination(command, "too long", now=100.0, group=False)
    termination.advance(100.0 + GRACE - 0.01)
    os.waitpid(parent, 0)  # the shell obeys SIGTERM; the two others do not
    termination.finish(lambda: 100.0 + GRACE)
    assert os.read(read, 100) == b""  # the last of them has ended
    os.close(read)


def test_a_submit_runs_in_a_session_of_its_own_and_keeps_its_output(world: World) -> None:
    output = world.folder / "output"
    code = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read()); sys.exit(5)"

    def submit() -> Mapping[str, Any]:
        job, _ = add(world.ledger, *PYTHON, code, output=str(output))
        with world.ledger.locked():
            (runner,) = start_detached(world.ledger, [(job, StartDecision())], view(), world.environ)
            running = [each.state for each in world.ledger.jobs()]
        assert not isinstance(runner, NotStarted)
        os.waitpid(runner.pid, 0)
        return {"running": running}

    assert forked(submit) == {"running": ["running"]}
    (job,) = world.history()
    assert (job.state, job.exit_code) == (LocalState.FAILED, 5)
    assert output.read_text() == "True \n"
    assert output.stat().st_mode & 0o777 == 0o600


def test_a_submit_that_cannot_start_says_why(world: World) -> None:
    def submit() -> Mapping[str, Any]:
        job, _ = add(world.ledger, "/no/such/command", output=str(world.folder / "output"))
        with world.ledger.locked():
            (answer,) = start_detached(world.ledger, [(job, StartDecision())], view(), world.environ)
        assert isinstance(answer, NotStarted)
        return {"reason": answer.reason, "code": answer.exit_code}

    assert forked(submit) == {"reason": "no such command: /no/such/command", "code": 127}


def test_submits_that_start_together_each_answer_for_themselves(world: World) -> None:
    def submit() -> Mapping[str, Any]:
        commands = ("true", "/no/such/command", "false")
        jobs = [add(world.ledger, name, output=str(world.folder / "output"))[0] for name in commands]
        open_files = os.listdir("/proc/self/fd")
        with world.ledger.locked():
            starts = [(job, StartDecision()) for job in jobs]
            answers = start_detached(world.ledger, starts, view(), world.environ)
            waiting = [job.id for job in world.ledger.jobs() if job.state is LocalState.QUEUED]
        left = os.listdir("/proc/self/fd") != open_files
        for answer in answers:
            if not isinstance(answer, NotStarted):
                os.waitpid(answer.pid, 0)
        started = [not isinstance(answer, NotStarted) for answer in answers]
        return {"started": started, "waiting": waiting == [jobs[1].id], "left": left}

    assert forked(submit) == {"started": [True, False, True], "waiting": True, "left": False}
    assert sorted(job.exit_code or 0 for job in world.history()) == [0, 1]


def test_an_awaited_record_stays_until_no_job_waits_for_it(world: World) -> None:
    def end() -> Mapping[str, Any]:
        running = started(world.ledger, StartDecision(), view(), "true")
        add(world.ledger, "true", after=(running.job.id,), timeout=Seconds(1.0))
        JobRunner(world.ledger, running, NOTHING, world.environ, print).run_until_end()
        return {job.id: job.state for job in world.ledger.jobs()}

    assert forked(end) == {"1": "done", "2": "queued"}


def test_a_pending_signal_of_the_starter_is_the_commands(world: World) -> None:
    def interrupt() -> Mapping[str, Any]:
        running = started(world.ledger, StartDecision(), view(), *PYTHON, "import time; time.sleep(600)")
        os.kill(os.getpid(), signal.SIGTERM)  # it arrives before the command can get any
        ended = JobRunner(world.ledger, running, NOTHING, world.environ, print).run_until_end()
        return {"code": ended.exit_code}

    assert forked(interrupt) == {"code": 143}


def test_descriptors_of_the_starter_stay_its_own(world: World) -> None:
    def leak() -> Mapping[str, Any]:
        leaked = os.dup(os.open(os.devnull, os.O_RDONLY))
        os.set_inheritable(leaked, True)
        return run_to_end(world, *PYTHON, f"import os; os.fstat({leaked})")

    assert forked(leak)["code"] == 1
