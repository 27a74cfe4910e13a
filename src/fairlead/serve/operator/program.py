"""The operator as a program: connect, serve pages, reconcile until SIGTERM or SIGINT, release the Lease."""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import UserError
from fairlead.serve.operator.controllers import CONTROLLERS, ControllerFactory
from fairlead.serve.operator.driver import OperatorReplica
from fairlead.serve.until_signal import run_until_signal
from fairlead.serve.web.httpd import ServingOptions
from fairlead.serve.web.thread import serve_in_thread
from fairlead.settings.operator import OperatorSettings


def run(
    config: ClusterConfig,
    settings: OperatorSettings,
    say: Callable[[str], None],
    factories: Sequence[ControllerFactory] = CONTROLLERS,
) -> None:
    """Run a replica until a signal stops it."""
    check(factories)
    controllers = [make(settings) for make in factories]
    options = serving_options(settings, say)
    scheme = "https" if settings.tls else "http"

    async def program(stop: asyncio.Event) -> None:
        connections = settings.in_flight + 8
        async with Client.connect(
            config, connections=connections, read_timeout=settings.answer_within
        ) as client:
            operator = OperatorReplica(client, controllers, settings, say)
            with serve_in_thread(settings.listen, operator.answer, options) as where:
                say(f"listening on {scheme}://{where}/metrics")
                kinds = ", ".join(one.resource.kind for one in controllers)
                say(f"reconciles {kinds}")
                await operator.run(stop)

    run_until_signal(program)


def check(factories: Sequence[ControllerFactory] = CONTROLLERS) -> None:
    """Refuse to run without a controller."""
    if not factories:
        raise UserError(
            "this version of fairlead has no controller: the operator would do nothing",
            "install a version whose serve/operator/controllers.py names one",
        )


def serving_options(settings: OperatorSettings, say: Callable[[str], None]) -> ServingOptions:
    """Return how the pages are served; what TLS needs is imported only where it is set."""
    if settings.tls is None:
        return ServingOptions()
    from fairlead.serve.web.tls import TlsAcceptor  # noqa: PLC0415  # OpenSSL: 6 MiB resident

    return ServingOptions(stream=TlsAcceptor(settings.tls, say))
