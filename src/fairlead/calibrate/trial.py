"""Run models in child processes, round after round, and put what they say together."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import fairlead
from fairlead.calibrate.job import TrialJob, TrialOutcome
from fairlead.calibrate.timing import summarise
from fairlead.calibration import Features, MeasuredRun, Trial
from fairlead.units import Bytes, Watts

_CHILD: Final = (sys.executable, "-m", "fairlead.calibrate.child")
_LOADING: Final = 300.0
"""Seconds that loading a model and starting a runtime may take, beyond the runs themselves."""
_OUT_OF_MEMORY: Final = "the kernel ended it, most likely because memory ran out"


def run_rounds(jobs: Sequence[TrialJob], count: int) -> Iterator[tuple[TrialJob, TrialOutcome]]:
    """Run every job once, then every job again: a busy moment falls on one round, not on one model."""
    failed: set[str] = set()
    for _ in range(count):
        for job in jobs:
            if job.model in failed:
                continue
            outcome = run_job(job)
            if outcome.reason:
                failed.add(job.model)
            yield job, outcome


def run_job(job: TrialJob, command: Sequence[str] = _CHILD) -> TrialOutcome:
    """Run one job in a process of its own."""
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            command,
            input=job.to_text() + "\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=_LOADING + 10 * job.budget,
            env=child_environment(job, os.environ),
        )
    except subprocess.TimeoutExpired:
        return TrialOutcome(reason=f"not done after {_LOADING + 10 * job.budget:.0f} s")
    if done.returncode:
        return TrialOutcome(reason=describe_exit(done.returncode, done.stderr))
    try:
        return TrialOutcome.of(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return TrialOutcome(reason="the child process gave no answer")


def child_environment(job: TrialJob, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: the same program, and of all GPUs the one that is asked of."""
    ours = os.path.dirname(os.path.dirname(fairlead.__file__))
    places = os.pathsep.join(place for place in (ours, inherited.get("PYTHONPATH", "")) if place)
    chosen = {"CUDA_VISIBLE_DEVICES": job.gpu} if job.gpu else {}
    return {**inherited, "PYTHONPATH": places, **chosen}


def describe_exit(code: int, said: str) -> str:
    """Say how a process ended that gave no answer."""
    if code == -signal.SIGKILL:
        return _OUT_OF_MEMORY
    last = said.strip().splitlines()[-1:] or ["nothing was said"]
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"{how}: {last[0][:200]}"


def merge_outcomes(model: str, features: Features, outcomes: Sequence[TrialOutcome]) -> Trial:
    """Put the rounds of one model together."""
    reason = next((outcome.reason for outcome in outcomes if outcome.reason), "")
    if reason or not outcomes:
        return Trial(model, features, None, reason or "not run")
    found = summarise([outcome.samples for outcome in outcomes])
    bases = [outcome.base for outcome in outcomes if outcome.base is not None]
    watts = [outcome.watts for outcome in outcomes if outcome.watts is not None]
    measured = MeasuredRun(
        seconds=found.seconds,
        p90=found.p90,
        runs=found.runs,
        wall=found.wall,
        waited=found.waited,
        peak_bytes=Bytes(max(outcome.peak or 0 for outcome in outcomes)),
        base_bytes=Bytes(min(bases)) if bases else None,
        watts=Watts(sum(watts) / len(watts)) if watts else None,
    )
    return Trial(model, features, measured)
