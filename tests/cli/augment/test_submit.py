"""`fairlead augment submit`, `resume`, `jobs`, `logs`, `cancel`, `work` and `fairlead device work`."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import main
from fairlead.device.membership import Membership
from fairlead.device.place import DevicePlace
from tests.store.stores import TOKEN
from tests.submission.worlds import Session, session, until

_FUNCTION = """
def run(path):
    text = open(path).read()
    if text == "bad":
        raise ValueError("a bad input")
    return text.upper()
"""
FAIRLEAD = (sys.executable, "-m", "fairlead")


@dataclass
class DeviceSession:
    """A session, a device that has joined it, and what both run."""

    folder: Path
    shop: Session
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run fairlead here; return its code and what it printed."""
        self.capture.readouterr()
        code = main(list(words))
        out, err = self.capture.readouterr()
        return code, out, err

    def submit(self, *words: str, inputs: str = "in") -> tuple[int, dict[str, Any], str]:
        """Submit a job; return the exit code, the document and the messages."""
        code, out, err = self.run("augment", "submit", "--inputs", inputs, *words, "-o", "json")
        return code, json.loads(out) if out else {}, err

    @contextmanager
    def started(self, *words: str, **environ: str) -> Iterator["subprocess.Popen[str]"]:
        """Run fairlead as a process during the block."""
        env = {**os.environ, **environ}
        pipe = subprocess.PIPE
        with subprocess.Popen([*FAIRLEAD, *words], stdout=pipe, stderr=pipe, text=True, env=env) as process:
            try:
                yield process
            finally:
                process.kill()

    def write(self, *names: str, text: str = "text") -> None:
        """Write inputs."""
        for name in names:
            (self.folder / "in" / name).write_text(text)


@pytest.fixture
def pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeviceSession]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "app.py").write_text(_FUNCTION)
    with session(tmp_path / "store") as shop:
        place = DevicePlace.of(os.environ, "pi")
        place.make()
        place.write_membership(Membership("pi", shop.store.url, "", TOKEN, session="shop"))
        yield DeviceSession(tmp_path, shop, capsys)


def test_a_device_does_its_job_alone_and_has_the_results(pair: DeviceSession) -> None:
    pair.write("a", "b", "c")
    code, job, err = pair.submit("--command", "tr a-z A-Z -- {input}", "--out", "out")
    assert code == 1, "tr takes no files"
    assert "Try 'tr --help' for more information. (exit 1)" in err
    code, job, err = pair.submit("--command", "sh -c 'tr a-z A-Z < $0' {input}", "--out", "out")
    assert (code, job["state"], job["counts"]["done"], job["fetched"]) == (0, "done", 3, 3), err
    assert {path.name: path.read_text() for path in (pair.folder / "out").iterdir()} == dict.fromkeys(
        "abc", "TEXT"
    )
    assert [each["name"] for each in job["workers"]] == ["pi"]
    assert list((pair.folder / "state/fairlead/submissions").glob(f"{job['job']}*")) == []


def test_who_works_is_explained(pair: DeviceSession) -> None:
    pair.write(*"abcd")
    code, out, err = pair.run(
        *(
            "augment",
            "submit",
            "--inputs",
            "in",
            "--command",
            "sh -c 'sleep 0.3; cat $0' {input}",
            "--explain",
        )
    )
    assert code == 0, err
    assert "compute: device, results: server (nothing else is possible)" in out
    assert "the server cannot compute: it has no worker" in out


def test_failed_inputs_are_reported_and_run_again_alone(pair: DeviceSession) -> None:
    pair.write("a", "b")
    pair.write("c", text="bad")
    code, job, err = pair.submit("--function", "app.py:run", "--out", "out")
    assert code == 1
    assert "fairlead: c: ValueError: a bad input (exit 1)" in err
    assert f"`fairlead augment resume {job['job']}`" in err
    code, out, _ = pair.run("augment", "logs", job["job"])
    assert code == 1
    assert "ValueError: a bad input" in out
    (pair.folder / "app.py").write_text("broken")  # the job has its own copy
    code, out, err = pair.run("augment", "resume", job["job"])
    assert code == 1
    assert out.startswith(f"job {job['job']}: 1 failed input again\n"), err
    assert sorted(path.name for path in (pair.folder / "out").iterdir()) == ["a", "b"]
    found = json.loads(pair.run("augment", "jobs", job["job"], "-o", "json")[1])
    assert (found["counts"]["done"], found["counts"]["failed"]) == (2, 1)


def test_a_list_names_the_inputs_and_unusable_ones_are_reported(
    pair: DeviceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.write("a", "b")
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\ngone\n"))
    code, job, err = pair.submit("--command", "cat {input}", "--base", "in", inputs="-")
    assert (code, job["counts"]["done"]) == (1, 1)
    assert job["unusable"] == [{"path": "gone", "reason": "No such file or directory"}]
    (pair.folder / "list").write_text("b\n")
    code, job, err = pair.submit("--command", "cat {input}", "--base", "in", inputs="list")
    assert (code, job["counts"]["done"]) == (0, 1), err


def test_inputs_that_appear_are_taken_until_a_signal(pair: DeviceSession) -> None:
    pair.write("a")
    words = ("augment", "submit", "--inputs", "in", "--follow", "--command", "cat {input}", "--out", "out")
    with pair.started(*words) as process:
        until((pair.folder / "out/a").exists)
        pair.write("b")
        until((pair.folder / "out/b").exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "2 inputs, 2 results" in out


def test_a_job_and_a_worker_run_once(pair: DeviceSession) -> None:
    words = ("augment", "submit", "--inputs", "in", "--follow", "--command", "cat {input}")
    with pair.started("device", "work") as worker, pair.started(*words) as process:
        (job,) = until(lambda: json.loads(pair.run("augment", "jobs", "-o", "json")[1]))
        until((pair.folder / f"state/fairlead/submissions/{job['job']}.json.lock").exists)
        code, _, err = pair.run("augment", "resume", job["job"])
        assert (code, f"job {job['job']} runs here already" in err) == (2, True), err
        until((pair.folder / "state/fairlead/devices/pi/jobs/.lock").exists)
        code, _, err = pair.run("device", "work")
        assert (code, "a worker pi runs here already" in err) == (2, True), err
        for each in (worker, process):
            each.send_signal(signal.SIGTERM)
            each.communicate(timeout=60)
        assert (worker.returncode, process.returncode) == (0, 0)


def test_an_interrupted_job_goes_on(pair: DeviceSession) -> None:
    pair.write("a", "b", "c")
    gate = pair.folder / "gate"
    program = f"sh -c 'mkdir {gate}.1 || while [ ! -e {gate} ]; do sleep 0.02; done; cat $0' {{input}}"
    words = ("augment", "submit", "--inputs", "in", "--command", program, "--out", "out")
    with pair.started(*words) as process:
        until(lambda: list((pair.folder / "out").glob("?")))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    job = out.split()[1]
    assert f"fairlead: job {job} goes on without this machine" in err
    gate.touch()
    code, out, err = pair.run("augment", "resume", job)
    assert code == 0, err
    assert "3 inputs, 3 results" in out
    assert sorted(path.name for path in (pair.folder / "out").iterdir()) == ["a", "b", "c"]


def test_an_application_beside_the_store_works_on_the_volume(pair: DeviceSession) -> None:
    pair.write(*(f"{number}" for number in range(30)))
    (pair.folder / "session").mkdir()
    (pair.folder / "session/token").write_text(f"{TOKEN}\n")
    environ = {
        "FAIRLEAD_STORE": pair.shop.store.url,
        "FAIRLEAD_SESSION": str(pair.folder / "session"),
        "FAIRLEAD_DATA": str(pair.shop.store.root),
    }
    with pair.started("augment", "work", "--name", "pod", **environ) as worker:
        program = "sh -c 'sleep 0.05; cat $0' {input}"
        code, job, err = pair.submit("--command", program, "--policy", "split")
        assert code == 0, err
        done = {each["name"]: each["done"] for each in job["workers"]}
        assert done["pi"] + done["pod"] == 30
        assert done["pod"] > 0
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert out.endswith("stopped\n")


def test_another_device_of_the_session_works_until_it_is_idle(pair: DeviceSession) -> None:
    pair.write(*"abcd")
    words = ("augment", "submit", "--inputs", "in", "--command", "cat {input}", "--on", "pod", "--out", "out")
    with pair.started(*words) as process:
        until(lambda: json.loads(pair.run("augment", "jobs", "-o", "json")[1]))
        code, out, _ = pair.run("device", "work", "--until-idle")
        assert (code, out) == (0, "device pi works on the jobs of shop\nstopped\n"), (
            "the job is of pods alone"
        )
        job = json.loads(pair.run("augment", "jobs", "-o", "json")[1])[0]["job"]
        assert pair.run("augment", "cancel", job)[0] == 0
        process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cancelled" in pair.run("augment", "jobs", "--no-headers")[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--inputs", "gone", "--command", "cat {input}"), "gone: there is no such file or folder"),
        (("--inputs", "in", "--command", "cat"), "does not say where its input goes"),
        (
            ("--inputs", "in", "--command", "cat {input}", "--out", "in"),
            "the results would replace the inputs",
        ),
        (
            ("--inputs", "in", "--command", "cat {input}", "--out", "in/new"),
            "the results would become inputs",
        ),
        (("--inputs", "-", "--command", "cat {input}", "--out", "."), "the results would replace the inputs"),
        (
            ("--inputs", "in", "--command", "no-such-program {input}", "--on", "device"),
            "there is no such program",
        ),
        (
            ("--inputs", "in", "--function", "app.py:none", "--on", "device"),
            "has no function or class 'none'",
        ),
        (("--inputs", "in", "--model", "gone.onnx"), "gone.onnx: it cannot be taken along: no such file"),
        (("--inputs", "in", "--command", "cat {input}", "--option", "a=1"), "--option is of a model"),
        (("--inputs", "in", "--command", "cat {input}", "--on", "cloud"), "cloud is no site"),
        (("--inputs", "in", "--command", "cat {input}", "--slots", "0"), "that is nothing"),
        (
            ("--inputs", "in", "--command", "cat {input}", "--checkpoint-save", "kill {pid}"),
            "needs both commands",
        ),
        (("--inputs", "in", "--command", "cat {input}", "--local"), "--local needs the name"),
        (
            ("--inputs", "in", "--command", "cat {input}", "--session", "a", "--device", "b"),
            "leave one of them out",
        ),
    ],
)
def test_what_must_be_changed_is_said(pair: DeviceSession, words: tuple[str, ...], why: str) -> None:
    pair.write("a")
    code, _, err = pair.run("augment", "submit", *words)
    assert code == 2, err
    assert why in err


def test_without_a_device_a_session_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["augment", "jobs"]) == 2
    assert "no device is joined here, and no session is named" in capsys.readouterr().err
    assert main(["augment", "work"]) == 2
    assert "FAIRLEAD_STORE and FAIRLEAD_SESSION are not both set" in capsys.readouterr().err


def test_a_store_that_is_away_is_an_error_at_the_start(pair: DeviceSession) -> None:
    place = DevicePlace.of(os.environ, "pi")
    place.write_membership(Membership("pi", "http://127.0.0.1:1", "", TOKEN))
    code, _, err = pair.run("augment", "submit", "--inputs", "in", "--command", "cat {input}")
    assert code == 3
    assert "the store cannot be reached" in err
