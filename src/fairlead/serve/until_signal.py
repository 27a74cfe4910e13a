"""Run a program of asyncio until SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_signal(program: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a program, which ends when its event is set; raise what went wrong in it first."""
    try:
        asyncio.run(_told(program))
    except BaseException as found:
        first = _first(found)
        if first is found:
            raise
        raise first from found


async def _told(program: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await program(stop)


def _first(found: BaseException) -> BaseException:
    """Return what went wrong first: tasks that fell with it are of no interest."""
    # By its attribute: Python 3.10 has no exception groups, and no program there raises one.
    while inner := getattr(found, "exceptions", ()):
        found = inner[0]
    return found
