"""`fairlead run` as a process: exit codes, streams, signals, terminal, queue."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fairlead.job import LocalState
from fairlead.ledger.judge import RUNNER_KILLED
from fairlead.ledger.liveness import is_alive
from tests.cli.examples import Run
from tests.local.runner.programs import ALL_CORES, COUNTING, LONG, World, counts, read_until

PYTHON = (sys.executable, "-S", "-E", "-c")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("nosuch-command",), 127, "fairlead: run: no such command: nosuch-command\n"),
        (("./nosuch",), 127, "fairlead: run: no such command: ./nosuch\n"),
        (
            ("--", "./text"),
            126,
            "fairlead: run: not executable: ./text; "
            "write its interpreter before it, or make it executable (chmod +x)\n",
        ),
        (
            ("--", "text"),
            127,
            "fairlead: run: no such command: text; "
            "to run the file of this name, write its interpreter before it, or ./text\n",
        ),
        (("./folder",), 126, "fairlead: run: not a command but a folder: ./folder\n"),
        ((), 125, "fairlead: no command: write it after --, for example: -- python train.py\n"),
        (("--memory", "4", "true"), 125, "fairlead: --memory 4: a size needs a unit; write 4Gi or 4Mi\n"),
    ],
)
def test_a_failure_before_the_queue_is_one_line(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, error: str
) -> None:
    monkeypatch.setenv("FAIRLEAD_STATE", str(world.folder / "state"))
    monkeypatch.chdir(world.folder)
    (world.folder / "text").write_text("no program")
    (world.folder / "folder").mkdir()
    assert run("run", *words) == (code, "", error)
    assert world.ledger.jobs() == () == world.history()


def test_a_working_directory_that_was_removed_is_one_line(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = world.folder / "gone"
    gone.mkdir()
    monkeypatch.setenv("FAIRLEAD_STATE", str(world.folder / "state"))
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command, code in (("run", 125), ("submit", 2)):
        failed, out, err = run(command, "--", "true")
        assert (failed, out) == (code, "")
        assert err.startswith("fairlead: the working directory: No such file or directory\n")
    assert world.ledger.jobs() == ()


def test_unknown_options_are_failures_of_run_itself(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("run", "--bogus", "true")
    assert ended.value.code == 125
    assert "unrecognized arguments: --bogus" in capsys.readouterr().err


def test_streams_and_the_exit_code_are_the_commands(world: World) -> None:
    data = bytes(range(256)) * 999
    result = world.run("sh", "-c", "cat; echo error >&2; exit 3", input=data)
    assert (result.returncode, result.stdout, result.stderr) == (3, data, b"error\n")
    (job,) = world.history()
    assert (job.state, job.exit_code, job.name, job.device) == (LocalState.FAILED, 3, "sh -c", "cpu")
    assert not world.ledger.jobs()


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("TERM", 143)])
def test_a_command_that_a_signal_ends(world: World, name: str, code: int) -> None:
    result = world.run("--", "sh", "-c", f"kill -{name} $$")
    assert (result.returncode, result.stdout, result.stderr) == (code, b"", b"")
    assert world.history()[0].reason == f"ended by SIG{name}"


SEEN = """
import json, os, sys
print(json.dumps({
    "status": sys.argv[1].split(),
    "descriptors": [fd for fd in range(64) if os.path.exists(f"/proc/self/fd/{fd}")],
    "group": os.getpgrp(), "session": os.getsid(0), "cwd": os.getcwd(),
    "environ": dict(os.environ), "umask": os.umask(0),
}))
"""


def test_the_command_gets_what_the_caller_set(world: World) -> None:
    reader, writer = os.pipe()

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.umask(0o027)

    # The shell reads the signals: Python changes some of its own.
    script = 'exec "$@" "$(grep -E "SigBlk|SigIgn" /proc/self/status)"'
    words = ("sh", "-c", script, "sh", *PYTHON, SEEN)
    result = world.run(*words, pass_fds=(reader,), preexec_fn=prepare, cwd=world.folder, stdin=0)
    os.close(reader)
    os.close(writer)
    seen = json.loads(result.stdout)
    assert seen["status"] == ["SigBlk:", "0" * 16, "SigIgn:", f"{_inherited() | _bit(signal.SIGHUP):016x}"]
    assert seen["descriptors"] == [0, 1, 2, reader]
    assert (seen["group"], seen["session"]) == (os.getpgrp(), os.getsid(0))
    assert (seen["cwd"], seen["umask"]) == (str(world.folder), 0o027)
    assert seen["environ"] == {**world.environ, **seen["environ"]}
    assert seen["environ"]["FAIRLEAD_JOB_ID"] == world.history()[0].id


def _inherited() -> int:
    """Return the signals that this process was started to ignore; Python adds two for its own code."""
    status = Path("/proc/self/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return ignored & ~(_bit(signal.SIGPIPE) | _bit(signal.SIGXFSZ))


def _bit(number: int) -> int:
    return 1 << (number - 1)


def test_a_script_without_an_interpreter_is_the_shells(world: World) -> None:
    script = world.folder / "script"
    script.write_text("exit 7\n")
    script.chmod(0o755)
    assert world.run(str(script)).returncode == 7


def test_a_signal_to_the_runner_reaches_the_command_once(world: World) -> None:
    process = world.start(*PYTHON, COUNTING)
    seen = read_until(process.stdout, "ready")
    process.send_signal(signal.SIGTERM)
    seen += read_until(process.stdout, "SIGTERM")
    process.send_signal(signal.SIGUSR1)
    seen += process.communicate(timeout=60)[0].decode()
    assert (process.returncode, counts(seen)) == (9, {"SIGTERM": 1, "SIGUSR1": 1})


def test_a_timeout_ends_the_command_and_says_so(world: World) -> None:
    result = world.run("--timeout", "200ms", "sleep", "600")
    assert (result.returncode, result.stderr) == (143, b"fairlead: run: timed out after 200ms\n")
    assert world.history()[0].reason == "timed out after 200ms"


def test_a_job_waits_for_cores_and_then_starts(world: World) -> None:
    first = world.start("--cpus", ALL_CORES, "--name", "first", "sh", "-c", "echo runs; cat")
    read_until(first.stdout, "runs")
    second = world.start("--cpus", ALL_CORES, "sh", "-c", "echo second")
    assert "is number 1 in the queue: " in read_until(second.stderr, "queue")
    third = world.start("--after", "first", "-q", "--", "sh", "-c", "echo third")
    first.communicate(b"data", timeout=60)
    outputs = [process.communicate(timeout=60) for process in (second, third)]
    assert outputs[0][0] == b"second\n"
    assert outputs[1] == (b"third\n", b"")
    assert [job.state for job in world.history()] == [LocalState.DONE] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_wait(world: World, number: signal.Signals) -> None:
    first = world.start("--cpus", ALL_CORES, "sh", "-c", "echo runs; cat")
    read_until(first.stdout, "runs")
    second = world.start("--cpus", ALL_CORES, "touch", str(world.folder / "ran"))
    read_until(second.stderr, "queue")
    second.send_signal(number)
    second.communicate(timeout=60)
    assert second.returncode == 128 + number
    first.communicate(timeout=60)
    jobs = {job.id: job for job in world.history()}
    assert (jobs["2"].state, jobs["1"].state) == (LocalState.CANCELLED, LocalState.DONE)
    assert not (world.folder / "ran").exists()


def test_a_command_outlives_its_killed_runner_in_its_record(world: World) -> None:
    process = world.start("sh", "-c", "echo runs; cat; echo over")
    read_until(process.stdout, "runs")
    process.kill()
    process.wait()
    (job,) = world.ledger.jobs()
    assert job.state is LocalState.RUNNING  # its memory stays booked
    assert job.command is not None
    assert b"over" in process.communicate(b"", timeout=60)[0]
    until = time.monotonic() + LONG
    while is_alive(job.command) and time.monotonic() < until:
        os.sched_yield()
    (job,) = world.ledger.jobs()
    assert (job.state, job.reason) == (LocalState.FAILED, RUNNER_KILLED)


def test_a_state_directory_that_cannot_be_used(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = world.run("true", env={**world.environ, "FAIRLEAD_STATE": str(tmp_path / "file")})
    assert result.returncode == 125
    assert b"not a directory" in result.stderr


def test_a_lock_that_another_process_holds_is_named_and_signals_are_obeyed(world: World) -> None:
    with world.ledger.locked():
        process = world.start("true")
        assert f"process {os.getpid()} (" in read_until(process.stderr, "waiting for the lock")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert not world.ledger.jobs()
