"""The end of a ring that hands out frames: views of the sender's memory, each until its slot goes back."""

import array
import mmap
import os
import socket
import weakref
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NoReturn

import numpy as np

from fairlead.pipeline.frame import DTYPES, MOST_HEADER, Array, Frame, FrameError, PartHeader, decode_header
from fairlead.pipeline.ring.segment import layout, map_received
from fairlead.pipeline.ring.wire import CONTROL_BYTES, FLAGS, NUMBER, WAITS, WAKE, SocketWait, fence, until
from fairlead.pipeline.transport import MOST_DEPTH, PeerGone

_DESCRIPTOR_BYTES: Final = array.array("i").itemsize
_Views = tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]
"""The shape, dtype and offset of each part."""
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(2 * _DESCRIPTOR_BYTES)


class RingReceiver:
    """The `Receiver` of a ring."""

    def __init__(self, end: socket.socket) -> None:
        """Take the socket over; it must not have delivered a frame to another receiver."""
        end.setblocking(False)
        self._socket = end
        self._waiting = SocketWait(end)
        self._message = memoryview(bytearray(NUMBER.size + MOST_HEADER))
        self._memory: dict[int, mmap.mmap] = {}
        self._leases: dict[int, _Lease] = {}
        """By identity: the last reference to a lease may be this one."""
        self._lent: set[int] = set()
        self._parts: tuple[PartHeader, ...] | None = None
        """Of the last frame, with the `_total` of its bytes and the `_views` of its slot."""
        self._total = 0
        self._views: _Views = ()
        self._control: mmap.mmap | None = None
        """Comes with the first frame."""
        self._returns = bytearray(MOST_DEPTH)
        """How often each slot has gone back, modulo 256."""

    def receive(self, timeout: float | None) -> Frame | None:
        """Return the next frame, whose arrays are views of shared memory, or None after `timeout` seconds."""
        frame = self._try_receive()
        if frame is not None or timeout == 0:
            return frame
        end = until(timeout)
        while self._waiting.wait_awake(end):
            frame = self._try_receive()
            if frame is not None:
                return frame
        return None

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket; frames that are held stay readable."""
        self._socket.close()
        self._memory.clear()

    def _try_receive(self) -> Frame | None:
        """Return the next frame; None if there is none."""
        while True:
            try:
                length, ancillary, found, _ = self._socket.recvmsg_into(
                    (self._message,), _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return None
            except ConnectionResetError:
                # The sender closed before it had read every message of this end. The kernel reports that
                # once, and ahead of the frames that are still in the queue.
                continue
            except OSError as error:
                raise PeerGone("this end of the edge is closed") from error
            descriptors = _received_descriptors(ancillary) if ancillary else []
            if found & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                self._refuse_cut(found, descriptors)
            if not length:
                _close_all(descriptors)
                raise PeerGone("the sender of the edge is gone")
            return self._accept(length, descriptors)

    def _accept(self, length: int, descriptors: list[int]) -> Frame:
        """Return the frame that a message announces; close the edge if the message makes no sense."""
        if length < NUMBER.size:
            self._refuse(f"a message of {length} bytes", descriptors)
        (number,) = NUMBER.unpack_from(self._message)
        try:
            header = decode_header(self._message[NUMBER.size : length])
            if header.parts is not self._parts:  # mostly they are: decoded parts are kept
                self._total, self._views = _views(header.parts)
                self._parts = header.parts
            total, views = self._total, self._views
            if number >= MOST_DEPTH or number in self._lent:
                raise FrameError(f"frame {header.sequence} in slot {number}, which is not free")
            memory = self._mapped(number, descriptors) if descriptors else self._memory.get(number)
            if memory is None or len(memory) < total:
                has = "no memory" if memory is None else f"{len(memory)} bytes"
                raise FrameError(f"frame {header.sequence} of {total} bytes in a slot with {has}")
        except FrameError as error:
            self._refuse(str(error), descriptors, error.hint)
        root: Array = np.ndarray((total,), np.uint8, memory)
        lease = _Lease(root, _end)
        lease.receiver, lease.number = self, number
        self._lent.add(number)
        self._leases[id(lease)] = lease
        return Frame(
            header, tuple([np.ndarray(shape, dtype, root, at) for shape, dtype, at in views]), lease.end
        )

    def _mapped(self, number: int, descriptors: list[int]) -> mmap.mmap:
        """Return the memory of a slot that came with this message; map the control page of the first one."""
        if len(descriptors) != (1 if self._control is not None else 2):
            raise FrameError(f"{len(descriptors)} descriptors in one message")
        if self._control is None:
            self._control = _map_control(descriptors[1])
        self._memory[number] = map_received(descriptors[0])
        _close_all(descriptors)
        return self._memory[number]

    def end_lease(self, lease: "_Lease") -> None:
        """Give a slot back once: at its release, or when its arrays are collected, in any thread."""
        if self._leases.pop(id(lease), None) is None:
            return
        number, control = lease.number, self._control
        assert control is not None, "it came with the first frame"
        self._lent.discard(number)
        self._returns[number] = back = (self._returns[number] + 1) & 255
        fence()  # the payload is read before the sender may write to it again
        control[number] = back
        fence()  # either the sender sees the slot, or this process that it waits
        if control[WAITS]:
            self._wake()

    def _wake(self) -> None:
        # A full socket holds a message already; a sender that is gone has no use for its slots.
        with suppress(OSError):
            self._socket.send(WAKE, FLAGS)

    def _refuse_cut(self, flags: int, descriptors: list[int]) -> NoReturn:
        """Refuse a message that came without its end, or without its descriptors."""
        if flags & socket.MSG_TRUNC:
            self._refuse(f"a message longer than {len(self._message)} bytes", descriptors)
        what = "more descriptors than two, or this process has no room for another"
        self._refuse(what, descriptors, "raise the limit of open files: ulimit -n")

    def _refuse(self, what: str, descriptors: list[int], hint: str = "") -> NoReturn:
        _close_all(descriptors)
        self.close()
        raise FrameError(f"the sender sent {what}: the edge is closed", hint)


class _Lease(weakref.ref[Array]):
    """The slot of a frame that was received, until a release or the end of the last view of its payload.

    It refers to an array that every array of the payload, and every view of one, refers to.
    """

    __slots__ = ("number", "receiver")
    number: int
    receiver: RingReceiver

    def end(self) -> None:
        """Give the slot back, once."""
        self.receiver.end_lease(self)


def _end(lease: _Lease) -> None:
    lease.end()


@lru_cache(maxsize=256)
def _views(parts: tuple[PartHeader, ...]) -> tuple[int, _Views]:
    """Return the bytes of a payload, and the shape, dtype and offset of each part."""
    offsets, total = layout(tuple(part.nbytes for part in parts))
    placed = zip(parts, offsets, strict=True)
    return total, tuple((part.shape, DTYPES[part.dtype], at) for part, at in placed)


def _map_control(descriptor: int) -> mmap.mmap:
    """Map the page through which slots go back."""
    page = map_received(descriptor, mmap.ACCESS_WRITE)
    if len(page) != CONTROL_BYTES:
        raise FrameError(f"a control page of {len(page)} bytes: it has {CONTROL_BYTES}")
    return page


def _received_descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
    return list(descriptors)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
