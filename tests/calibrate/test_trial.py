"""Models in child processes: however a process ends, its model has a row."""

import json
import sys
from collections.abc import Sequence

import pytest

from fairlead.calibrate import trial as trials
from fairlead.calibrate.job import TrialJob, TrialOutcome
from fairlead.calibrate.timing import RunSample
from fairlead.calibration import Features
from fairlead.units import Bytes, Watts

JOB = TrialJob("thread", "/nowhere.onnx", "onnxruntime-cpu")
NOTHING = Features("digest", 1, 1, Bytes(0))
OUTCOME = TrialOutcome((RunSample(0.5, 0.1, 0.3),), "1.2", Bytes(100), Bytes(10), Watts(7.0))


def child(source: str) -> Sequence[str]:
    """Return a command that replaces the child."""
    return (sys.executable, "-c", source)


def test_the_outcome_is_the_last_line() -> None:
    done = trials.run_job(JOB, child(f"print('a message of a library'); print({OUTCOME.to_text()!r})"))
    assert done == OUTCOME


def test_the_child_reads_the_job() -> None:
    echo = (
        "import sys, json; job = json.loads(sys.stdin.readline());"
        "print(json.dumps({'samples': [], 'reason': job['model']}))"
    )
    assert trials.run_job(JOB, child(echo)).reason == "thread"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "memory ran out"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV: no message on stderr"),
        ("import sys; sys.exit('no CUDA here')", "ended with 1: no CUDA here"),
        ("print('hello')", "printed no outcome"),
        ("pass", "printed no outcome"),
        ("print('[1, 2]')", "printed no outcome"),
        ('print(\'{"samples": [{"odd": 1}]}\')', "printed no outcome"),
    ],
)
def test_an_exit_without_an_outcome_is_a_reason(source: str, reason: str) -> None:
    assert reason in trials.run_job(JOB, child(source)).reason


def test_the_real_child_reports_an_exception_of_the_runtime() -> None:
    outcome = trials.run_job(JOB)
    assert outcome.reason.startswith(("MissingPartError", "NoSuchFile", "Fail"))
    assert "\n" not in outcome.reason


def test_only_the_gpu_of_the_job_is_visible() -> None:
    job = TrialJob("thread", "", "onnxruntime-cuda", gpu="GPU-1234")
    inherited = {"CUDA_VISIBLE_DEVICES": "7", "HOME": "/home/x"}
    assert trials.child_environment(job, inherited)["CUDA_VISIBLE_DEVICES"] == "GPU-1234"
    assert trials.child_environment(JOB, inherited)["CUDA_VISIBLE_DEVICES"] == "7"
    assert trials.child_environment(JOB, inherited)["HOME"] == "/home/x"


def test_rounds_of_one_model_become_one_row() -> None:
    slow = TrialOutcome((RunSample(0.9),), "1.2", Bytes(120), Bytes(12), Watts(9.0))
    measured = trials.merge_outcomes("thread", NOTHING, [OUTCOME, slow]).measured
    assert measured is not None
    assert (measured.seconds, measured.wall, measured.runs) == (0.4, 0.5, 2)
    assert (measured.peak_bytes, measured.base_bytes, measured.watts) == (120, 10, 8.0)


def test_a_model_that_failed_once_has_a_reason_and_no_figures() -> None:
    trial = trials.merge_outcomes("thread", NOTHING, [OUTCOME, TrialOutcome(reason="it crashed")])
    assert (trial.measured, trial.reason) == (None, "it crashed")
    assert trials.merge_outcomes("thread", NOTHING, []).reason == "not run"


def test_jobs_and_outcomes_are_single_lines() -> None:
    assert TrialJob.of(JOB.to_text()) == JOB
    assert TrialOutcome.of(OUTCOME.to_text()) == OUTCOME
    assert "\n" not in OUTCOME.to_text()
    assert json.loads(JOB.to_text())["runtime"] == "onnxruntime-cpu"
