"""The extender as a program: connect, watch the cluster, answer until SIGTERM or SIGINT."""

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.serve.extender.extender import Extender
from fairlead.serve.until_signal import run_until_signal
from fairlead.serve.web.httpd import listen
from fairlead.serve.web.router import open_server
from fairlead.serve.web.tls import Tls, server_tls
from fairlead.settings import Address
from fairlead.settings.extender import ExtenderSettings

_TICK: Final = 5.0
"""Seconds between checks of the TLS files."""


def run(
    config: ClusterConfig, catalog: Catalog, settings: ExtenderSettings, say: Callable[[str], None]
) -> None:
    """Answer until SIGTERM or SIGINT."""
    tls = server_tls(settings.tls, settings.client_authority, say) if settings.tls else None
    listener = listen(settings.listen)

    async def program(stop: asyncio.Event) -> None:
        async with Client.connect(config) as client:
            extender = Extender(client, catalog, settings.policy, say)
            router = extender.router(require_certificate=bool(settings.client_authority))
            async with open_server(listener, router, tls.context if tls else None):
                host, port = listener.getsockname()[:2]
                say(f"listening on {'https' if tls else 'http'}://{Address(host, port)}")
                await _follow(extender, tls, stop)
        say("stopped")

    run_until_signal(program)


async def _follow(extender: Extender, tls: Tls | None, stop: asyncio.Event) -> None:
    """Watch the cluster and the TLS files, until `stop` is set."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(extender.follow()), group.create_task(_rotate(tls))]
        await stop.wait()
        for task in tasks:
            task.cancel()


async def _rotate(tls: Tls | None) -> None:
    while tls is not None:
        await asyncio.sleep(_TICK)
        tls.files.current()
