"""Without a number of jobs at once, a queue for cores ends about as early as with the best one."""

from statistics import mean

import pytest

from fairlead.job import LocalJob
from fairlead.local.queue import plan_queue
from tests.local.queue.cores import FIXED, by_plan, fixed, mix, play
from tests.local.queue.worlds import job, machine, running, uses

SEEDS = range(3)


@pytest.mark.parametrize(("cores", "kind"), [(2, "mixed"), (2, "computing"), (2, "sleeping"), (4, "mixed")])
def test_a_queue_ends_within_three_percent_of_the_best_fixed_number(cores: int, kind: str) -> None:
    makespans, responses = [], []
    for seed in SEEDS:
        queue = mix(seed, kind, cores)
        peers = [play(queue, cores, fixed(most)) for most in FIXED]
        ours = play(queue, cores, by_plan)
        makespans.append(ours.makespan / min(peer.makespan for peer in peers))
        responses.append(ours.response / min(peer.response for peer in peers))
    assert mean(makespans) <= 1.03, makespans
    assert mean(responses) <= {"mixed": 1.2, "computing": 1.2, "sleeping": 1.6}[kind], responses


def starts(*jobs: LocalJob, cores: int = 2, cpu_used: int | None = None) -> int:
    """Return how many of 60 jobs of which nothing is known start beside these."""
    queue = [job(100 + number) for number in range(60)]
    return len(plan_queue(machine(cores=cores, cpu_used=cpu_used), [*jobs, *queue]).starts)


def test_how_many_jobs_share_the_cores() -> None:
    assert starts() == 8  # four for each core
    assert starts(*(running(job(number), use=uses(cpu=250)) for number in range(8))) == 0
    assert starts(*(running(job(number), use=uses(cpu=1)) for number in range(8))) == 7  # they sleep
    assert starts(*(running(job(number), use=uses(cpu=1900)) for number in range(1))) == 6  # two threads
    assert starts(*(running(job(number), started=0.5, use=uses(cpu=0)) for number in range(8))) == 0  # young
    few = [job(number) for number in range(16)]
    assert len(plan_queue(machine(cores=2), few).starts) == 16  # the last ones start together


def test_idle_cores_do_not_wait() -> None:
    waiting = [running(job(number), use=uses(cpu=100)) for number in range(8)]
    assert starts(*waiting, cpu_used=2000) == 0
    assert starts(*waiting, cpu_used=800) == 1


def test_stated_cores_leave_less_to_the_others() -> None:
    assert starts(running(job(1, cpu=1000, firm_cpu=True))) == 4
    assert starts(running(job(1, cpu=2000, firm_cpu=True))) == 1


def test_what_is_learned_of_a_job_counts() -> None:
    light = [job(number, cpu=20) for number in range(60)]
    assert len(plan_queue(machine(cores=2), light).starts) == 60
    wide = [job(number, cpu=2000) for number in range(60)]
    assert len(plan_queue(machine(cores=2), wide).starts) == 4
