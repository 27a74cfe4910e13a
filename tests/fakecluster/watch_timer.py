"""When a watch of a cluster in memory wakes: on news, for a bookmark, at its end, or never again."""

import asyncio
from enum import Enum, auto

from fairlead.compat.aio import timeout_at
from fairlead.errors import ClusterUnavailableError


class WakeReason(Enum):
    """Why a watch woke."""

    NEWS = auto()
    BOOKMARK = auto()
    END = auto()


class WatchTimer:
    """Wakes one watch; made in the loop that the watch runs in."""

    def __init__(self, lasts: float | None, bookmark_every: float | None, idle: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._cut = False
        self._every = float("inf") if bookmark_every is None else bookmark_every
        self._idle = idle
        self._end = self._loop.time() + (float("inf") if lasts is None else lasts)
        self._bookmark = self._loop.time() + self._every
        self.reset_idle()

    def wake(self) -> None:
        """Say that there is news."""
        self._loop.call_soon_threadsafe(self._rung.set)

    def disconnect(self) -> None:
        """Break the connection."""
        self._cut = True
        self.wake()

    def reset_idle(self) -> None:
        """Start the time of silence anew."""
        self._silent = self._loop.time() + self._idle

    async def wait(self) -> WakeReason:
        """Sleep until there is something to do."""
        try:
            async with timeout_at(min(self._end, self._bookmark, self._silent)):
                await self._rung.wait()
        except TimeoutError:
            return self._due()
        if self._cut:
            raise ClusterUnavailableError("the connection to memory broke", "try again")
        self._rung.clear()
        return WakeReason.NEWS

    def _due(self) -> WakeReason:
        now = self._loop.time()
        if now >= self._end:
            return WakeReason.END
        if now >= self._bookmark:
            self._bookmark = now + self._every
            self.reset_idle()
            return WakeReason.BOOKMARK
        raise ClusterUnavailableError(
            "memory said nothing for too long", "ask for bookmarks"
        ) from TimeoutError()
