"""Whatever the queue: no plan books more than there is, and every process computes the same plan."""

import random
import sys
from collections import Counter
from dataclasses import replace
from types import FrameType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.job import LocalJob, LocalState, Requested
from fairlead.local.queue import plan_queue
from fairlead.local.queue.limits import MOST_CHECKS
from fairlead.local.queue.plan import EXPLAINED, MOST_REFUSALS
from fairlead.local.queue.requests import JobReader
from fairlead.local.queue.state import machine_state
from fairlead.local.view import MachineView
from fairlead.need import Need, headroom
from fairlead.schedule.decision.decide import decide
from fairlead.schedule.explain.diagnose import diagnose
from fairlead.units import Seconds
from tests.local.queue.worlds import gib, gpu, gpu_job, job, machine, running, uses, whole_job

sizes = st.sampled_from((0.5, 1, 3, 6, 9, 15, 20))
fields = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from((50, 1000, 3000)),
        "memory": st.builds(gib, sizes),
        "firm_cpu": st.booleans(),
        "firm_memory": st.booleans(),
        "default_memory": st.booleans(),
        "seconds": st.sampled_from((None, 5.0, 500.0)),
        "gpus": st.integers(0, 2),
        "whole": st.booleans(),
    }
)
needs = st.builds(lambda size, firm: Need.fixed(gib(size), firm=firm), sizes, st.booleans())


@st.composite
def worlds(draw: st.DrawFn) -> tuple[MachineView, list[LocalJob]]:
    """Return a machine with jobs that run, wait and have ended."""
    unified, used = draw(st.booleans()), st.sampled_from((None, 0, 3, 9))
    faults = st.sampled_from(("", "", "", "XID 79"))
    view = machine(
        *(
            gpu(f"gpu-{at}", 16, draw(used), draw(faults), unified_memory=unified)
            for at in range(draw(st.integers(0, 3)))
        ),
        cores=draw(st.sampled_from((1, 4))),
        memory=32,
        available=draw(st.sampled_from((4, 20, 31))),
        cpu_used=draw(st.sampled_from((None, 0, 3900))),
    )  # fmt: skip
    return view, [draw(jobs(view, number)) for number in range(draw(st.integers(0, 12)))]


@st.composite
def jobs(draw: st.DrawFn, view: MachineView, number: int) -> LocalJob:
    """Return a job in any state."""
    assumed: dict[str, Any] = draw(fields)
    need = draw(st.none() | needs) if assumed["gpus"] else None
    made = job(
        number, user=draw(st.sampled_from((0, 1000, 1001))), priority=draw(st.sampled_from((-1, 0, 7))),
        waited=draw(st.sampled_from((0.0, 900.0))), after=draw(st.sampled_from(((), ("0",)))), need=need,
        **assumed,
    )  # fmt: skip
    state = draw(st.sampled_from((*LocalState, LocalState.QUEUED, LocalState.QUEUED)))
    if state is not LocalState.RUNNING:
        return replace(made, state=state)
    names = [device.accelerator.id for device in view.devices][: assumed["gpus"]]
    held = draw(st.sampled_from((0.1, 4.0)))
    use = draw(st.none() | st.just(uses(700, held, dict.fromkeys(names, held), gpu_peak=held, settled=True)))
    return running(made, *names, use=use)


@settings(max_examples=100, deadline=None)
@given(worlds(), st.randoms(use_true_random=False))
def test_no_plan_books_more_than_there_is(
    world: tuple[MachineView, list[LocalJob]], chance: random.Random
) -> None:
    view, known = world
    plan = plan_queue(view, known)
    queued = {each.id: each for each in known if each.state is LocalState.QUEUED}
    assert set(plan.starts) | set(plan.waits) == set(queued)
    assert not set(plan.starts) & set(plan.waits)
    state = machine_state(view, known)
    _check_node(view, queued, plan.starts, state.counts.values())
    _check_devices(view, plan.starts, state)
    positions = [wait.position for wait in plan.waits.values() if not wait.impossible]
    assert positions == list(range(1, len(positions) + 1))
    shuffled = chance.sample(known, len(known))
    again = plan_queue(view, shuffled)
    assert again == plan
    assert list(again.starts) == list(plan.starts)  # in the same order, too


def _check_node(view: MachineView, queued: dict[str, LocalJob], starts: Any, counts: Any) -> None:
    begun = [queued[name] for name in starts]
    firm = sum(each.assumed.cpu for each in begun if each.assumed.firm_cpu)
    if firm:
        assert firm + sum(count.firm_cpu for count in counts) <= view.cpu
    reader = JobReader(view)
    memory = sum(reader.read(each).memory for each in begun)
    unified = {device.accelerator.id for device in view.devices if device.accelerator.unified_memory}
    lent = [share for start in starts.values() for share in start.shares if not share.whole]
    memory += sum(share.memory for share in lent if share.device in unified)
    if memory:
        growth = sum(max(0, count.memory - count.held) for count in counts)
        assert memory <= view.memory_available - growth
        assert memory + sum(count.memory for count in counts) <= view.memory


def _check_devices(view: MachineView, starts: Any, state: Any) -> None:
    for device in view.devices:
        name, total = device.accelerator.id, device.accelerator.memory or 0
        new = [share for start in starts.values() for share in start.shares if share.device == name]
        old = [share for count in state.counts.values() for share in count.shares if share.device == name]
        if not new:
            continue
        assert not device.fault
        if any(share.whole for share in (*new, *old)):
            assert len(new) + len(old) == 1
            continue
        outside = state.outside.get(name, 0)
        booked = sum(share.memory for share in (*new, *old)) + outside
        soft = any(share.soft for share in (*new, *old))
        assert booked + (headroom(total - outside) if soft else 0) <= total
        if device.memory_used is not None and not device.accelerator.unified_memory:
            assert sum(share.memory for share in new) <= total - device.memory_used


def test_a_long_queue_costs_few_decisions() -> None:
    chance = random.Random(1)
    held = [running(gpu_job(number, 3 + number / 100), f"gpu-{number % 4}") for number in range(16)]
    queue = [
        gpu_job(100 + number, 1 + chance.random() * 12, waited=900.0, memory=gib(chance.random()))
        for number in range(1000)
    ]
    huge = [gpu_job(2000 + number, 17 + number) for number in range(200)]
    view = machine(*(gpu(f"gpu-{at}") for at in range(4)), cores=64, memory=512)
    calls = count_calls(view, [*held, *queue, *huge])
    starts = len(plan_queue(view, [*held, *queue, *huge]).starts)
    assert 0 < starts < 20
    assert calls["decide"] <= starts + MOST_REFUSALS + MOST_CHECKS + len(held) + starts
    assert calls["diagnose"] <= EXPLAINED + MOST_CHECKS


def test_ordinary_jobs_need_no_check_of_the_empty_machine() -> None:
    """On a Jetson and for models the plan of a queue that cannot start costs as little."""
    board = machine(gpu(memory=8, unified_memory=True), memory=8)
    held = running(whole_job(1), "gpu-0")
    assert not count_calls(board, [held, *(gpu_job(9 + at, 1 + at / 100) for at in range(100))])["decide"]
    model: Any = {"gpus": 1, "need": Need.fixed(gib(1)), "devices": {"gpu-0": 0.010}}
    stated = Requested(slo=Seconds(0.020))
    models = [job(9 + number, requested=stated, **model) for number in range(100)]
    assert not count_calls(machine(gpu()), [held, *models])["decide"]


def count_calls(view: MachineView, known: list[LocalJob]) -> Counter[str]:
    """Return how often one plan calls the engine."""
    names = {decide.__code__: "decide", diagnose.__code__: "diagnose"}
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in names:
            calls[names[frame.f_code]] += 1

    sys.setprofile(count)
    try:
        plan_queue(view, known)
    finally:
        sys.setprofile(None)
    return calls


def test_a_machine_without_accelerators() -> None:
    plan = plan_queue(
        machine(cores=2, cpu_used=0), [job(1), whole_job(2), job(3, requested=Requested(cpus=1))]
    )
    assert set(plan.starts) == {"1", "3"}
    assert plan.waits["2"].impossible
