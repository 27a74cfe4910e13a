"""Why a job waits, in one line and in the terms of one machine."""

from typing import Final

from fairlead.job import LocalJob, LocalState
from fairlead.local.eligible import fault_of
from fairlead.local.queue.admission import ONE, CpuAdmission
from fairlead.local.queue.requests import NODE, QueuedJob
from fairlead.local.queue.reserve import Reservation, expected_end
from fairlead.local.queue.state import OUTSIDE_USE, MachineState
from fairlead.need import effective_size
from fairlead.placement import Reason
from fairlead.schedule.explain.diagnose import diagnose
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.state.cluster import DeviceFree, EngineCluster
from fairlead.units import format_bytes, pluralize

_ENDS: Final = {LocalState.FAILED: "failed", LocalState.CANCELLED: "was cancelled"}


def about(seconds: float) -> str:
    """Return a duration for people, in its largest unit: `40 s`, `4 min`, `3 h`."""
    for length, unit in ((1.0, "s"), (60.0, "min"), (3600.0, "h")):
        number = max(1, round(seconds / length))
        if number < (100 if unit == "s" else 120) or unit == "h":
            break
    return f"{number} {unit}"


def format_cores(thousandths: int) -> str:
    """Return cores as `--cpus` takes them: `1 core`, `0.28 cores`."""
    number = f"{thousandths / ONE:g}"
    return "1 core" if number == "1" else f"{number} cores"


def job_name(job: LocalJob) -> str:
    """Return a job for people: its id and its name."""
    return f"job {job.id} ({job.name})" if job.name else f"job {job.id}"


def jobs_ahead(number: int) -> str:
    """Return the reason of a job that was not looked at in detail."""
    return f"{number} jobs are ahead of it" if number != 1 else "1 job is ahead of it"


def waits_for(other: LocalJob, now: float) -> str:
    """Return the reason of a job that waits for another one to be done."""
    end = expected_end(other, now) if other.state is LocalState.RUNNING else None
    return f"waits for {job_name(other)}" + (
        "" if end is None else f", expected to end in {about(end - now)}"
    )


def dependency_failed(other: LocalJob) -> str:
    """Return why a job cannot start after another one."""
    return f"job {other.id}, which it waits for, {_ENDS[other.state]}"


class WaitReasons:
    """Reasons of jobs that wait for room, from the engine's diagnosis of the state after all starts."""

    def __init__(self, state: MachineState, cluster: EngineCluster, policy: Policy) -> None:
        self._state, self._cluster, self._policy = state, cluster, policy
        self._free = cluster.free(NODE)
        self._faulty = {device.accelerator.id for device in state.view.devices if fault_of(device)}

    def cores(self, admission: CpuAdmission, started: int) -> str:
        """Return the reason of a job that waits for compressible cores."""
        number = len(self._state.running) + started
        cores = f"{admission.cores / ONE:g}"
        are = "core is" if cores == "1" else "cores are"
        return f"{cores} {are} busy with {pluralize(number, 'job')}"

    def held_back(self, reservation: Reservation) -> str:
        """Return the reason of a job that would take what an earlier one waits for."""
        head, now = reservation.head.job, self._state.view.at
        if reservation.starts is not None:
            return f"{job_name(head)} goes first, expected to start in {about(reservation.starts - now)}"
        return f"{job_name(head)} goes first: it has waited for {about(now - head.submitted_boot)}"

    def room(self, queued: QueuedJob) -> str:
        """Return the reason of a job that the engine refuses."""
        request, free, view = queued.request, self._free, self._state.view
        rejections = diagnose(self._cluster, request, self._policy).rejections
        reasons = [rejection.reason for rejection in rejections]
        if Reason.CPU in reasons:
            left = f"{max(free.cpu, 0) / ONE:g}"
            are = "is" if left == "1" else "are"
            return f"needs {format_cores(request.cpu)}; {left} of {view.cpu / ONE:g} {are} free"
        if Reason.MEMORY in reasons:
            return f"needs {format_bytes(request.memory)} of RAM; {self._ram()}"
        if any(reason in _AMOUNTS for reason in reasons):
            return self._device_memory(queued)
        if Reason.BUSY in reasons:
            return self._busy(queued)
        if Reason.SLOWDOWN in reasons:
            return "another job beside those that run would break the latency that one of them must keep"
        return ", ".join(rejection.with_count() for rejection in rejections)

    def _ram(self) -> str:
        view, outside = self._state.view, self._state.outside_memory
        text = f"{format_bytes(max(self._free.memory, 0))} of {format_bytes(view.memory)} RAM is free"
        if outside > OUTSIDE_USE * view.memory:
            text += f", {format_bytes(outside)} is used by processes outside fairlead"
        return text

    def _device_memory(self, queued: QueuedJob) -> str:
        """Return the reason with the accelerator that is nearest to have enough."""
        number, need = queued.request.demand.count, queued.request.need
        usable = [device for device in self._free.devices if device.id in queued.candidates]
        usable = [device for device in usable if device.id not in self._faulty]
        if not usable:
            return ""  # a later plan says that it can never start
        ranked = sorted(usable, key=lambda device: (-device.memory, device.id))
        best = ranked[min(number, len(ranked)) - 1]  # of several accelerators, the last one decides
        capacity = self._state.capacities[best.id]
        size = effective_size(need, capacity) if need is not None else queued.request.demand.memory or 0
        wanted = f"needs {format_bytes(size)}" + ("" if number == 1 else f" of each of {number} accelerators")
        if alone := self._held_whole(best):
            return f"{wanted}; {alone}"
        most = ", the most" if number == 1 and len(usable) > 1 else ""
        unified = f"; {self._ram()}" if best.memory >= size else ""
        return f"{wanted}; {self._free_memory(best)}{most}{self._used_outside(best)}{unified}"

    def _free_memory(self, device: DeviceFree) -> str:
        spare = " beside what its jobs may still take" if device.soft else ""
        total = format_bytes(self._state.capacities[device.id])
        return f"{device.id} has {format_bytes(max(device.memory, 0))} of {total} free{spare}"

    def _used_outside(self, device: DeviceFree) -> str:
        outside = self._state.outside.get(device.id, 0)
        return f", {format_bytes(outside)} is used by processes outside fairlead" if outside else ""

    def _busy(self, queued: QueuedJob) -> str:
        """Return the reason of a job for whole accelerators, with what holds one of them."""
        held = [device for device in self._free.devices if device.id in queued.candidates and device.holders]
        wanted = pluralize(queued.request.demand.count, "whole accelerator")
        holders = ", ".join(self._holder(device) for device in held[:2])
        more = f" and {len(held) - 2} more" if len(held) > 2 else ""
        return f"needs {wanted}; {holders}{more}"

    def _held_whole(self, device: DeviceFree) -> str:
        """Return the running job that has an accelerator alone; empty: none has."""
        shares = ((job, share) for job in self._state.running for share in job.shares)
        job = next((job for job, share in shares if share.device == device.id and share.whole), None)
        return "" if job is None else f"{device.id} is taken whole by {self._until_end(job)}"

    def _holder(self, device: DeviceFree) -> str:
        for job in self._state.running:
            if any(share.device == device.id for share in job.shares):
                return f"{device.id} runs {self._until_end(job)}"
        if device.id in self._state.outside:
            size = format_bytes(self._state.outside[device.id])
            return f"{size} of {device.id} is used by processes outside fairlead"
        return f"{device.id} is given to a job that starts now"

    def _until_end(self, job: LocalJob) -> str:
        now = self._state.view.at
        end = expected_end(job, now)
        return job_name(job) + ("" if end is None else f", expected to end in {about(end - now)}")


_AMOUNTS: Final = (Reason.DEVICE_MEMORY, Reason.MEMORY_BOUND)
