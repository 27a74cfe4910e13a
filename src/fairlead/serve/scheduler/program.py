"""The scheduler as a program: connect, serve pages, schedule until SIGTERM or SIGINT, hand over."""

import asyncio
import os
from collections.abc import Callable

from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config import Config
from fairlead.serve.scheduler.explain import signs
from fairlead.serve.scheduler.loop import Scheduler, SchedulerSettings
from fairlead.serve.until import run_until_told
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

    async def program(stop: asyncio.Event) -> None:
        async with Client.connect(
            config, connections=settings.in_flight + 8, silence=settings.answer_within
        ) as client:
            scheduler = Scheduler(client, catalog, settings, say)
            with served(listen, scheduler.answer) as where:
                say(f"listening on http://{where}/metrics")
                scheduler.announce(signs(where, settings.name, os.environ, os.uname().nodename))
                await scheduler.run(stop)

    run_until_told(program)
