"""What the paper of K-RAF reports of splitting, and what its own rates allow.

With independent resources a device adds at most its own rate to the server's: a gain of r_device / r_server.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PublishedSplit:
    """One case of the paper."""

    case: str
    ratio: float
    """The server's rate by the device's."""
    reported_gain: float | None
    """Of device and server over the server alone; None: not reported."""
    reading: str

    @property
    def bound(self) -> float:
        """The largest gain that the device's own rate allows."""
        return 1 / self.ratio

    @property
    def is_possible(self) -> bool | None:
        """Whether the reported gain is within the bound."""
        return None if self.reported_gain is None else self.reported_gain <= self.bound


DEVICE_ALONE_S: Final = 692.0
SERVER_ALONE_S: Final = 95.4
BOTH_S: Final = 67.3
"""Seconds of the load-heavy job."""
CPU: Final = PublishedSplit(
    "images, server CPU", 36.8, 0.04, "above the bound: noise, or waits of the server that were filled"
)
GPU: Final = PublishedSplit("images, server GPU", 306.0, None, "a device adds next to nothing")
LOAD: Final = PublishedSplit(
    "load-heavy",
    DEVICE_ALONE_S / SERVER_ALONE_S,
    SERVER_ALONE_S / BOTH_S - 1,
    "beyond the bound: as a device it would have to be 3.0 times as fast as measured alone; the control, "
    "a second loader on the server, is missing",
)
CASES: Final = (CPU, GPU, LOAD)
