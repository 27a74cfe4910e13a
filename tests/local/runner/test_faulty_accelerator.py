"""A job in the foreground that needs an accelerator with a fault: it waits, and gives up after a while."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from fairlead.job import Assumed, LocalJob, Requested
from fairlead.ledger.spec import JobSpec
from fairlead.local.runner.signals import CallerState
from fairlead.local.runner.wait import FAULT_PATIENCE, QueueWait, WaitEnd
from fairlead.local.view import MachineView, WaitDecision
from tests.accelerators import accelerator
from tests.local.runner.jobs import FakeMachine, queued, view
from tests.local.runner.programs import World, forked

GPU = accelerator(mebibytes=1024)
FAULT = "driver mismatch"
REASON = f"no healthy accelerator is left for it ({GPU.id}: {FAULT})"


def seen(*, faulty: bool) -> MachineView:
    """Return a machine with one GPU."""
    plain = view(GPU, fault=FAULT if faulty else "")
    return replace(plain, devices=tuple(replace(each, recoverable=faulty) for each in plain.devices))


class Report:
    """Keeps why a job waits, and changes the ledger each time: the wait goes on at once."""

    def __init__(self, world: World) -> None:
        self.reasons: list[str] = []
        self._world = world

    def waits(self, job: LocalJob, decision: WaitDecision) -> None:
        """Keep the reason."""
        self.reasons.append(decision.reason)
        self._world.ledger.write(replace(job, reason=f"reading {len(self.reasons)}"))

    def line(self, text: str) -> None:
        """Say nothing."""


def wait_for(world: World, requested: Requested, is_faulty: Callable[[int], bool]) -> Mapping[str, Any]:
    """Wait with a clock that advances by half of the patience; return what the wait led to."""
    report, clock = Report(world), count(1.0, FAULT_PATIENCE / 2)
    machine = FakeMachine(lambda reading: seen(faulty=is_faulty(reading)))
    job = queued(requested=requested, assumed=Assumed(gpus=1, whole=True))
    wait = QueueWait(
        world.ledger, machine, CallerState(), JobSpec(("true",), "/"), report, lambda: next(clock)
    )

    def enqueue() -> LocalJob:
        return world.ledger.add(job, JobSpec(("true",), "/"))

    answer = wait.start(enqueue, seen(faulty=True))
    if isinstance(answer, WaitEnd):
        return {"code": answer.exit_code, "reason": answer.reason, "shown": sorted(set(report.reasons))}
    return {"device": answer.job.device, "shown": sorted(set(report.reasons))}


@pytest.mark.parametrize(
    ("requested", "more"),
    [(Requested(), "; --gpus 0 runs it without one"), (Requested(gpus=1), "")],
    ids=["nothing is asked for", "a GPU is asked for"],
)
def test_a_fault_that_lasts_ends_the_wait(world: World, requested: Requested, more: str) -> None:
    ended = forked(lambda: wait_for(world, requested, lambda reading: True))
    assert ended == {"code": 125, "reason": REASON + more, "shown": [REASON]}


def test_a_fault_that_passes_delays_the_start(world: World) -> None:
    started = forked(lambda: wait_for(world, Requested(gpus=1), lambda reading: reading == 1))
    assert started == {"device": GPU.id, "shown": [REASON]}
