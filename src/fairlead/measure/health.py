"""The health of NVIDIA GPUs between two scans, from samples and XIDs.

Memory errors, a failed remapping and a lost GPU are read again with each sample. An XID is reported once: its
fault stays until the driver is unbound from the GPU, or the agent restarts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fairlead.faults import XidPolicy, xid_fault
from fairlead.inventory import Accelerator, State
from fairlead.nvml import Health
from fairlead.telemetry import Metric, Sample


class GpuHealth:
    """The health of a machine's GPUs, by the id of the accelerator."""

    def __init__(self, xids: XidPolicy) -> None:
        self._policy = xids
        self._faults: dict[str, str] = {}
        self._last: dict[str, int] = {}
        """The last XID of each GPU that can report any; 0 before the first."""
        self._fatal: dict[str, int] = {}
        """The first fatal XID of each GPU."""

    def record(self, accelerator: str, health: Health | None, xids: Sequence[int] | None) -> None:
        """Record a sample, and the XIDs since the previous one; None for what NVML does not report."""
        if health is not None:
            self._faults[accelerator] = health.fault
        if xids is None:
            return
        self._last.setdefault(accelerator, 0)
        for xid in xids:
            self._last[accelerator] = xid
            if self._policy.is_fatal(xid):
                self._fatal.setdefault(accelerator, xid)

    def forget_unbound(self, accelerators: Iterable[Accelerator]) -> None:
        """Forget the GPUs that are no longer bound to the driver: binding resets a GPU."""
        bound = {acc.id for acc in accelerators if acc.state is not State.PRESENT}
        for table in (self._faults, self._last, self._fatal):
            for gone in set(table) - bound:
                del table[gone]

    def with_faults(self, acc: Accelerator) -> Accelerator:
        """Return an accelerator with the faults of the last sample: a faulty one is at most driver-bound."""
        xid = self._fatal.get(acc.id)
        why = self._faults.get(acc.id) or (xid_fault(xid) if xid is not None else "")
        if not why or not acc.state.allocatable:
            return acc
        return replace(acc, state=State.DRIVER_BOUND, reason=why)

    def samples(self) -> Iterator[Sample]:
        """Yield the last XID of every GPU that can report any."""
        for accelerator, xid in self._last.items():
            yield Sample(accelerator, Metric.XID, float(xid))
