"""The scheduler as a program: connect, serve pages, schedule until SIGTERM or SIGINT, release the Lease."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fairlead.cache.use_index import agent_targets, device_index
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.serve.scheduler.driver import Scheduler
from fairlead.serve.scheduler.replay import recorder
from fairlead.serve.scheduler.report.explain import lease_annotations
from fairlead.serve.until_signal import run_until_signal
from fairlead.serve.web.thread import serve_in_thread
from fairlead.settings import Address
from fairlead.settings.scheduler import SchedulerSettings
from fairlead.usage.source import UsageSettings, UseSource, open_source


@asynccontextmanager
async def _source(
    settings: UsageSettings | None, scheduler: Scheduler, namespace: str
) -> AsyncIterator[UseSource | None]:
    """Open the source of measured use; None where nothing is read."""
    if settings is None:
        yield None
        return
    index = partial(device_index, scheduler.cache, namespace)
    targets = partial(agent_targets, scheduler.cache, namespace, secure=bool(settings.ca_file))
    async with open_source(settings, index, targets) as source:
        yield source


def run(
    config: ClusterConfig,
    catalog: Catalog,
    settings: SchedulerSettings,
    listen: Address,
    say: Callable[[str], None],
    record: Path | None = None,
    usage: UsageSettings | None = None,
) -> None:
    """Run a replica until a signal stops it; `record` is a file for its events and effects."""
    recording = recorder(record, settings) if record is not None else None

    async def program(stop: asyncio.Event) -> None:
        async with Client.connect(
            config, connections=settings.in_flight + 8, read_timeout=settings.answer_within
        ) as client:
            scheduler = Scheduler(client, catalog, settings, say, recorder=recording)
            with serve_in_thread(listen, scheduler.answer) as where:
                say(f"listening on http://{where}/metrics")
                scheduler.announce(lease_annotations(where, settings.name, os.environ, os.uname().nodename))
                async with _source(usage, scheduler, settings.lease.namespace) as scheduler.usage:
                    await scheduler.run(stop)

    try:
        run_until_signal(program)
    finally:
        if recording is not None:
            recording.close()
