"""TierPlacement: which files should move now, by the policy and by where they are. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.tiering.policies.fast_tier import TieringPolicy

_ROOM: Final = 0.05
_RETRY: Final = 1.0
_LONGEST: Final = 60.0
"""Seconds until a move that was given up is tried again: doubled each time."""
_MOST_TRIES: Final = 6
"""Of a promotion; a demotion is tried for ever, for its room is needed."""


@dataclass(slots=True)
class PendingMove:
    """A file that should be on the other volume."""

    key: str
    up: bool
    """To the fast volume."""
    due: float = 0.0
    tries: int = 0


class TierPlacement:
    """The files of a pair of volumes, and the moves that are due."""

    def __init__(self, policy: TieringPolicy) -> None:
        self.policy = policy
        self.fast: dict[str, int] = {}
        """The bytes of each file on the fast volume; in the order of their last access."""
        self.used = 0
        self._moves: dict[str, PendingMove] = {}

    def replace_policy(self, policy: TieringPolicy) -> None:
        """Go on with another policy: it takes over what is on the fast volume."""
        self.policy = policy
        self._moves.clear()
        for key, size in list(self.fast.items()):
            policy.adopt(key, size)
        self._demote()

    def access(self, key: str, size: int, *, fast: bool) -> None:
        """Count an access to a file that is on the fast or the slow volume."""
        self._note(key, size, fast=fast)
        policy, pending = self.policy, self._moves.get(key)
        if fast and pending is None and not policy.holds(key):
            policy.adopt(key, size)  # a program has made it there
        elif not policy.access(key, size) and policy.promoted:
            if fast:
                self._moves.pop(key, None)  # its demotion was due: it stays
            else:
                self._moves[key] = PendingMove(key, up=True)
        self._demote()

    def seen(self, key: str, size: int, *, fast: bool) -> None:
        """Take note of a file that was not accessed: at a start, or by a look at all files."""
        self._note(key, size, fast=fast)
        if fast and key not in self._moves and not self.policy.holds(key):
            self.policy.adopt(key, size)
            self._demote()
        elif not fast and key not in self._moves and self.policy.holds(key):
            self.policy.remove(key)

    def gone(self, key: str) -> None:
        """Forget a file that was deleted or renamed."""
        self.used -= self.fast.pop(key, 0)
        self._moves.pop(key, None)
        self.policy.remove(key)

    def next_move(self, now: float) -> PendingMove | None:
        """Return the move to do now: demotions first, promotions where there is room for them."""
        due = [move for move in self._moves.values() if move.due <= now]
        downs = (move for move in due if not move.up)
        room = self.used < self.policy.capacity
        return next(downs, None) or next((move for move in due if move.up and room), None)

    def next_due(self) -> float | None:
        """Return when the next move is due; None: there is none."""
        return min((move.due for move in self._moves.values()), default=None)

    def fits(self, size: int) -> bool:
        """Return whether a file fits the fast volume's capacity now."""
        return self.used + size <= self.policy.capacity

    def done(self, move: PendingMove, size: int) -> None:
        """Take note of a move."""
        self._moves.pop(move.key, None)
        self._note(move.key, size, fast=move.up)

    def wait_for_room(self, move: PendingMove, now: float) -> None:
        """Try a promotion again once a demotion may have made room; without one, not for ever."""
        if any(not each.up for each in self._moves.values()):
            move.due = now + _ROOM
        else:
            self.failed(move, now)

    def failed(self, move: PendingMove, now: float, *, is_full: bool = False) -> None:
        """Try a move again later; a promotion not for ever."""
        move.tries += 1
        move.due = now + min(_RETRY * 2 ** (move.tries - 1), _LONGEST)
        if move.up and (is_full or move.tries >= _MOST_TRIES):
            self._moves.pop(move.key, None)
            self.policy.remove(move.key)

    def keys(self) -> Iterable[str]:
        """Return the files on the fast volume."""
        return self.fast.keys()

    def _note(self, key: str, size: int, *, fast: bool) -> None:
        self.used -= self.fast.pop(key, 0)
        if fast:
            self.fast[key] = size
            self.used += size

    def _demote(self) -> None:
        for key in self.policy.demoted:
            if key in self.fast:
                self._moves[key] = PendingMove(key, up=False)
            else:
                self._moves.pop(key, None)
        self.policy.demoted.clear()
