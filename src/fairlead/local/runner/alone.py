"""A job that is alone on an idle machine and needs no accelerator: its start, without loading the engine.

Loading the engine takes longer than many commands run. This says yes only where `plan_queue` says the same,
which a test holds; for everything else it leaves the decision to the engine. Pure.
"""

from collections.abc import Sequence

from fairlead.job import LocalJob
from fairlead.local.view import MachineView, StartDecision


def start_alone(view: MachineView, jobs: Sequence[LocalJob], job: LocalJob) -> StartDecision | None:
    """Return the start of a queued job; None: the engine decides."""
    assumed = job.assumed
    if assumed.gpus or job.after or any(not other.state.ended and other.id != job.id for other in jobs):
        return None
    if assumed.memory > min(view.memory, view.memory_available):
        return None
    if assumed.firm_cpu and assumed.cpu > view.cpu:
        return None
    return StartDecision(cpu=assumed.cpu)
