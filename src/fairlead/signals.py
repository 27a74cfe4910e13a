"""Stop signals as a socket that a selector can wait on."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[socket.socket]:
    """Yield a socket that becomes readable on SIGTERM or SIGINT."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        old_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        old = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield reader
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(old_fd)
