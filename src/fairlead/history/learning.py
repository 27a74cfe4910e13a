"""What one run teaches about its command: sizes by the rules of footprints, and the run itself; pure."""

from dataclasses import dataclass, replace
from typing import Final

from fairlead.history.learned import MOST_RUNS, LearnedCommand, LearnedRun
from fairlead.history.outcome import JobOutcome
from fairlead.job import LocalJob, LocalState
from fairlead.series import Series
from fairlead.sizing.footprint import FEWEST_SAMPLES, Footprint, FootprintBook
from fairlead.units import Bytes

AT_LIMIT: Final = 0.95
"""A run that failed while it held this part of its limit has failed by lack of memory."""
KILLED: Final = 128 + 9
"""The exit code after SIGKILL, by which the kernel ends the process that takes the last of the RAM."""
_RUN: Final = "run"


@dataclass(frozen=True, slots=True)
class _Limits:
    """The limits that a run was under, and whether it failed for them."""

    gpu: Bytes | None
    memory: Bytes | None
    gpu_short: bool
    memory_short: bool


def learn_run(
    known: LearnedCommand | None, key: str, name: str, outcome: JobOutcome, job: LocalJob, now: float
) -> LearnedCommand:
    """Return what is known of a command after one more run; `now` is in seconds since the epoch.

    A run that failed or was stopped before it had settled does not show what the command needs: it raises
    a known peak, and counts for nothing else.
    """
    before = known or LearnedCommand(key, name)
    limits = _limits(job, outcome)
    done = job.state is LocalState.DONE
    whole = done or outcome.settled
    run = _learned_run(outcome, job, limits, now)
    return replace(
        before,
        name=name or before.name,
        updated=max(before.updated, now),
        gpu=_footprint(before.gpu, key, outcome.gpu_memory, limits.gpu, limits.gpu_short, whole, done, now),
        memory=_footprint(before.memory, key, outcome.memory, None, limits.memory_short, whole, done, now),
        total=before.total + 1,
        runs=(*before.runs, run)[-MOST_RUNS:],
    )


def _limits(job: LocalJob, outcome: JobOutcome) -> _Limits:
    """Return the limits of a run. Its share counts as one only where the run failed at it."""
    stated = job.requested.gpu_limit
    failed = job.state is LocalState.FAILED
    peak = outcome.peak_gpu_memory
    shares = [share.memory for share in job.shares if share.memory and not share.whole]
    bound = stated or job.requested.gpu_memory or max(shares, default=None)
    gpu_short = failed and bound is not None and peak >= AT_LIMIT * bound
    timed_out = job.timeout is not None and outcome.seconds >= job.timeout
    memory_short = failed and job.exit_code == KILLED and not timed_out and not gpu_short
    if gpu_short:
        stated = bound
    elif stated is not None and peak > stated:
        stated = None  # nothing held it to the limit
    return _Limits(stated, job.requested.memory, gpu_short, memory_short)


def _footprint(  # noqa: PLR0913, PLR0917 - all of one run
    known: Footprint | None,
    key: str,
    series: Series,
    limit: Bytes | None,
    short: bool,
    whole: bool,
    done: bool,
    now: float,
) -> Footprint | None:
    if not series and not short:
        return known
    book = FootprintBook((known,) if known else ())
    # The book counts samples once, by their time: two runs at the same time would hide each other, and a
    # clock that was set back would hide the next one. So this run follows the last one.
    started = known.updated if known else now
    shown = _with_fewest(series) if whole and series else series
    counted = Series([started + time for time in shown.times], shown.values, shown.source)
    end = counted.times[-1] if counted else started
    book.observe(key, _RUN, counted, started, limit, end)
    if whole or short:
        book.ended(_RUN, short, end, stopped=not done)
    learned = book.get(key)
    return None if learned is None else replace(learned, updated=now)


def _with_fewest(series: Series) -> Series:
    """Return a series of a whole run, however short: its peak stands for samples that it had no time for."""
    missing = FEWEST_SAMPLES - len(series)
    if missing <= 0:
        return series
    last, peak = series.times[-1], max(series.values)
    return Series(
        [*series.times, *(last + 1e-3 * (i + 1) for i in range(missing))],
        [*series.values, *(peak for _ in range(missing))],
        series.source,
    )


def _learned_run(outcome: JobOutcome, job: LocalJob, limits: _Limits, now: float) -> LearnedRun:
    requested = job.requested
    whole = any(share.whole for share in job.shares)
    cpus = requested.cpus
    return LearnedRun(
        ended=now,
        seconds=outcome.seconds,
        done=job.state is LocalState.DONE,
        cpu_mean=outcome.cpu_mean,
        cpu_high=outcome.cpu_high,
        memory=outcome.peak_memory,
        gpu_memory=outcome.peak_gpu_memory,
        gpus=len(job.shares),
        busy=outcome.busy,
        joules=outcome.joules,
        used_accelerator=outcome.used_accelerator,
        short=limits.gpu_short or limits.memory_short,
        cpu_requested=None if cpus is None else round(1000 * cpus),
        memory_requested=requested.memory,
        gpu_requested=requested.gpu_memory or (outcome.device_memory if whole and requested.gpus else None),
        gpu_total=outcome.device_memory,
        whole=whole,
    )
