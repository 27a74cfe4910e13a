"""What may stay on the fast tier: one policy in each file; `POLICIES` names them all."""

from collections.abc import Callable
from typing import Final

from fairlead.tiering.policies.arc import ArcPolicy
from fairlead.tiering.policies.fast_tier import TieringPolicy
from fairlead.tiering.policies.lru import LruPolicy
from fairlead.tiering.policies.lru_ghost import LruGhostPolicy
from fairlead.tiering.policies.none import NoTierPolicy
from fairlead.tiering.policies.s3_fifo import S3FifoPolicy
from fairlead.tiering.policies.two_q import TwoQPolicy
from fairlead.units import Bytes

POLICIES: Final[dict[str, Callable[[Bytes], TieringPolicy]]] = {
    "none": NoTierPolicy,
    "lru": LruPolicy,
    "lru-ghost": LruGhostPolicy,
    "s3-fifo": S3FifoPolicy,
    "2q": TwoQPolicy,
    "arc": ArcPolicy,
}
"""Each takes the capacity of the fast tier."""
DEFAULT: Final = "lru-ghost"
"""Until a volume has a trace of its own."""
