"""How many replicas a stage should have, by its queue, the age of its frames and its busy share. Pure.

It grows after a load that has lasted, and shrinks after a longer time in which fewer would have done. With
a number to which it shrinks, the same load would not let it grow again: a steady load moves it one way.
"""

import math
from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.spec import ReplicaScale
from fairlead.units import Seconds, format_duration, pluralize

BUSY: Final = 0.85
"""The share of time in calls from which on a stage is what its frames wait for."""
GROWN_SHARE: Final = 0.7
"""How busy replicas should be where the whole load is known."""
SHRUNK_SHARE: Final = 0.6
"""How busy fewer replicas may be: with less than `BUSY`, so that they do not grow back."""
QUEUED: Final = 0.5
"""The part of an edge that is filled with frames that wait."""
PAUSE: Final = 5.0
"""Seconds after a change in which nothing is measured; twice as many after each one that was given up."""
LONGEST_PAUSE: Final = 320.0
GAP: Final = 10.0
"""Seconds without a measurement after which what lasted begins again."""


@dataclass(frozen=True, slots=True)
class StageLoad:
    """What was measured of a stage last."""

    replicas: int
    busy: float
    """The share of time that a replica is in calls."""
    rate: float
    """Frames a second that it takes."""
    held: int
    """Frames that wait before it."""
    size: int
    """How many may wait there."""
    age: float
    """Seconds since the frame that it took last was captured."""
    drop_rate: float
    """Frames a second that are dropped before it, because it is too slow."""
    cores: int | None = None
    """Replicas for which its hosts have cores; None: that is not known."""

    @property
    def demand(self) -> float:
        """Replicas that would be busy all the time with the frames of now, also those that are dropped."""
        used = self.busy * self.replicas
        return used * (1 + self.drop_rate / self.rate) if self.rate > 0 else used


@dataclass(frozen=True, slots=True)
class ScaleWish:
    """Another number of replicas."""

    replicas: int
    reason: str


class ReplicaScaler:
    """The replicas of one stage."""

    def __init__(self, scale: ReplicaScale, pause: float = PAUSE) -> None:
        self.scale = scale
        self.held_by = ""
        """Why it does not grow although it should; empty: nothing holds it."""
        self._pressed_since: float | None = None
        self._enough_since: float | None = None
        self._enough = 0
        """The most replicas that were needed since."""
        self._quiet_until = 0.0
        self._seen = 0.0
        self._first_pause = self._pause = pause

    def observe(self, load: StageLoad, now: float) -> ScaleWish | None:
        """Take what is measured now, and return another number of replicas once it should be that."""
        bounded = self._bounded(load.replicas)
        if bounded != load.replicas:
            return ScaleWish(bounded, f"{self.scale.least} to {self.scale.most} replicas are stated now")
        if now - self._seen > GAP:  # nothing was measured meanwhile, so nothing has lasted
            self._pressed_since = self._enough_since = None
        self._seen = now
        if now < self._quiet_until:
            return None
        cause = self._pressure(load)
        self._note(load, cause, now)
        return self._grown(load, cause, now) or self._shrunk(load, now)

    def on_changed(self, now: float) -> None:
        """Take that the stage has new processes."""
        self._pause = self._first_pause
        self._rest(now)

    def on_given_up(self, now: float) -> None:
        """Take that a change could not be made: the next attempt waits longer."""
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._rest(now)

    def _rest(self, now: float) -> None:
        self._quiet_until = now + self._pause
        self._pressed_since = self._enough_since = None
        self.held_by = ""

    def _pressure(self, load: StageLoad) -> str:
        """Return what asks for more replicas; empty: nothing, or another stage is what frames wait for."""
        if load.busy < BUSY:
            return ""
        if load.drop_rate > 0:
            return f"{load.drop_rate:.3g} frames/s were dropped before it"
        if load.age >= self.scale.age:
            return f"frames were {format_duration(Seconds(load.age))} old"
        if load.held >= QUEUED * load.size:
            return f"{load.held} of {load.size} frames waited"
        return ""

    def _note(self, load: StageLoad, cause: str, now: float) -> None:
        if not cause:
            self._pressed_since, self.held_by = None, ""
        elif self._pressed_since is None:
            self._pressed_since = now
        needed = self._bounded(math.ceil(load.demand / SHRUNK_SHARE))
        if cause or needed >= load.replicas:
            self._enough_since = None
        elif self._enough_since is None:
            self._enough_since, self._enough = now, needed
        else:
            self._enough = max(self._enough, needed)

    def _grown(self, load: StageLoad, cause: str, now: float) -> ScaleWish | None:
        if self._pressed_since is None or now - self._pressed_since < self.scale.up_after:
            return None
        wanted = max(load.replicas + max(1, load.replicas // 2), math.ceil(load.demand / GROWN_SHARE))
        room = self.scale.most if load.cores is None else min(self.scale.most, load.cores)
        wished = min(wanted, room)
        if wished <= load.replicas:
            self.held_by = self._limit(load)
            return None
        return ScaleWish(
            wished, f"{cause} for {_time(now - self._pressed_since)}{_because(wanted, load, wished)}"
        )

    def _shrunk(self, load: StageLoad, now: float) -> ScaleWish | None:
        if self._enough_since is None or now - self._enough_since < self.scale.down_after:
            return None
        spare = f"{pluralize(self._enough, 'replica')} would have been enough"
        return ScaleWish(self._enough, f"{spare} for {_time(now - self._enough_since)}")

    def _limit(self, load: StageLoad) -> str:
        if load.replicas >= self.scale.most:
            return f"max is {self.scale.most}"
        return f"its hosts have cores for {load.cores}"

    def _bounded(self, replicas: int) -> int:
        return min(max(replicas, self.scale.least), self.scale.most)


def _because(wanted: int, load: StageLoad, wished: int) -> str:
    """Return what keeps a stage from as many replicas as it should have."""
    if wished == load.cores and wished < wanted:
        return f"; its hosts have cores for {wished}"
    return ""


def _time(seconds: float) -> str:
    return format_duration(Seconds(round(seconds)) if seconds >= 1 else Seconds(seconds))
