"""What a record means, as a table: its state, its kind, its boot and its processes."""

import pytest

from fairlead.job import Assumed, JobKind, LocalState
from fairlead.ledger.judge import (
    ADOPTED_ENDED,
    LEFT_QUEUE,
    NEVER_STARTED,
    RESTARTED,
    RUNNER_KILLED,
    JobFacts,
    judge,
)
from fairlead.local.queue.counts import count_job
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.ledger.jobs import a_job
from tests.local.queue.worlds import gpu, machine

RUN, SUBMIT, ADOPTED = JobKind.RUN, JobKind.SUBMIT, JobKind.ADOPTED
QUEUED, RUNNING, DONE, FAILED = LocalState.QUEUED, LocalState.RUNNING, LocalState.DONE, LocalState.FAILED
BOTH, RUNNER, COMMAND, NEITHER = (True, True), (True, False), (False, True), (False, False)
HERE, EARLIER = "boot-2", "boot-1"
TABLE = [
    # kind, state, boot, processes, started -> state, reason
    (RUN, QUEUED, HERE, RUNNER, False, QUEUED, "as before"),
    (RUN, QUEUED, HERE, NEITHER, False, FAILED, LEFT_QUEUE),
    (RUN, QUEUED, EARLIER, NEITHER, False, FAILED, RESTARTED),
    (SUBMIT, QUEUED, HERE, NEITHER, False, QUEUED, "as before"),
    (SUBMIT, QUEUED, EARLIER, NEITHER, False, QUEUED, "as before"),
    (RUN, RUNNING, HERE, BOTH, True, RUNNING, "as before"),
    (RUN, RUNNING, HERE, COMMAND, True, RUNNING, "as before"),
    (RUN, RUNNING, HERE, RUNNER, True, RUNNING, "as before"),
    (RUN, RUNNING, HERE, NEITHER, True, FAILED, RUNNER_KILLED),
    (RUN, RUNNING, HERE, NEITHER, False, FAILED, NEVER_STARTED),
    (SUBMIT, RUNNING, HERE, NEITHER, True, FAILED, RUNNER_KILLED),
    (SUBMIT, RUNNING, HERE, NEITHER, False, FAILED, NEVER_STARTED),
    (SUBMIT, RUNNING, HERE, COMMAND, True, RUNNING, "as before"),
    (SUBMIT, RUNNING, EARLIER, NEITHER, True, FAILED, RESTARTED),
    (RUN, RUNNING, EARLIER, BOTH, True, FAILED, RESTARTED),
    (RUN, RUNNING, "boot-2/4026532000", COMMAND, True, FAILED, RESTARTED),
    (ADOPTED, RUNNING, HERE, COMMAND, True, RUNNING, "as before"),
    (ADOPTED, RUNNING, HERE, RUNNER, True, DONE, ADOPTED_ENDED),
    (ADOPTED, RUNNING, EARLIER, NEITHER, True, FAILED, RESTARTED),
    (RUN, DONE, EARLIER, NEITHER, True, DONE, "as before"),
    (RUN, LocalState.CANCELLED, HERE, NEITHER, False, LocalState.CANCELLED, "as before"),
]


@pytest.mark.parametrize(("kind", "state", "boot", "alive", "started", "means", "reason"), TABLE)
def test_a_record_is_judged_by_its_processes(
    kind: JobKind,
    state: LocalState,
    boot: str,
    alive: tuple[bool, bool],
    started: bool,
    means: LocalState,
    reason: str,
) -> None:
    job = a_job(kind=kind, state=state, boot=boot, reason="as before")
    judged = judge(job, JobFacts(HERE, alive[0], alive[1], started))
    assert (judged.state, judged.reason) == (means, reason)
    assert judged.id == job.id


@pytest.mark.parametrize(
    ("facts", "holds"),
    [
        (JobFacts(HERE, runner_alive=True, command_alive=True, runner_stopped=True), True),
        (JobFacts(HERE, runner_alive=True), True),
        (JobFacts(HERE, runner_alive=True, runner_stopped=True), False),
    ],
)
def test_a_stopped_runner_holds_nothing_for_its_dead_command(facts: JobFacts, holds: bool) -> None:
    whole = DeviceShare("gpu-0", whole=True)
    job = a_job(
        state=RUNNING, boot=HERE, shares=(whole,), assumed=Assumed(2000, Bytes(1 << 30), firm_cpu=True)
    )
    judged = judge(job, facts)
    assert (judged == job) is holds
    assert (judged.state, judged.device) == (RUNNING, "gpu-0")
    count = count_job(judged, machine(gpu()), {"gpu-0": Bytes(1 << 34)})
    assert (bool(count.firm_cpu), bool(count.memory), count.shares[0].whole) == (holds, holds, holds)
