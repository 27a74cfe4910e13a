"""The agent's loop: one thread, one selector over clients, kernel events and the stop signal."""

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Protocol

from fairlead.serve.agent.agent import Agent
from fairlead.serve.agent.uevents import UeventSocket
from fairlead.serve.web.httpd import PageServer, ServingOptions, listen
from fairlead.settings import Address
from fairlead.settings.agent import AgentSettings
from fairlead.signals import stop_signals
from fairlead.units import Seconds


class DeviceEvents(Protocol):
    """A descriptor that reports changed devices."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def changed(self) -> bool:
        """Read all pending events, and say whether an accelerator may have changed."""


def run(agent: Agent, settings: AgentSettings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    options = serving_options(settings, say)
    listener = listen(settings.listen)
    with ExitStack() as stack:
        stack.enter_context(listener)
        host, port = listener.getsockname()[:2]
        say(f"listening on {'https' if settings.tls else 'http'}://{Address(host, port)}/metrics")
        stop = stack.enter_context(stop_signals())
        uevents = open_uevents(say) if settings.uevents else None
        if uevents:
            stack.enter_context(closing(uevents))
        serve(agent, listener, stop, uevents, options)
    say("stopped")


def serving_options(settings: AgentSettings, say: Callable[[str], None]) -> ServingOptions:
    """Return the serving options; what TLS and tokens need is imported only where they are set."""
    options = ServingOptions()
    if settings.tls:
        from fairlead.serve.web.tls import TlsAcceptor  # noqa: PLC0415  # OpenSSL: 6 MiB resident

        options = replace(options, stream=TlsAcceptor(settings.tls, say))
    if settings.token_file:
        from fairlead.serve.web.access import TokenGuard  # noqa: PLC0415  # hmac brings half of OpenSSL

        options = replace(options, guard=TokenGuard(settings.token_file, say))
    return options


def serve(
    agent: Agent,
    listener: socket.socket,
    stop: socket.socket,
    events: DeviceEvents | None,
    options: ServingOptions | None = None,
) -> None:
    """Run until `stop` becomes readable."""
    with selectors.DefaultSelector() as selector:
        stopped: list[Seconds] = []
        server = PageServer(listener, selector, agent.answer, options)
        selector.register(stop, selectors.EVENT_READ, stopped.append)
        if events:
            selector.register(
                events, selectors.EVENT_READ, lambda _: agent.on_uevent() if events.changed() else None
            )
        with closing(server):
            while not stopped:
                pause = agent.step()
                for key, _ in selector.select(_shorter(pause, server.deadline())):
                    key.data(_now())
                server.expire(_now())


def open_uevents(say: Callable[[str], None]) -> UeventSocket | None:
    """Open the uevent socket, or log why that fails: sweeps find changes without it."""
    try:
        return UeventSocket.open()
    except OSError as error:
        say(f"no kernel events here ({error.strerror or error}): changes show at the next sweep")
        return None


def _shorter(pause: Seconds, deadline: Seconds | None) -> float:
    return pause if deadline is None else max(0.0, min(pause, deadline - _now()))


def _now() -> Seconds:
    return Seconds(time.monotonic())
