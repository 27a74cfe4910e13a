"""The contract of an edge: what happens to frames that the next stage cannot take yet.

Pure: the time comes in as an argument. Every item that was offered is held, taken, or dropped with a reason.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from fairlead.compat import StrEnum
from fairlead.pipeline.transport import MOST_DEPTH
from fairlead.units import Seconds

T = TypeVar("T")

DEPTH: Final = 8
"""The depth of an edge that states none."""
_SAMPLE: Final = re.compile(r"sample\(([1-9][0-9]{0,8})\)")


class EdgePolicy(StrEnum):
    """What an edge does with an item that it has no place for."""

    BLOCK = "block"
    """The stage before waits."""
    DROP_OLDEST = "drop_oldest"
    """The longest held item makes room."""
    DROP_NEWEST = "drop_newest"
    """The offered item is dropped."""
    LATEST_ONLY = "latest_only"
    """Only the newest item is held, whatever the depth."""
    SAMPLE = "sample"
    """Of every n items the first is kept; for those the stage before waits."""


_WAITING: Final = (EdgePolicy.BLOCK, EdgePolicy.SAMPLE)


class DropReason(StrEnum):
    """Why an edge dropped an item; the label of the metric."""

    OLDEST = "oldest"
    NEWEST = "newest"
    SUPERSEDED = "superseded"
    SAMPLED = "sampled"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Drop(Generic[T]):
    """An item that an edge dropped."""

    item: T
    reason: DropReason


@dataclass(frozen=True, slots=True)
class EdgeContract:
    """How many items an edge holds, how old they may become, and which are dropped."""

    policy: EdgePolicy = EdgePolicy.BLOCK
    depth: int = DEPTH
    max_age: Seconds | None = None
    every: int = 1
    """Of how many items `sample` keeps one."""

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= MOST_DEPTH:
            raise ValueError(f"depth {self.depth}: write a number from 1 to {MOST_DEPTH}")
        if self.max_age is not None and not self.max_age > 0:
            raise ValueError(f"max_age {self.max_age}: write a duration above 0, for example 200ms")
        if self.every < 1 or (self.every > 1 and self.policy is not EdgePolicy.SAMPLE):
            raise ValueError(
                f"{self.policy} keeps one of {self.every} items: only sample(n) does, with n from 1"
            )

    @classmethod
    def parse(cls, policy: str, depth: int = DEPTH, max_age: Seconds | None = None) -> "EdgeContract":
        """Return the contract with a policy as files write it: `drop_oldest`, `sample(3)`."""
        text = policy.strip()
        if sample := _SAMPLE.fullmatch(text):
            return cls(EdgePolicy.SAMPLE, depth, max_age, int(sample[1]))
        if text == EdgePolicy.SAMPLE or text not in tuple(EdgePolicy):
            known = ", ".join(each for each in EdgePolicy if each is not EdgePolicy.SAMPLE)
            raise ValueError(f"{policy!r} is not a policy: write {known} or sample(n)")
        return cls(EdgePolicy(text), depth, max_age)

    @property
    def capacity(self) -> int:
        """How many items the edge holds."""
        return 1 if self.policy is EdgePolicy.LATEST_ONLY else self.depth

    @property
    def is_lossless(self) -> bool:
        """Whether the stage before waits for room, so that no item is dropped for another."""
        return self.policy in _WAITING

    def __str__(self) -> str:
        return f"sample({self.every})" if self.policy is EdgePolicy.SAMPLE else str(self.policy)


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """The items of an edge since its start: `offered == taken + held` and every drop, always."""

    offered: int = 0
    taken: int = 0
    held: int = 0
    dropped: Mapping[DropReason, int] = field(default_factory=dict)


class EdgeBuffer(Generic[T]):
    """The items that an edge holds, in the order in which they were offered."""

    def __init__(self, contract: EdgeContract, captured: Callable[[T], float] | None = None) -> None:
        """Take the time from which an item's age counts; by default that of its offer."""
        self.contract = contract
        self._captured = captured
        self._places = contract.capacity
        self._is_waiting = contract.is_lossless
        self._held: deque[tuple[T, float]] = deque()
        self._offered = 0
        self._taken = 0
        self._dropped: Counter[DropReason] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return len(self._held) >= self._places

    @property
    def must_wait(self) -> bool:
        """Whether the next offer has to wait for a `take`: the stage before is to be slowed down."""
        return len(self._held) >= self._places and self._is_waiting and self._is_sampled

    @property
    def counts(self) -> EdgeCounts:
        """The counters now."""
        return EdgeCounts(self._offered, self._taken, len(self._held), dict(self._dropped))

    def offer(self, item: T, now: float) -> list[Drop[T]]:
        """Add an item; return what is dropped for it, or the item itself. ValueError while it must wait."""
        if self.must_wait:
            raise ValueError(f"the edge holds {len(self._held)} items, and its policy is {self.contract}")
        kept = self._is_sampled
        self._offered += 1
        if not kept:
            return [self._drop(item, DropReason.SAMPLED)]
        drops = []
        if self.is_full:
            if self.contract.policy is EdgePolicy.DROP_NEWEST:
                return [self._drop(item, DropReason.NEWEST)]
            latest_only = self.contract.policy is EdgePolicy.LATEST_ONLY
            reason = DropReason.SUPERSEDED if latest_only else DropReason.OLDEST
            drops = [self._drop(self._held.popleft()[0], reason)]
        self._held.append((item, self._captured(item) if self._captured else now))
        return drops

    def take(self, now: float) -> tuple[T | None, list[Drop[T]]]:
        """Return the oldest item that is young enough, and those before it, which have expired."""
        drops: list[Drop[T]] = []
        while self._held:
            item, since = self._held.popleft()
            if self.contract.max_age is None or now - since <= self.contract.max_age:
                self._taken += 1
                return item, drops
            drops.append(self._drop(item, DropReason.EXPIRED))
        return None, drops

    def clear(self) -> list[T]:
        """Return every item that is held, and hold none; they count as taken."""
        items = [item for item, _ in self._held]
        self._held.clear()
        self._taken += len(items)
        return items

    @property
    def _is_sampled(self) -> bool:
        return self._offered % self.contract.every == 0

    def _drop(self, item: T, reason: DropReason) -> Drop[T]:
        self._dropped[reason] += 1
        return Drop(item, reason)
