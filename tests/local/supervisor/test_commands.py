"""`fairlead submit`, `logs` and `cancel` as a user types them."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.cli.local.job_options import JobOptions
from fairlead.cli.local.submission import PartlySubmittedError, record_all
from fairlead.cli.main import main
from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.ledger import JobLedger, JobSpec, StateDirectory, boot_id, seconds_since_boot
from tests.local.supervisor.desk import Desk, wait_until


def call(desk: Desk, *words: str, text: str = "", cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a command; return its exit code, its standard output and its standard error."""
    command = [sys.executable, "-m", "fairlead", *words]
    done = subprocess.run(
        command,
        env=desk.environ,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_job_from_submit_to_its_output(desk: Desk) -> None:
    desk.environ["GREETING"] = "hello"
    script = "cat; echo $GREETING; pwd; umask; echo problem >&2; printf 'raw \\377'; exit 4"
    before = os.umask(0o027)
    try:
        code, out, err = call(desk, "submit", "--name", "greet", "--", "sh", "-c", script, cwd=desk.folder)
    finally:
        os.umask(before)
    assert (code, out, err) == (0, "1\n", "")
    assert desk.wait("1").exit_code == 4
    follow = subprocess.run(
        [sys.executable, "-m", "fairlead", "logs", "-f", "greet"],
        env=desk.environ,
        capture_output=True,
        check=True,
    )
    assert follow.stdout == f"hello\n{desk.folder}\n0027\nproblem\nraw ".encode() + b"\xff"
    output = Path(desk.place.private) / "output" / "1.log"
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    output.unlink()
    code, out, err = call(desk, "logs", "1")
    assert (code, out) == (1, "")
    assert "no longer kept" in err


def test_many_commands_from_a_file(desk: Desk) -> None:
    file = desk.folder / "sweep"
    file.write_text("# a comment\n\n" + "".join(f"A=1 echo {number} >> ran\n" for number in range(12)))
    code, out, _ = call(desk, "submit", "--cpus", "0.1", "-o", "json", "--from", str(file), cwd=desk.folder)
    jobs = json.loads(out)["jobs"]
    assert (code, [job["id"] for job in jobs]) == (0, [str(number) for number in range(1, 13)])
    assert {(job["name"], job["state"], job["requested"]["cpus"]) for job in jobs} == {
        ("echo", "queued", 0.1)
    }
    assert {desk.wait(job["id"]).state for job in jobs} == {LocalState.DONE}
    assert sorted(map(int, (desk.folder / "ran").read_text().split())) == list(range(12))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("--cpus 4000 -- true", "line 3: --cpus 4000: this machine has"),
        ("--after typo -- true", "line 3: --after typo: no job of this id"),
        ("--shape x=1 -- true", "line 3: --shape x=1: only a model has shapes; add --model FILE"),
    ],
)
def test_a_wrong_line_of_a_file_is_named_and_no_line_is_queued(desk: Desk, line: str, error: str) -> None:
    text = f"--name first -- true\n--after first -- true\n{line}\ntrue\n"
    code, out, err = call(desk, "submit", "--from", "-", text=text)
    assert (code, out) == (2, "")
    assert f"fairlead: the standard input, {error}" in err
    assert not desk.ledger.own_jobs()


def test_jobs_that_are_queued_before_a_failure_are_named_and_start(desk: Desk) -> None:
    first = JobOptions(("sh", "-c", "exit 3"), name="first")
    second = JobOptions(("true",), name="second", after=("gone",))
    drafts = [(desk.draft(options), JobSpec(options.argv, "/"), options) for options in (first, second)]
    with pytest.raises(
        PartlySubmittedError, match=r"^1 of 2 jobs are queued, the others are not: --after gone"
    ) as error:
        record_all(drafts, desk.ledger, desk.history, desk.environ)
    assert [job.name for job in error.value.jobs] == ["first"]
    assert desk.wait(error.value.jobs[0].id).exit_code == 3, "a supervisor starts it"


def test_lines_of_a_file_wait_for_earlier_ones(desk: Desk) -> None:
    code, out, _ = call(desk, "submit", "--from", "-", text="--name a -- echo a\n--after a -- echo b\n")
    assert (code, out) == (0, "1\n2\n")
    assert desk.wait("2").after == ("1",)


def test_a_running_job_is_followed_and_cancelled(desk: Desk) -> None:
    script = f"echo up; echo > {desk.folder}/up; sleep 300"
    _, out, _ = call(desk, "submit", "--name", "long", "-o", "json", "--", "sh", "-c", script)
    assert json.loads(out)["name"] == "long"
    follow = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "logs", "-f", "long"], env=desk.environ, stdout=subprocess.PIPE
    )
    with follow:
        assert follow.stdout is not None
        assert follow.stdout.readline() == b"up\n"
        assert call(desk, "cancel", "--all") == (0, "job 1 (long): cancelled\n", "")
        assert follow.wait(60) == 0
    assert call(desk, "cancel", "long") == (0, "job 1 (long): cancelled\n", "")  # it has ended already
    assert desk.job("1").state is LocalState.CANCELLED


def test_the_output_of_a_job_that_has_not_started(desk: Desk) -> None:
    cores = desk.cores()
    desk.submit(f"echo > {desk.folder}/up; sleep 300", cpus=cores)
    wait_until((desk.folder / "up").exists, "the first job")
    desk.submit("true", cpus=cores)
    note = "fairlead: job 2 (job) is queued: no output yet; -f waits for it\n"
    assert call(desk, "logs", "2") == (0, "", note)
    assert call(desk, "cancel", "2")[0] == 0
    for words in (("logs", "2"), ("logs", "-f", "2")):
        code, out, err = call(desk, *words)
        assert (code, out) == (1, "")
        assert err.startswith("fairlead: job 2 (job) has no output: it never started\n")


def test_cancel_without_a_wait_still_kills(desk: Desk) -> None:
    desk.submit(f"trap '' TERM; echo > {desk.folder}/up; while :; do sleep 0.05; done")
    wait_until((desk.folder / "up").exists, "the command")
    code, out, err = call(desk, "cancel", "1", "--no-wait", "--grace", "200ms")
    assert (code, out, err) == (0, "job 1 (job): asked to end\n", "")
    assert desk.wait("1").state is LocalState.CANCELLED


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("logs", "17"), 1, "no job 17"),
        (("logs", "-n", "x", "17"), 2, "-n x: not a number of lines"),
        (("cancel", "17"), 1, "no job 17"),
        (("cancel",), 2, "name the jobs to cancel"),
        (("cancel", "17", "--grace", "soon"), 2, "--grace soon: not a duration"),
        (("submit", "--", "no-such-command"), 2, "no such command: no-such-command"),
        (("submit", "--from", "/no/such/file"), 2, "--from /no/such/file: No such file"),
        (("submit", "--memory", "4000Ti", "--", "true"), 2, "this machine has"),
    ],
)
def test_one_line_says_what_is_wrong(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    line: str,
) -> None:
    for name in ("FAIRLEAD_STATE", "HOME"):
        monkeypatch.setenv(name, desk.environ[name])
    assert main(words) == code
    out, err = capfd.readouterr()
    assert not out
    assert line in err
    assert not desk.ledger.own_jobs()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
def test_jobs_of_others_are_refused_except_by_root(inventory: Path) -> None:
    with tempfile.TemporaryDirectory() as name:  # below a folder that other users may enter
        Path(name).chmod(0o755)
        desk = Desk(Path(name), inventory)
        mine = desk.add()
        home = Path(name) / "home"
        home.mkdir()
        os.chown(home, OTHER, OTHER)
        environ = {**desk.environ, "HOME": str(home)}
        assert as_other(environ, lambda: main(["cancel", mine.id])) == 1
        assert as_other(environ, lambda: main(["logs", mine.id])) == 1
        assert desk.job(mine.id).state is LocalState.QUEUED

        assert as_other(environ, lambda: int(add_job(environ).id)) == 2
        code, out, err = call(desk, "logs", "2")
        assert (code, out) == (1, "")
        assert "job 2 belongs to" in err
        assert call(desk, "cancel", "2") == (0, "job 2 (theirs): cancelled\n", "")
        assert [job.id for job in desk.ledger.jobs()] == [mine.id]


OTHER = 12345
"""The uid of another user."""


def add_job(environ: dict[str, str]) -> LocalJob:
    ledger = JobLedger(StateDirectory.open(environ))
    state, now = LocalState.QUEUED, time.time()
    job = LocalJob("", 0, "theirs", 0, "", JobKind.SUBMIT, state, now, seconds_since_boot(), boot_id())
    with ledger.locked():
        return ledger.add(job, JobSpec(("true",), "/"))


def as_other(environ: dict[str, str], work: Callable[[], int]) -> int:
    """Do something as another user, in a process of its own; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            os.environ.clear()
            os.environ.update(environ)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
