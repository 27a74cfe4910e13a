"""Run an asyncio program until SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_signal(program: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a program, which ends when its event is set; raise the first error in it."""
    try:
        asyncio.run(_run(program))
    except BaseException as error:
        first = _first(error)
        if first is error:
            raise
        raise first from error


async def _run(program: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await program(stop)


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group: the tasks that were cancelled with it do not matter."""
    # By its attribute: Python 3.10 has no exception groups, and no program there raises one.
    while inner := getattr(error, "exceptions", ()):
        error = inner[0]
    return error
