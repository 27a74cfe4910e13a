"""The extender as a program: connect, follow the cluster, answer until SIGTERM or SIGINT."""

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
"""Seconds between looks at the TLS files."""


def run(
    config: ClusterConfig, catalog: Catalog, settings: ExtenderSettings, say: Callable[[str], None]
) -> None:
    """Answer until told to stop."""
    tls = server_tls(settings.tls, settings.client_authority, say) if settings.tls else None
    listener = listen(settings.listen)

    async def program(stop: asyncio.Event) -> None:
        async with Client.connect(config) as client:
            extender = Extender(client, catalog, settings.policy, say)
            router = extender.router(known_only=bool(settings.client_authority))
            async with open_server(listener, router, tls.context if tls else None):
                host, port = listener.getsockname()[:2]
                say(f"listening on {'https' if tls else 'http'}://{Address(host, port)}")
                await _follow(extender, tls, stop)
        say("stopped")

    run_until_signal(program)


async def _follow(extender: Extender, tls: Tls | None, stop: asyncio.Event) -> None:
    """Keep up with the cluster, and with the TLS files, until told to stop."""
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(extender.follow()), group.create_task(_rotate(tls))]
        await stop.wait()
        for task in beside:
            task.cancel()


async def _rotate(tls: Tls | None) -> None:
    while tls is not None:
        await asyncio.sleep(_TICK)
        tls.files.current()
