"""Jobs that no wait will help: they need more than the machine has, or what it lacks."""

from collections.abc import Iterable
from typing import Final

from fairlead.inventory import Accelerator
from fairlead.local.eligible import can_be_used, fault_of
from fairlead.local.mps.device import INSTEAD, asks_for_mps, can_mps
from fairlead.local.queue.reasons import format_cores
from fairlead.local.queue.requests import NODE, QueuedJob, recovered_states
from fairlead.local.queue.state import MOST_JOBS
from fairlead.local.view import DeviceView, MachineView
from fairlead.need import headroom
from fairlead.placement import Decision, NodeState, Reason
from fairlead.request import NO_BYTES
from fairlead.schedule.decision.decide import decide
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.units import format_bytes, format_number, pluralize

MOST_CHECKS: Final = 64
"""Jobs for which one plan asks the engine; the next plan asks for others."""


class MachineLimits:
    """What an empty machine can give: at all, and as long as accelerators have faults."""

    def __init__(self, view: MachineView, policy: Policy) -> None:
        self._view, self._policy = view, policy
        self._ready = {
            device.accelerator.id: device.accelerator for device in view.devices if can_be_used(device)
        }
        self._recovering = {
            device.accelerator.id for device in view.devices if device.recoverable and fault_of(device)
        }
        plain = [one for one in self._ready.values() if one.shareable and not one.unified_memory]
        self._all_plain = len(plain) == len(view.devices)
        self._smallest = min((one.memory or NO_BYTES for one in plain), default=NO_BYTES)
        self._empty: EngineCluster | None = None
        self._checks = 0

    def objection(self, queued: QueuedJob) -> str:
        """Return why a job can never start here; empty: it can."""
        if self._certainly_fits(queued) or self._checks >= MOST_CHECKS:
            return ""
        if queued.job.assumed.gpus and not queued.candidates:
            return self._no_candidate(queued)
        self._checks += 1
        if self._empty is None:
            node = NodeState(
                NODE, self._view.cpu, self._view.memory, MOST_JOBS, devices=recovered_states(self._view)
            )
            self._empty = EngineCluster([node])
        decision = decide(self._empty, queued.request, self._policy)
        return "" if decision.placed else self._text(queued, decision)

    def faults(self, queued: QueuedJob) -> str:
        """Return the faults that a job waits for; empty: enough accelerators are healthy."""
        gpus = queued.job.assumed.gpus
        if not gpus or self._recovering.isdisjoint(queued.candidates):
            return ""
        healthy = sum(
            name in self._ready and name not in self._recovering and self._may_be_enough(queued, name)
            for name in queued.candidates
        )
        return "" if healthy >= gpus else self._faults(queued)

    def _may_be_enough(self, queued: QueuedJob, name: str) -> bool:
        """Return False where an accelerator alone certainly cannot take a job."""
        memory = self._ready[name].memory
        fits = queued.whole or not memory or queued.least <= memory
        return fits and self._is_fast_enough(queued, name)

    def _certainly_fits(self, queued: QueuedJob) -> bool:
        """Return whether amounts alone show that a job fits an empty machine: most do, at little cost."""
        job, assumed, view = queued.job, queued.job.assumed, self._view
        if queued.memory > view.memory or (assumed.firm_cpu and assumed.cpu > view.cpu):
            return False
        if not assumed.gpus:
            return True
        # Most jobs fit the smallest accelerator: one comparison instead of one for each accelerator.
        if self._all_plain and not job.requested.device and not assumed.devices:
            size = 0 if queued.whole else _size(queued) + headroom(self._smallest)
            if size <= self._smallest and assumed.gpus <= len(queued.candidates):
                return True
        large = sum(1 for name in queued.candidates if name in self._ready and self._is_enough(queued, name))
        return large >= assumed.gpus

    def _is_enough(self, queued: QueuedJob, name: str) -> bool:
        job, accelerator, need = queued.job, self._ready[name], queued.job.assumed.need
        if not self._is_fast_enough(queued, name):
            return False
        if queued.whole:
            return True
        memory, size = accelerator.memory or NO_BYTES, _size(queued)
        spare = headroom(memory) if need is not None and not need.firm else 0
        if size + spare > memory or not accelerator.shareable:
            return False
        return not accelerator.unified_memory or queued.memory + job.assumed.gpus * size <= self._view.memory

    def _is_fast_enough(self, queued: QueuedJob, name: str) -> bool:
        slo, predicted = queued.job.requested.slo, queued.job.assumed.devices
        return slo is None or not predicted or predicted[name] <= slo

    def _no_candidate(self, queued: QueuedJob) -> str:
        job, view = queued.job, self._view
        if not view.devices:
            why = f" ({view.problems[0]})" if view.problems else ""
            return f"it needs an accelerator, and this machine has none{why}"
        names = ", ".join(_named(device.accelerator) for device in view.devices)
        if asks_for_mps(job) and not any(can_mps(device.accelerator) for device in view.devices):
            return f"MPS serves none of the accelerators here: {names}; {INSTEAD}"
        if job.requested.device:
            return f"no accelerator here is {job.requested.device!r}: there is {names}"
        if job.assumed.devices:
            return f"its model {job.requested.model} runs on none of the accelerators here: {names}".replace(
                "  ", " "
            )
        return self._too_large(queued)

    def _text(self, queued: QueuedJob, decision: Decision) -> str:
        """Return the refusal by an empty machine in its own terms."""
        request, view = queued.request, self._view
        reasons = [rejection.reason for rejection in decision.rejections]
        if Reason.CPU in reasons:
            return f"it needs {format_cores(request.cpu)}, and this machine has {format_cores(view.cpu)}"
        if Reason.MEMORY in reasons:
            wanted, total = format_bytes(request.memory), format_bytes(view.memory)
            return f"it needs {wanted} of RAM, and this machine has {total}"
        if any(reason in _SIZES for reason in reasons):
            return self._too_large(queued)
        if faults := self._faults(queued):
            return faults
        if Reason.SLO in reasons:
            return _too_slow(queued)
        if Reason.DEVICES in reasons:
            wanted = pluralize(request.demand.count, "accelerator")
            return f"it needs {wanted} at once, and this machine has {len(queued.candidates)} for it"
        return "; ".join(decision.reasons())

    def _too_large(self, queued: QueuedJob) -> str:
        job, need = queued.job, queued.job.assumed.need
        largest = max(self._ready.values(), key=lambda each: each.memory or 0, default=None)
        if largest is None:
            return self._faults(queued) or "it needs an accelerator, and this machine has none"
        size = job.requested.gpu_memory or (need.peak if need is not None else 0)
        has = f"{largest.id} has {format_bytes(largest.memory or 0)}"
        larger = [device for device in self._view.devices if (device.accelerator.memory or 0) >= size]
        faults = self._fault_texts(queued, larger)
        return f"it needs {format_bytes(size)} of one accelerator, and {has}" + (
            f" ({faults})" if faults else ""
        )

    def _faults(self, queued: QueuedJob) -> str:
        """Return the faults of the accelerators that the job could run on otherwise; empty: none."""
        faults = self._fault_texts(queued, self._view.devices)
        return f"no healthy accelerator is left for it ({faults})" if faults else ""

    def _fault_texts(self, queued: QueuedJob, devices: Iterable[DeviceView]) -> str:
        """Return each fault once, with the accelerators that have it."""
        names: dict[str, list[str]] = {}
        for device in devices:
            if fault_of(device) and (device.accelerator.id in queued.candidates or not queued.candidates):
                names.setdefault(fault_of(device), []).append(device.accelerator.id)
        return "; ".join(f"{', '.join(ids)}: {fault}" for fault, ids in names.items())


_SIZES: Final = (Reason.DEVICE_MEMORY, Reason.MEMORY_BOUND)


def _size(queued: QueuedJob) -> int:
    """Return the most that a job needs of each accelerator."""
    need = queued.job.assumed.need
    return need.peak if need is not None else queued.least


def _too_slow(queued: QueuedJob) -> str:
    fastest = min(queued.job.assumed.devices[name] for name in queued.candidates)
    slo = f"{format_number(1000 * (queued.request.slo or 0.0))} ms"
    return f"no accelerator here keeps the SLO of {slo}: the fastest takes {format_number(1000 * fastest)} ms"


def _named(accelerator: Accelerator) -> str:
    return f"{accelerator.id} ({accelerator.name})" if accelerator.name else accelerator.id
