"""When a watch of the fake cluster wakes: for an event, for a bookmark, at its end, or with an error."""

import asyncio
from enum import Enum, auto

from fairlead.compat.aio import timeout_at
from fairlead.errors import ClusterUnavailableError


class WakeReason(Enum):
    """Why a watch woke."""

    EVENT = auto()
    BOOKMARK = auto()
    END = auto()


class WatchTimer:
    """Wakes one watch; created in the event loop of the watch."""

    def __init__(self, lasts: float | None, bookmark_every: float | None, idle: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._disconnected = False
        self._every = float("inf") if bookmark_every is None else bookmark_every
        self._idle = idle
        self._end = self._loop.time() + (float("inf") if lasts is None else lasts)
        self._bookmark = self._loop.time() + self._every
        self.reset_idle()

    def wake(self) -> None:
        """Wake the watch for an event."""
        self._loop.call_soon_threadsafe(self._woken.set)

    def disconnect(self) -> None:
        """Disconnect the watch."""
        self._disconnected = True
        self.wake()

    def reset_idle(self) -> None:
        """Restart the idle timeout."""
        self._idle_deadline = self._loop.time() + self._idle

    async def wait(self) -> WakeReason:
        """Sleep until there is something to do."""
        try:
            async with timeout_at(min(self._end, self._bookmark, self._idle_deadline)):
                await self._woken.wait()
        except TimeoutError:
            return self._due()
        if self._disconnected:
            raise ClusterUnavailableError("the connection to memory broke", "try again")
        self._woken.clear()
        return WakeReason.EVENT

    def _due(self) -> WakeReason:
        now = self._loop.time()
        if now >= self._end:
            return WakeReason.END
        if now >= self._bookmark:
            self._bookmark = now + self._every
            self.reset_idle()
            return WakeReason.BOOKMARK
        raise ClusterUnavailableError(
            "memory sent no event for too long", "ask for bookmarks"
        ) from TimeoutError()
