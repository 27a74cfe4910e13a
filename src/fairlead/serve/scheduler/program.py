"""The scheduler as a program: connect, serve pages, schedule until SIGTERM or SIGINT, hand over."""

import asyncio
import os
import signal
from collections.abc import Callable

from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config import Config
from fairlead.serve.scheduler.explain import signs
from fairlead.serve.scheduler.loop import Scheduler, SchedulerSettings
from fairlead.serve.web.beside import served
from fairlead.settings import Address


def run(
    config: Config,
    catalog: Catalog,
    settings: SchedulerSettings,
    listen: Address,
    say: Callable[[str], None],
) -> None:
    """Run a replica until it is told to stop."""
    try:
        asyncio.run(_run(config, catalog, settings, listen, say))
    except BaseExceptionGroup as found:
        raise _first(found) from found


async def _run(
    config: Config,
    catalog: Catalog,
    settings: SchedulerSettings,
    listen: Address,
    say: Callable[[str], None],
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Client.connect(config, connections=settings.in_flight + 8) as client:
        scheduler = Scheduler(client, catalog, settings, say)
        with served(listen, scheduler.answer) as where:
            say(f"listening on http://{where}/metrics")
            scheduler.announce(signs(where, settings.name, os.environ, os.uname().nodename))
            await scheduler.run(stop)


def _first(found: BaseException) -> BaseException:
    """Return what went wrong first: tasks that fell with it are of no interest."""
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
