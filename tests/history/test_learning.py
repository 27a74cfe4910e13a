"""What one run teaches: a table of runs, and what is known after each."""

from dataclasses import replace

import pytest

from fairlead.errors import NewerFormatError
from fairlead.history.learned import LEARNED, MOST_RUNS, LearnedCommand
from fairlead.history.learning import learn_run
from fairlead.history.outcome import JobOutcome
from fairlead.job import LocalJob, LocalState
from fairlead.units import Seconds
from tests.local.jobs import GIB, WHOLE, asked, ended, shared, used

KEY, NAME = "argv-1", "train.py"
RAMP = (1.0, 3.0, 6.0, 6.9, 6.9, 6.9)
FAILED = LocalState.FAILED


def learn(*runs: tuple[JobOutcome, LocalJob]) -> LearnedCommand:
    known = None
    for at, (outcome, job) in enumerate(runs):
        known = learn_run(known, KEY, NAME, outcome, job, 1000.0 + at)
    assert known is not None
    return known


def test_a_run_teaches_peak_ramp_cores_and_duration() -> None:
    known = learn((used(RAMP, ram=(0.5, 2.0, 2.0, 2.0)), ended(shares=WHOLE)))
    assert known.gpu is not None
    assert known.memory is not None
    assert (known.gpu.full, known.gpu.runs, known.gpu.ramp) == (round(6.9 * GIB), 1, 8.0)
    assert (known.memory.full, known.memory.runs) == (2 * GIB, 1)
    assert (known.cpu, known.seconds, known.total) == (1500, 12.0, 1)
    assert (known.accelerator_runs, known.idle_runs) == (1, 0)
    (run,) = known.runs
    assert (run.gpus, run.whole, run.gpu_requested, run.gpu_memory) == (1, True, None, round(6.9 * GIB))
    stated = learn((used(RAMP), ended(requested=asked(gpus=1), shares=WHOLE)))
    assert stated.runs[0].gpu_requested == 16 * GIB, "a whole accelerator was stated"


def test_a_run_too_short_for_four_samples_counts_whole() -> None:
    known = learn((used((), ram=(0.25,)), ended()))
    assert known.memory is not None
    assert (known.memory.runs, known.memory.full) == (1, GIB // 4)
    assert known.gpu is None


def test_a_run_that_failed_early_teaches_no_size_but_raises_a_known_peak() -> None:
    early = (used((0.5,)), ended(state=FAILED, shares=WHOLE))
    first = learn(early)
    assert first.gpu is not None
    assert first.gpu.runs == 0, "half a GiB is no size of this command"
    assert first.seconds is None
    assert first.idle_runs == 0
    known = learn((used(RAMP), ended(shares=WHOLE)), (used((8.0,)), ended(2, FAILED, shares=WHOLE)))
    assert known.gpu is not None
    assert (known.gpu.runs, known.gpu.full) == (1, 8 * GIB)
    assert known.seconds == 12.0, "only whole runs have a duration"


def test_a_run_that_was_stopped_after_it_settled_counts() -> None:
    known = learn((used(RAMP, settled=True), ended(state=LocalState.CANCELLED, shares=WHOLE)))
    assert known.gpu is not None
    assert known.gpu.runs == 1


def test_runs_under_a_limit_teach_the_least_memory() -> None:
    job = ended(requested=asked(2, 8), shares=shared(2))
    known = learn((used(RAMP), job), (used((1.0, 4.0, 4.0, 4.0)), job))
    assert known.gpu is not None
    assert known.gpu.least == 4 * GIB
    beyond = learn((used((9.0,) * 4), job))
    assert beyond.gpu is not None
    assert beyond.gpu.least is None, "nothing held it to the limit"


@pytest.mark.parametrize(
    ("outcome", "job", "full", "refused"),
    [
        (used((3.0, 3.9)), ended(state=FAILED, requested=asked(4), shares=shared(4)), 5.0, 4.0),
        (used((1.0, 7.9)), ended(state=FAILED, requested=asked(4, 8), shares=shared(4)), 10.0, 8.0),
        (used((2.0, 1.95)), ended(state=FAILED, shares=shared(2)), 2.5, 2.0),
        (used((1.0, 2.0)), ended(state=FAILED, requested=asked(4), shares=shared(4)), 2.0, 0.0),
        (used((3.9, 3.9)), ended(requested=asked(4), shares=shared(4)), 3.9, 0.0),
        (used((15.9, 15.9)), ended(state=FAILED, shares=WHOLE), 15.9, 0.0),
    ],
    ids=["request", "limit", "predicted", "far below", "done", "whole"],
)
def test_a_run_that_failed_at_its_limit_needs_more(
    outcome: JobOutcome, job: LocalJob, full: float, refused: float
) -> None:
    known = learn((outcome, job))
    assert known.gpu is not None
    assert known.gpu.full == pytest.approx(full * GIB, abs=1)
    assert known.gpu.refused == refused * GIB
    assert known.runs[0].short is (refused > 0)


def test_a_killed_run_widens_its_ram_but_a_timeout_does_not() -> None:
    killed = ended(state=FAILED, exit_code=137)
    known = learn((used(), killed))
    assert known.memory is not None
    assert (known.memory.surprises, known.memory.margin) == (1, 0.25)
    timed_out = learn((used(), replace(killed, timeout=Seconds(8.0))))
    assert timed_out.memory is not None
    assert timed_out.memory.surprises == 0


def test_runs_at_the_same_time_and_a_clock_set_back_all_count() -> None:
    known = None
    for now in (1000.0, 1000.0, 10.0, 1001.0):
        known = learn_run(known, KEY, NAME, used(RAMP), ended(shares=WHOLE), now)
    assert known is not None
    assert known.gpu is not None
    assert (known.gpu.runs, known.gpu.samples, known.total) == (4, 24, 4)


def test_runs_are_bounded() -> None:
    known = learn(*[(used(seconds=Seconds(float(at))), ended()) for at in range(1, MOST_RUNS + 9)])
    assert len(known.runs) == MOST_RUNS
    assert (known.runs[0].seconds, known.total) == (9.0, MOST_RUNS + 8)
    assert (known.seconds, known.seconds_p90) == (25.0, 37.0), "of 9 to 40 s"


def test_what_was_learned_outlives_the_process_as_a_text() -> None:
    known = learn((used(RAMP, joules=3.5, busy=0.5), ended(shares=WHOLE)))
    assert LEARNED.decode(LEARNED.encode(known)) == known
    with pytest.raises(NewerFormatError):
        LEARNED.decode(LEARNED.encode(known).replace('"version":1', '"version":2', 1))
    for bad in ('"seconds":-1', '"seconds":NaN', '"seconds":"long"', '"other":1'):
        with pytest.raises(ValueError, match="no learned-command"):
            LEARNED.decode(LEARNED.encode(known).replace('"seconds":12.0', bad))
