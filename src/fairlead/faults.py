"""The faults that NVML reports which make a GPU unhealthy.

An XID is the number of an error that the NVIDIA driver reports. Some are the fault of the program on the GPU;
those that NVIDIA's device plugin for Kubernetes ignores (internal/rm/health.go) are ignored here too. Every
other critical XID makes the GPU unhealthy.
"""

from dataclasses import dataclass
from typing import Final

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Graphics engine exception, page fault, stopped processing, cleanup, video processor, context switch."""


@dataclass(frozen=True, slots=True)
class XidPolicy:
    """Which XIDs leave a GPU healthy."""

    ignored: frozenset[int] = APPLICATION_XIDS
    every: bool = False
    """No XID makes a GPU unhealthy."""

    def is_fatal(self, xid: int) -> bool:
        """Return whether an XID makes a GPU unhealthy."""
        return not self.every and xid not in self.ignored


@dataclass(frozen=True, slots=True)
class NvmlFailure:
    """Why NVML reports nothing."""

    reason: str
    """One line, with what to do."""
    for_cuda: bool
    """Whether CUDA programs fail too; without the library alone they can run, but are not measured."""


def fault(*, lost: bool, uncorrected: int | None, remap_failed: bool | None) -> str:
    """Return why a GPU must not be allocated; empty for a GPU without a fault."""
    if lost:
        return "NVML calls the GPU lost (fallen off the bus) or in need of a reset; reset it or reboot"
    if uncorrected:  # no number: a reason that changes with every sample would be published with every sample
        return "uncorrected memory errors since the driver was loaded; reset the GPU"
    if remap_failed:
        return "a row of its memory could not be remapped; replace the GPU"
    return ""


def xid_fault(xid: int) -> str:
    """Return why a GPU that reported a fatal XID must not be allocated."""
    return f"the driver reported XID {xid}; reset the GPU, then restart the agent on this node"
