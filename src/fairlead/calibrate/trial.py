"""Run models in child processes, round after round, and merge their outcomes."""

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
_OUT_OF_MEMORY: Final = "the kernel killed it, most likely because memory ran out"


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
        return TrialOutcome(reason="the child process printed no outcome")


def child_environment(job: TrialJob, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: the same program, and only the job's GPU."""
    source = os.path.dirname(os.path.dirname(fairlead.__file__))
    path = os.pathsep.join(place for place in (source, inherited.get("PYTHONPATH", "")) if place)
    gpu = {"CUDA_VISIBLE_DEVICES": job.gpu} if job.gpu else {}
    return {**inherited, "PYTHONPATH": path, **gpu}


def describe_exit(code: int, stderr: str) -> str:
    """Describe how a process without an outcome ended."""
    if code == -signal.SIGKILL:
        return _OUT_OF_MEMORY
    last = stderr.strip().splitlines()[-1:] or ["no message on stderr"]
    cause = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"{cause}: {last[0][:200]}"


def merge_outcomes(model: str, features: Features, outcomes: Sequence[TrialOutcome]) -> Trial:
    """Merge the rounds of one model into a trial."""
    reason = next((outcome.reason for outcome in outcomes if outcome.reason), "")
    if reason or not outcomes:
        return Trial(model, features, None, reason or "not run")
    timing = summarise([outcome.samples for outcome in outcomes])
    bases = [outcome.base for outcome in outcomes if outcome.base is not None]
    watts = [outcome.watts for outcome in outcomes if outcome.watts is not None]
    loads = [outcome.load for outcome in outcomes if outcome.load is not None]
    measured = MeasuredRun(
        seconds=timing.seconds,
        p90=timing.p90,
        runs=timing.runs,
        wall=timing.wall,
        waited=timing.waited,
        peak_bytes=Bytes(max(outcome.peak or 0 for outcome in outcomes)),
        base_bytes=Bytes(min(bases)) if bases else None,
        watts=Watts(sum(watts) / len(watts)) if watts else None,
        noise=timing.noise,
        load=sum(loads) / len(loads) if loads else None,
    )
    return Trial(model, features, measured)
