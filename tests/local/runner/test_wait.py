"""When waiting processes decide, what one job alone gets, and when its record is rewritten."""

import os
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fairlead.job import Assumed, JobUse, LocalJob, LocalState
from fairlead.local.queue import plan_queue
from fairlead.local.runner.alone import start_alone
from fairlead.local.runner.command import find_command
from fairlead.local.runner.overdue import PATIENCE, OverdueStarts
from fairlead.local.runner.pacing import (
    MOST_DELAY,
    MOST_RECHECK,
    PROMPT,
    QueueChanges,
    decision_delay,
    recheck_after,
    wait_for_turn,
)
from fairlead.local.runner.use_recorder import differs
from fairlead.units import Bytes
from tests.local.runner.jobs import GIB, queued, view

MIB = 1 << 20


@given(
    cpu=st.integers(1, 9000),
    memory=st.integers(0, 9 * GIB),
    available=st.integers(0, 8 * GIB),
    firm=st.booleans(),
    other=st.sampled_from([None, *LocalState]),
    used=st.sampled_from([None, 0, 4000]),
)
def test_a_job_starts_alone_only_where_the_engine_starts_it(
    cpu: int, memory: int, available: int, firm: bool, other: LocalState | None, used: int | None
) -> None:
    job = queued(assumed=Assumed(cpu, Bytes(memory), firm_cpu=firm, firm_memory=firm))
    jobs = [job] if other is None else [job, queued(2, state=other)]
    seen = view(memory_available=Bytes(available), cpu_used=used)
    start = start_alone(seen, jobs, job)
    assert start is None or plan_queue(seen, jobs).starts == {job.id: start}
    if other is None and memory <= available and (not firm or cpu <= 4000):
        assert start is not None


def test_a_job_for_an_accelerator_is_the_engines() -> None:
    job = queued(assumed=Assumed(gpus=1))
    assert start_alone(view(), [job], job) is None
    assert start_alone(view(), [after := queued(after=("7",))], after) is None


@given(st.integers(1, 5000))
def test_the_head_of_the_queue_decides_first(position: int) -> None:
    assert decision_delay(position) <= decision_delay(position + 1) <= MOST_DELAY
    assert recheck_after(position) <= recheck_after(position + 1) <= MOST_RECHECK
    assert (decision_delay(position) == 0) == (position <= PROMPT)


class Watch:
    """A watch that notes how long it was asked to wait."""

    def __init__(self, changed: bool) -> None:
        self.changed = changed
        self.waits: list[float] = []

    def wait(self, timeout: float, fds: Sequence[int] = ()) -> bool:
        """Return at once."""
        self.waits.append(timeout)
        return self.changed


def test_a_process_far_behind_takes_all_events_of_its_pause_together() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a signal")  # ends the pause
    watches = [Watch(changed=True), Watch(changed=True), Watch(changed=False)]
    wait_for_turn(watches[0], 1, (reader,))
    wait_for_turn(watches[1], 50, (reader,))
    wait_for_turn(watches[2], 50, (reader,))
    assert [watch.waits for watch in watches] == [
        [recheck_after(1)],
        [recheck_after(50), 0.0],
        [recheck_after(50)],
    ]
    os.close(reader)
    os.close(writer)


def test_a_record_is_rewritten_for_changes_that_matter() -> None:
    use = JobUse(1.0, 2000, Bytes(400 * MIB), {"gpu-0": Bytes(1000 * MIB)})
    same = [
        replace(use, at=9.0, cpu=3000, gpu_busy={"gpu-0": 1.0}),
        replace(use, memory=Bytes(440 * MIB)),
        replace(use, gpu_memory={"gpu-0": Bytes(1100 * MIB)}),
    ]
    other = [
        replace(use, cpu=3001),
        replace(use, cpu=999),
        replace(use, memory=Bytes(441 * MIB)),
        replace(use, gpu_memory={"gpu-0": Bytes(1101 * MIB)}),
        replace(use, gpu_memory={}),
        replace(use, settled=True),
    ]
    assert differs(None, use)
    assert [differs(use, each) for each in (*same, *other)] == [False] * 3 + [True] * 6
    small = replace(use, cpu=10, memory=Bytes(MIB))
    assert not differs(small, replace(small, cpu=260, memory=Bytes(17 * MIB)))
    assert differs(small, replace(small, cpu=261))


def test_a_command_is_found_as_a_shell_finds_it(tmp_path: os.PathLike[str]) -> None:
    folder = os.fspath(tmp_path)
    for name in ("first", "second"):
        os.mkdir(os.path.join(folder, name))
    program = os.path.join(folder, "second", "tool")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
    os.chmod(program, 0o755)
    path = {"PATH": f"{folder}/first:{folder}/second"}
    assert find_command(["tool"], path) == program
    assert find_command(["./second/tool"], {}, folder) == f"{folder}/./second/tool"
    assert find_command(["tool"], {"PATH": "second"}, folder) == program


def test_a_job_that_is_planned_to_start_and_does_not_is_left_out_after_a_while() -> None:
    stopped, own, late = queued(1), queued(2), queued(3)
    overdue, jobs = OverdueStarts(), [stopped, own, late]
    overdue.note(["1", "2"], jobs, now=100.0)
    overdue.note(["1"], jobs, now=101.0)
    assert overdue.without(jobs, "2", 99.9 + PATIENCE) == jobs
    assert overdue.without(jobs, "2", 100.0 + PATIENCE) == [own, late]
    assert overdue.without(jobs, "1", 100.0 + PATIENCE) == jobs  # it decides for itself
    overdue.note(["3"], [own, late], now=200.0)
    assert overdue.without(jobs, "2", 200.0) == [own, late]
    running = replace(stopped, state=LocalState.RUNNING)
    assert overdue.without([running, own], "2", 201.0) == [running, own]
    assert overdue.without(jobs, "2", 202.0) == jobs  # queued again: it gets its time again


def test_a_process_decides_again_only_if_there_may_be_room_for_it() -> None:
    def jobs(running: str, waiting: str) -> list[LocalJob]:
        return [queued(int(n), state=LocalState.RUNNING) for n in running] + [queued(int(n)) for n in waiting]

    changes, last = QueueChanges(), queued(9)

    def decides(running: str, waiting: str, job: LocalJob = last, position: int = 7) -> bool:
        changes.decided(jobs("12", "3456789"), position)
        return changes.may_have_left_room(jobs(running, waiting), job)

    assert not decides("12", "3456789")
    assert not decides("123", "456789", position=1)  # a start leaves no room
    assert decides("1", "3456789")  # one has ended, and none has started
    assert not decides("13", "456789")  # one has started in its place
    assert decides("13", "456789", position=PROMPT)
    assert decides("34", "56789", position=PROMPT + 2)  # two places further
    assert decides("13", "456789", queued(9, after=("2",)))
    assert not decides("12", "356789")  # the fourth was cancelled
    assert decides("12", "356789", position=PROMPT + 1)
    assert changes.position(jobs("12", "356789")) == PROMPT
