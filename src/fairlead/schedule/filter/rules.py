"""What a policy says about sharing: how a request counts on an accelerator, and what it may see."""

from typing import Final, NamedTuple


class SharingRules(NamedTuple):
    """How requests share accelerators under a policy."""

    whole: bool = False
    """Every request takes its accelerators exclusively."""
    measured: bool = False
    """Free memory that was measured counts, where it is more than requests leave."""
    price: float | None = None
    """The slowdown that each co-runner adds, held against SLOs; None: SLOs are held against latency alone."""


BY_REQUEST: Final = SharingRules()
