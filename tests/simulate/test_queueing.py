"""The simulator against queueing theory: jobs that take whole accelerators, one at a time on each."""

from math import factorial
from random import Random
from statistics import mean

import pytest

from fairlead.simulate.trace.job import Job
from tests.simulate.plays import fleet, job, node, play

JOBS = 2_500
NEAR = 0.25
"""Chance alone moves the mean of that many waits by a tenth; with 12,000 jobs all are within 12 %."""
RATE = 1.0
"""Jobs per second of one accelerator."""


def waits(arrivals: float, gpus: int, exponential: bool) -> float:
    """Return the mean wait of jobs with random arrivals, that many per second."""
    chance, at, jobs = Random(5), 0.0, list[Job]()
    for number in range(JOBS):
        at += chance.expovariate(arrivals)
        jobs.append(job(f"j{number}", at, chance.expovariate(RATE) if exponential else 1 / RATE, None))
    records = play(jobs, fleet(node(gpus=gpus)), queue="fifo").records
    return mean(record.placed - record.job.arrival for record in records if record.placed is not None)


def erlang(offered: float, servers: int) -> float:
    """Return the part of jobs that must wait, by Erlang's second formula."""
    busy = offered**servers / factorial(servers) * servers / (servers - offered)
    return busy / (sum(offered**number / factorial(number) for number in range(servers)) + busy)


@pytest.mark.parametrize(("arrivals", "gpus"), [(0.5, 1), (2.1, 3)])
def test_mean_waits_for_jobs_of_random_length(arrivals: float, gpus: int) -> None:
    expected = erlang(arrivals / RATE, gpus) / (gpus * RATE - arrivals)
    assert waits(arrivals, gpus, exponential=True) == pytest.approx(expected, rel=NEAR)


def test_mean_waits_for_jobs_of_equal_length() -> None:
    arrivals = 0.6
    busy = arrivals / RATE
    expected = busy / (2 * RATE * (1 - busy))
    assert waits(arrivals, 1, exponential=False) == pytest.approx(expected, rel=NEAR)
