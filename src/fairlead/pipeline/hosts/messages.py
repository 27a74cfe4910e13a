"""What the coordinator and a host say to each other: JSON objects over a session."""

import json
import os
import threading
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.pipeline.control import Message
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.session import LinkSession
from fairlead.pipeline.link.window import OpenMessage
from fairlead.pipeline.progress import Position, WorkedOn

CONTROL: Final = "Run"
CHECK: Final = "Check"
"""Methods of gRPC."""
_DEPTH: Final = 4096
"""Messages under way: a run starts with a few for each worker and link."""
_LARGEST: Final = 1 << 22


class MessageQueue:
    """A session whose messages are JSON objects, with a descriptor to wait for them."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._arrived: deque[bytearray] = deque()
        self.session: LinkSession[bytearray] = LinkSession(
            hello, _DEPTH, _open, self._arrive, self._on_change
        )

    def send(self, message: Message) -> bool:
        """Send a message, now or after the next connection; False: the other side takes none any more."""
        data = json.dumps(message).encode()
        if self.session.is_over or self.session.credits < 1 or len(data) > _LARGEST:
            return False
        self.session.post([data])
        return True

    def send_news(self, message: Message) -> None:
        """Send what the next such message replaces, unless many messages wait already."""
        if self.session.credits > _DEPTH - 64:
            self.send(message)

    def receive(self) -> list[Message]:
        """Return the messages that have arrived; FrameError for one that is no JSON object."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        with self._lock:
            arrived = [*self._arrived]
            self._arrived.clear()
        messages = []
        for data in arrived:
            self.session.release()
            messages.append(_parse(data))
        return messages

    def fileno(self) -> int:
        """Return a descriptor that is readable when messages are there, and when the session is over."""
        return self._event

    def close(self) -> None:
        """Give the descriptor back; the session must be over."""
        descriptor, self._event = self._event, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _arrive(self, data: bytearray) -> None:
        with self._lock:
            self._arrived.append(data)
        self._on_change()

    def _on_change(self) -> None:
        with suppress(OSError):  # closed
            os.eventfd_write(self._event, 1)


def state_to_json(state: bytes) -> str:
    """Return a checkpoint as text."""
    return b64encode(state).decode("ascii")


def state_from_json(text: str) -> bytes:
    """Return the checkpoint of a text."""
    return b64decode(text)


def positions_to_json(positions: Mapping[str, Mapping[int, Position]]) -> Message:
    """Return what sinks have taken as JSON."""
    return {
        name: {str(stream): list(at) for stream, at in taken.items()} for name, taken in positions.items()
    }


def positions_from_json(body: Message) -> dict[str, dict[int, Position]]:
    """Return what sinks have taken."""
    return {
        name: {int(stream): (int(at[0]), int(at[1])) for stream, at in taken.items()}
        for name, taken in body.items()
    }


def call_from_json(body: Sequence[Any], offset: float) -> WorkedOn:
    """Return what a worker does, with its time in the clock of this host; `offset` is the other one's."""
    stage, stream, sequence, since = body
    return WorkedOn(int(stage), int(stream), int(sequence), float(since) - offset if since else 0.0)


def call_to_json(call: WorkedOn) -> list[Any]:
    """Return what a worker does as JSON."""
    return [call.stage, call.stream, call.sequence, call.since]


def _open(first: memoryview, total: int) -> OpenMessage[bytearray]:
    if total > _LARGEST:
        raise FrameError(f"a message of {total} bytes between coordinator and host")
    data = bytearray(total)
    return OpenMessage(data, memoryview(data), 0)


def _parse(data: bytearray) -> Message:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise FrameError("a message that is no JSON object")
    return message
