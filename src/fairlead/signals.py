"""The wish to stop, as a socket that a selector can wait on."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[socket.socket]:
    """Yield a socket that can be read from once SIGTERM or SIGINT came."""
    here, there = socket.socketpair()
    there.setblocking(False)
    with here, there:
        old_fd = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
        old = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield here
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(old_fd)
