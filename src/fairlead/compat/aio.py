"""Timeouts of asyncio, and the exceptions that they raise."""

import asyncio
import sys
from typing import Final

__all__ = ["TIMEOUTS", "timeout", "timeout_at"]

if sys.version_info >= (3, 11):
    from asyncio import timeout, timeout_at

    TIMEOUTS: Final = (TimeoutError,)
    """The exceptions of an expired timeout, in asyncio and in libraries built on it."""
else:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager, asynccontextmanager

    import async_timeout

    # Before 3.11 these are two classes, and libraries raise the second.
    TIMEOUTS: Final = (TimeoutError, asyncio.TimeoutError)

    @asynccontextmanager
    async def _ending(deadline: async_timeout.Timeout) -> AsyncIterator[None]:
        try:
            async with deadline:
                yield
        except asyncio.TimeoutError as error:
            raise TimeoutError(*error.args) from error

    def timeout(delay: float | None) -> AbstractAsyncContextManager[None]:
        """End the block after `delay` seconds with a TimeoutError."""
        return _ending(async_timeout.timeout(delay))

    def timeout_at(when: float | None) -> AbstractAsyncContextManager[None]:
        """End the block at a time of the loop's clock with a TimeoutError."""
        return _ending(async_timeout.timeout_at(when))
