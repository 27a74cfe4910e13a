"""The server as a program: listen, follow the source, answer until SIGTERM or SIGINT."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import uvicorn

from fairlead.serve.dashboard.app import Dashboard
from fairlead.serve.dashboard.connections import BoundedConnection
from fairlead.serve.dashboard.gate import LOOPBACK
from fairlead.serve.until_signal import run_until_signal
from fairlead.serve.web.httpd import listen
from fairlead.settings import Address, TlsFiles

_LAST = 2
"""Seconds that requests have when the server ends."""
_KEEP = 60
"""Seconds for which a connection is kept between two requests."""
_HEAD = 64 * 1024
"""The most bytes of a request's head: a token may have several kilobytes."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where and how the server listens."""

    listen: Address
    hosts: Collection[str] = ()
    """Further names by which browsers reach it."""
    tls: TlsFiles | None = None


def run(dashboard: Callable[[], Dashboard], options: ServeOptions, on_start: Callable[[str], None]) -> None:
    """Serve until a signal; `on_start` gets the address of the page."""

    async def program(stop: asyncio.Event) -> None:
        await serve(dashboard(), options, on_start, stop)

    run_until_signal(program)


async def serve(
    dashboard: Dashboard, options: ServeOptions, on_start: Callable[[str], None], stop: asyncio.Event
) -> None:
    """Serve until the event is set."""
    listener = listen(options.listen)
    server = _Server(_config(dashboard, options, listener))
    async with dashboard.source.running() as following:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        on_start(address_of(listener, options))
        ended = asyncio.ensure_future(stop.wait())
        await asyncio.wait((task, ended, following), return_when=asyncio.FIRST_COMPLETED)
        dashboard.closing.set()
        server.should_exit = True
        ended.cancel()
        await task
        if following.done() and not following.cancelled():
            following.result()


def address_of(listener: socket.socket, options: ServeOptions) -> str:
    """Return the address of the page, as a browser on this machine reaches it."""
    port = listener.getsockname()[1]
    scheme = "https" if options.tls else "http"
    host = options.listen.host
    if not options.listen.loopback:
        host = next(iter(options.hosts), "") or "localhost"
    return f"{scheme}://{Address(host, port)}/"


def _config(dashboard: Dashboard, options: ServeOptions, listener: socket.socket) -> uvicorn.Config:
    names = {*LOOPBACK, *(name.lower() for name in options.hosts)}
    if options.listen.host and not options.listen.loopback:
        names.add(f"[{options.listen.host}]" if ":" in options.listen.host else options.listen.host.lower())
    return uvicorn.Config(
        dashboard.app(names),
        loop="asyncio",
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP,
        timeout_graceful_shutdown=_LAST,
        h11_max_incomplete_event_size=_HEAD,
        ssl_certfile=options.tls.cert if options.tls else None,
        ssl_keyfile=options.tls.key if options.tls else None,
    )


class _Server(uvicorn.Server):
    """A server whose signals this program handles."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield
