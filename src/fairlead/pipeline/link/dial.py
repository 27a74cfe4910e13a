"""Keep a session connected: from the side that connects, and from the side that is connected to."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.rpc import Message, OpenedStream, Received, StreamRefusedError
from fairlead.pipeline.link.rpc_server import ServerStream
from fairlead.pipeline.link.session import LinkSession
from fairlead.pipeline.link.tls import HostTlsFiles

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
"""Short: an edge with a camera goes on within two seconds."""


class Dialer:
    """A thread that connects a session with another host, and connects it again after every cut."""

    def __init__(
        self,
        session: LinkSession[Any],
        address: str,
        tls: HostTlsFiles | None,
        method: str,
        on_trouble: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Take what is called with the reason each time that a connection ends or cannot be made."""
        self._session = session
        self._address = address
        self._tls = tls
        self._method = method
        self._on_trouble = on_trouble
        self._stop = threading.Event()
        self._stream: OpenedStream | None = None
        self.refusal = ""
        """Why the other host ended the session."""
        self._thread = threading.Thread(target=self._run, name=f"link to {address}", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the session is over, and the other host knows it."""
        self._thread.join()

    def finish(self) -> None:
        """Connect no more: the connection of now, if any, is the last one."""
        self._stop.set()

    def stop(self) -> None:
        """End the session and its connection."""
        self._stop.set()
        self._session.abandon()
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set() and not self._session.is_over:
            before = self._session.connections
            self._connect_once()
            pause = _FIRST_PAUSE if self._session.connections > before else min(2 * pause, _LONGEST_PAUSE)
            if not self._session.is_over:
                self._stop.wait(pause)

    def _connect_once(self) -> None:
        connection = self._session.connect()
        try:
            outgoing = self._session.outgoing(connection)
            self._stream = OpenedStream(self._address, self._tls, self._method, outgoing)
            self._stream.deliver(lambda data: self._session.receive(connection, data))
        except (StreamRefusedError, FrameError) as error:  # also one that has lost the session
            self.refusal = str(error)
            self._on_trouble(self.refusal)
            self._session.abandon(f"the link with {self._address} was refused: {self.refusal}")
        except FairleadError as error:  # also certificates that cannot be read now
            self._on_trouble(str(error))
        finally:
            self._session.disconnect(connection)
            if self._stream is not None:
                self._stream.cancel()


def serve_session(session: LinkSession[Any], stream: ServerStream, hello: Received) -> Iterator[Message]:
    """Yield what this host sends on a stream that another host has opened with this first message."""
    connection = session.connect()
    faults: list[str] = []

    def receive(data: Received) -> None:
        try:
            session.receive(connection, data)
        except FrameError as error:
            faults.append(str(error))
            session.disconnect(connection)

    receive(hello)
    if not faults:
        stream.deliver(receive)
        stream.on_end(lambda: session.disconnect(connection))  # after what came before the end
        yield from session.outgoing(connection)
    if faults:
        raise StreamRefusedError(faults[0])
