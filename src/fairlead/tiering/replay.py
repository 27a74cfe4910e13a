"""TierReplay: a trace played through a policy, with what it hits, moves and saves. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.access import Access, AccessOp
from fairlead.tiering.policies import POLICIES
from fairlead.tiering.policies.fast_tier import TieringPolicy
from fairlead.tiering.speeds import TierSpeeds
from fairlead.units import Bytes


@dataclass(frozen=True, slots=True)
class TierResult:
    """What a policy did with a trace."""

    accesses: int
    hits: int
    bytes: int
    """Of all accesses."""
    hit_bytes: int
    promotions: int
    dirty_demotions: int
    clean_demotions: int
    """Files that left the fast tier unchanged: nothing is copied."""
    bytes_moved: int
    net_s: float
    """The seconds that hits save, less those that moves take."""

    @property
    def hit_ratio(self) -> float:
        """The part of the accesses that the fast tier serves."""
        return self.hits / self.accesses if self.accesses else 0.0

    @property
    def byte_hit_ratio(self) -> float:
        """The part of the bytes that the fast tier serves."""
        return self.hit_bytes / self.bytes if self.bytes else 0.0

    @property
    def moves(self) -> int:
        """How often a file is copied: promotions and dirty demotions."""
        return self.promotions + self.dirty_demotions


class TierReplay:
    """One policy, and the accesses that it has seen."""

    def __init__(self, policy: TieringPolicy, speeds: TierSpeeds) -> None:
        self._policy = policy
        self._speeds = speeds
        self._dirty: dict[str, int] = {}
        self._accesses = self._hits = self._bytes = self._hit_bytes = 0
        self._promotions = self._promoted_bytes = 0
        self._writebacks = self._written_bytes = self._clean = 0

    def play(self, trace: Iterable[Access]) -> None:
        """Take the next accesses of the trace, in their order."""
        policy, demoted, dirty = self._policy, self._policy.demoted, self._dirty
        access, write = policy.access, AccessOp.WRITE
        for _, key, size, op in trace:
            self._accesses += 1
            self._bytes += size
            if access(key, size):
                self._hits += 1
                self._hit_bytes += size
                if op is write or key in dirty:
                    dirty[key] = size
            elif policy.promoted:
                self._promotions += 1
                self._promoted_bytes += size
                if op is write:  # it is written on the fast tier: the copy on the slow one is old
                    dirty[key] = size
            if demoted:
                self._demote(demoted)
                demoted.clear()

    def _demote(self, keys: Iterable[str]) -> None:
        for key in keys:
            size = self._dirty.pop(key, None)
            if size is None:
                self._clean += 1
            else:
                self._writebacks += 1
                self._written_bytes += size

    def result(self) -> TierResult:
        """Return what the policy did so far."""
        speeds = self._speeds
        # Each cost is a part for each file and a part for each byte: sums do, and rounding errors stay small.
        saved = self._hits * speeds.seek + self._hit_bytes * (speeds.saved(1) - speeds.seek)
        copied = self._promotions * speeds.seek + self._promoted_bytes * (speeds.promotion(1) - speeds.seek)
        written = self._writebacks * speeds.seek + self._written_bytes * (speeds.slow(1) - speeds.seek)
        return TierResult(
            self._accesses,
            self._hits,
            self._bytes,
            self._hit_bytes,
            self._promotions,
            self._writebacks,
            self._clean,
            self._promoted_bytes + self._written_bytes,
            saved - copied - written,
        )


def replay_all(
    chunks: Iterable[Iterable[Access]], capacity: Bytes, speeds: TierSpeeds, *, resizes: bool = True
) -> dict[str, TierResult]:
    """Play a trace through every policy in one pass.

    Each chunk is a sequence that can be read several times. Without `resizes` a file on the fast tier keeps
    the bytes with which it was promoted, as the blocks of a block trace do.
    """
    replays = {}
    for name, policy_of in POLICIES.items():
        policy = policy_of(capacity)
        policy.resizes = resizes
        replays[name] = TierReplay(policy, speeds)
    for chunk in chunks:
        for replay in replays.values():
            replay.play(chunk)
    return {name: replay.result() for name, replay in replays.items()}
