"""Connections of the server: bounded in number, and in the time that a client takes for a request's head."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 512
"""Connections at once."""
HEAD: Final = 10.0
"""Seconds for a request's head, from the connection or from its first byte."""


class BoundedConnection(H11Protocol):
    """uvicorn's connection, closed where its client is too slow, or where there are too many."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, or close one that waits for its client, to make room."""
        super().connection_made(transport)
        if len(self.connections) > MOST and not self._make_room():
            transport.abort()
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; a head must be complete in time."""
        super().data_received(data)
        if self._answers():
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def _answers(self) -> bool:
        """Say whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> bool:
        for other in tuple(self.connections):
            if other is not self and isinstance(other, BoundedConnection) and not other._answers():
                other.transport.abort()
                self.connections.discard(other)
                return True
        return False

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(HEAD, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
