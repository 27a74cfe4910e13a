"""What clients may use of the server: connections, sizes, and time at each step."""

from dataclasses import dataclass
from typing import Final

from fairlead.units import Seconds

_HEAD: Final = Seconds(10.0)
_IDLE: Final = Seconds(120.0)
_SILENCE: Final = Seconds(30.0)
_LINGER: Final = Seconds(2.0)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits for all clients together and for each of them."""

    connections: int = 512
    """Connections open at once; beyond it the one that has waited longest for its client is closed."""
    threads: int = 32
    """Requests in work at once."""
    head: Seconds = _HEAD
    """For the TLS handshake and the head of a request together."""
    idle: Seconds = _IDLE
    """Between two requests."""
    silence: Seconds = _SILENCE
    """Without any byte of a body, or without any byte of an answer taken."""
    pace: int = 8 << 10
    """Bytes that a body or an answer must move while `silence` passes, on average."""
    linger: Seconds = _LINGER
    """After an answer that came before the end of a body: until then what still arrives is dropped."""
    head_bytes: int = 32 << 10

    @property
    def uploads(self) -> int:
        """Bodies being received at once: some threads are left for requests without one."""
        return max(1, self.threads - max(1, self.threads // 8))
