"""TlsSession: the TLS of one connection, encrypted and decrypted in memory.

Between OpenSSL and a socket, each record of 16 KiB is a call and a packet of its own. Through memory the
kernel takes and gives many records at a time: fewer calls, and packets as large as an interface can take.
"""

import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Final

MOST_RECEIVED: Final = 1 << 18
"""Encrypted bytes that are taken from the kernel at once: they fit into a core's cache."""


class TlsSession:
    """One side of TLS; any thread may call, and nothing waits but `shake_hands`."""

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        """Take a context, and as a client the name that the other side's certificate must have."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._lock = threading.Lock()  # OpenSSL allows one call at a time for each connection

    def shake_hands(self, sock: socket.socket) -> None:
        """Agree with the other side over a socket that waits; OSError where that fails."""
        while True:
            try:
                self._object.do_handshake()
                return
            except ssl.SSLWantReadError:
                pass
            finally:
                self._send(sock)  # also why a handshake fails
            data = sock.recv(MOST_RECEIVED)
            if not data:
                raise ConnectionResetError("the other side has ended the connection")
            self._incoming.write(data)

    @property
    def protocol(self) -> str | None:
        """What both sides speak above TLS."""
        return self._object.selected_alpn_protocol()

    @property
    def has_output(self) -> bool:
        """Whether OpenSSL has something to say: the next bytes that are encrypted take it along."""
        return bool(self._outgoing.pending)

    def encrypt(self, pieces: Sequence[memoryview]) -> bytes:
        """Return what is to be sent for some bytes; for none, what OpenSSL has to say."""
        with self._lock:
            for piece in pieces:
                rest = piece
                while rest:
                    rest = rest[self._object.write(rest) :]
            return self._outgoing.read()

    def receive(self, data: memoryview) -> None:
        """Take encrypted bytes."""
        with self._lock:
            self._incoming.write(data)

    def decrypt_into(self, view: memoryview) -> int:
        """Decrypt one record at most, and return its length; 0: the other side says that no more comes.

        ssl.SSLWantReadError where the next record has not come whole.
        """
        with self._lock:
            return int(self._object.read(len(view), view))

    def _send(self, sock: socket.socket) -> None:
        if self._outgoing.pending:
            sock.sendall(self._outgoing.read())
