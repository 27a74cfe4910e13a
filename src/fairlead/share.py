"""DeviceShare: what a pod or a job takes of one accelerator."""

from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.units import Bytes

_NONE: Final = Bytes(0)


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What a placement takes of one accelerator."""

    device: str
    memory: Bytes = _NONE
    compute: int = 0
    whole: bool = False
    """No other pod may hold a share of it."""
    soft: bool = field(default=False, compare=False)
    """The pod may hold more than `memory`: headroom stays free beside it. Not part of any format."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "device": self.device,
            "memory_bytes": self.memory,
            "compute_milli": self.compute,
            "whole": self.whole,
        }
