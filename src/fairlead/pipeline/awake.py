"""Waits that begin without sleep: at full speed the next frame is there before a process has woken up."""

import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
AWAKE: Final = 0.0005
"""Seconds: the longest wait without sleep."""
LENT: Final = 0.00005
"""Seconds: a look that takes longer has lent the core to another process."""
_FEWEST_SLEEPS: Final = 32
_MOST_SLEEPS: Final = 1024
"""How many waits sleep from the start after the core was lent: twice as many each time, up to this."""


class AwakeWait:
    """Waits, for a moment without sleep if the last wait was short and nothing else wants the core.

    A sender that has to wake its receiver spends a tenth of the time of a 720p frame on it. At the rate of a
    camera no wait is that short. Where both ends share a core the wake-up is what hands it over, frame by
    frame: without it the sender fills every slot first, and the caches hold none of them.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, give_way: Callable[[], None] = os.sched_yield
    ) -> None:
        self._clock = clock
        self._give_way = give_way
        self._was_short = False
        self._sleeps = 0
        """How many of the next waits sleep from the start."""
        self._penalty = _FEWEST_SLEEPS

    def wait(self, look: Callable[[float | None], T], seconds: float | None) -> T:
        """Return what `look` returns: for 0 seconds as soon as that is true, or else for these seconds."""
        begin = self._clock()
        if self._sleeps:
            self._sleeps -= 1
        elif self._was_short and (found := self._stay_awake(look, begin, seconds)):
            return found
        found = look(seconds)
        self._was_short = self._clock() - begin < AWAKE
        return found

    def select(self, reading: Sequence[int], writing: Sequence[int], seconds: float) -> bool:
        """Wait until a descriptor is ready; False after `seconds`."""
        return self.wait(lambda timeout: any(select.select(reading, writing, (), timeout)), seconds)

    def _stay_awake(self, look: Callable[[float | None], T], begin: float, seconds: float | None) -> T | None:
        """Look again and again, for a moment; None: sleep now."""
        now, end = begin, begin + (AWAKE if seconds is None else min(AWAKE, seconds))
        while now < end:
            if found := look(0):
                self._penalty = _FEWEST_SLEEPS
                return found
            self._give_way()
            last, now = now, self._clock()
            if now - last > LENT:
                self._sleeps, self._penalty = self._penalty, min(2 * self._penalty, _MOST_SLEEPS)
                return None
        return None
