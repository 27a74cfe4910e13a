"""Serve pages in a thread that never waits for the rest of the program."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from fairlead.serve.web.httpd import Pages, PageServer, ServingOptions, listen
from fairlead.settings import Address
from fairlead.units import Seconds


@contextmanager
def serve_in_thread(
    address: Address, pages: Pages, options: ServingOptions | None = None
) -> Iterator[Address]:
    """Serve pages as long as the context lasts; yield the address."""
    listener = listen(address)
    reader, writer = socket.socketpair()
    thread = threading.Thread(
        target=_serve, args=(listener, reader, pages, options), name="pages", daemon=True
    )
    host, port = listener.getsockname()[:2]
    thread.start()
    try:
        yield Address(host, port)
    finally:
        writer.close()
        thread.join()
        reader.close()


def _serve(
    listener: socket.socket, stop: socket.socket, pages: Pages, options: ServingOptions | None
) -> None:
    stopped: list[Seconds] = []
    with (
        selectors.DefaultSelector() as selector,
        closing(PageServer(listener, selector, pages, options)) as server,
    ):
        selector.register(stop, selectors.EVENT_READ, stopped.append)
        while not stopped:
            deadline = server.deadline()
            for key, _ in selector.select(None if deadline is None else max(0.0, deadline - _now())):
                key.data(_now())
            server.expire(_now())


def _now() -> Seconds:
    return Seconds(time.monotonic())
