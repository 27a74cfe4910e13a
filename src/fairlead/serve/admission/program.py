"""The webhook as a program: connect, and answer until SIGTERM or SIGINT."""

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.serve.admission.webhook import Webhook
from fairlead.serve.until_signal import run_until_signal
from fairlead.serve.web.httpd import Response, listen
from fairlead.serve.web.router import Router, open_server
from fairlead.serve.web.tls import server_tls
from fairlead.settings import Address
from fairlead.settings.admission import AdmissionSettings

PATH: Final = "/review"
"""The path that the API server calls."""
_TICK: Final = 5.0
"""Seconds between checks of the TLS files."""


def run(config: ClusterConfig, settings: AdmissionSettings, say: Callable[[str], None]) -> None:
    """Answer until SIGTERM or SIGINT."""
    tls = server_tls(settings.tls, "", say)
    listener = listen(settings.listen)

    async def program(stop: asyncio.Event) -> None:
        async with Client.connect(config) as client:
            router = router_of(Webhook(client, settings.rules, say))
            async with open_server(listener, router, tls.context):
                host, port = listener.getsockname()[:2]
                say(f"listening on https://{Address(host, port)}{PATH}")
                while not stop.is_set():
                    tls.files.current()
                    tick = asyncio.wait_for(stop.wait(), _TICK)
                    await asyncio.gather(tick, return_exceptions=True)
        say("stopped")

    run_until_signal(program)


def router_of(webhook: Webhook) -> Router:
    """Return the router of the webhook."""
    ok = Response(200, b"ok\n")
    pages = {"/healthz": lambda: ok, "/readyz": lambda: ok}
    return Router({PATH: webhook.answer}, pages, require_certificate=False)
