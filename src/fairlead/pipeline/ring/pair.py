"""Frames between two processes of one machine through shared memory.

A socket that keeps message boundaries joins the two ends. The sender's message is a slot number and a frame
header; the payload is in the slot's memory. That memory is a memfd, which travels with the first frame in it:
it has no name, so nothing stays behind, whatever is killed. Slots come back through a page of shared memory,
and the socket then wakes a sender that waits for one.

Neither end trusts the other: numbers, headers and sizes are checked, the memory is sealed so that it cannot
shrink below a reader, and only the sender can write to it.
"""

import array
import os
import socket
from collections.abc import Sequence
from typing import Final, NoReturn

from fairlead.pipeline.frame import (
    MOST_HEADER,
    FrameError,
    FrameHeader,
    PartHeader,
    encode_header,
    encode_parts,
)
from fairlead.pipeline.ring.receiver import RingReceiver
from fairlead.pipeline.ring.segment import allocate, layout, no_room, segment_size
from fairlead.pipeline.ring.wire import CONTROL_BYTES, FLAGS, NUMBER, WAITS, WAKE, SocketWait, fence, until
from fairlead.pipeline.transport import MOST_DEPTH, PeerGone, Slot

__all__ = ["RingReceiver", "RingSender", "ring_pair"]

_MESSAGE_COST: Final = 2 * MOST_HEADER
"""The most that the kernel counts for a message, about."""


def ring_pair(depth: int) -> tuple[socket.socket, socket.socket]:
    """Return the sender's and the receiver's socket of a ring with `depth` slots, either for any process."""
    _check_depth(depth)
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (sender, receiver):
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < depth * _MESSAGE_COST:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, depth * _MESSAGE_COST)
    return sender, receiver


class RingSender:
    """The `Sender` of a ring."""

    def __init__(self, end: socket.socket, depth: int) -> None:
        """Take the socket over; the slots get their memory when they are first used."""
        _check_depth(depth)
        end.setblocking(False)
        self._socket = end
        self._waiting = SocketWait(end)
        self._control_descriptor, self._control = allocate(CONTROL_BYTES, shared=True)
        """The descriptor travels with the first frame; -1 then."""
        self._free = list(range(depth))
        """A stack: the slot that came back last is the one in the caches."""
        self._memory: list[memoryview] = [memoryview(b"")] * depth
        self._unsent: dict[int, int] = {}
        """Descriptors of memory that the receiver does not have yet, by slot."""
        self._reserved: dict[int, int] = {}
        """The identity of the `Slot` that is out for a number: a reference would keep a lost one alive."""
        self._sent: dict[int, int] = {}
        """The slots that are out, in the order of their frames, with the byte that says one is back."""
        self._uses = bytearray(depth)
        """How often each slot was sent, modulo 256."""
        self._largest = 0
        self._views: list[tuple[tuple[int, ...] | None, tuple[memoryview, ...]]] = [(None, ())] * depth
        """For each slot the sizes and buffers of its last frame: mostly those of the next one too."""
        self._parts: tuple[PartHeader, ...] = ()
        """Of the last frame, as `_packed` carries them, with their `_sizes`."""
        self._packed = b""
        self._sizes: tuple[int, ...] = ()
        self._is_armed = False
        """The receiver sends a message when a slot comes back."""

    def reserve(self, sizes: Sequence[int], timeout: float | None) -> Slot | None:
        """Return a slot with one buffer for each size, or None without a credit in `timeout` seconds."""
        self._collect_in_order()
        if not self._free and not self._wait_for_credit(timeout):
            return None
        if self._is_armed:
            self._disarm()
        return self._slot(sizes)

    def send(self, header: FrameHeader, slot: Slot) -> None:
        """Hand a slot over; FrameError if the header describes other sizes, and the slot stays open then."""
        number = slot.number
        if not slot.is_open or self._reserved.get(number) != id(slot):
            raise FrameError(
                f"frame {header.sequence}: slot {number} is not reserved", "reserve one per frame"
            )
        if header.parts != self._parts:
            self._sizes, self._packed = header.sizes, encode_parts(header.parts)
            self._parts = header.parts
        sizes = self._views[number][0]
        if self._sizes != sizes:
            raise FrameError(f"frame {header.sequence} has parts of {self._sizes} bytes, its slot of {sizes}")
        message = NUMBER.pack(number) + encode_header(header, self._packed)
        if number in self._unsent:
            self._send_with_memory(message, number)
        else:
            self._send(message)
        del self._reserved[number]
        self._uses[number] = self._sent[number] = (self._uses[number] + 1) & 255
        slot.close()

    def credits(self) -> int:
        """Return the number of slots that can be reserved at once."""
        if self._is_armed or self._waiting.is_readable():
            self._disarm()
        self._collect()
        if not self._free:
            self._arm()
        return len(self._free)

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket; the frames that were sent can still be received."""
        self._socket.close()
        self._free.clear()
        self._sent.clear()
        while self._unsent:
            os.close(self._unsent.popitem()[1])
        if self._control_descriptor >= 0:
            os.close(self._control_descriptor)
            self._control_descriptor = -1

    def _slot(self, sizes: Sequence[int]) -> Slot:
        """Return a free slot; there is one."""
        number = self._free[-1]
        wanted = tuple(sizes)
        cached, buffers = self._views[number]
        if cached != wanted:
            offsets, total = layout(wanted)
            memory = self._memory_for(number, total)
            buffers = tuple([memory[at : at + size] for at, size in zip(offsets, wanted, strict=True)])
            self._views[number] = wanted, buffers
        self._free.pop()
        slot = Slot(number, buffers, self._abandon)
        self._reserved[number] = id(slot)
        return slot

    def _collect_in_order(self) -> None:
        """Take the slots that have come back, up to one that has not: mostly they come back in order."""
        sent, control = self._sent, self._control
        while sent:
            number = next(iter(sent))
            if control[number] != sent[number]:
                return
            del sent[number]
            self._free.append(number)

    def _collect(self) -> None:
        """Take every slot that has come back."""
        control = self._control
        for number in [number for number, back in self._sent.items() if control[number] == back]:
            del self._sent[number]
            self._free.append(number)

    def _wait_for_credit(self, timeout: float | None) -> bool:
        end = until(timeout)
        while True:
            self._arm()
            if self._free:
                return True
            if not self._waiting.wait(end):
                return False
            self._disarm()

    def _arm(self) -> None:
        """Let the next slot that comes back send a message, and take those that came before."""
        self._control[WAITS] = 1
        self._is_armed = True
        fence()  # either the receiver sees the byte, or this process the slot
        self._collect()

    def _disarm(self) -> None:
        """Read the messages of slots that came back; PeerGone once the receiver is gone."""
        self._control[WAITS] = 0
        self._is_armed = False
        most = 2 * len(self._uses) + 1  # one for each slot, and for each that came back while this was read
        for _ in range(most):
            try:
                message = self._socket.recv(len(WAKE) + 1)
            except BlockingIOError:
                return
            except OSError as error:
                raise self._gone() from error
            if not message:
                raise self._gone()
            if message != WAKE:
                self._refuse(f"sent {message!r}")
        self._refuse(f"sent {most} messages at once")

    def _send_with_memory(self, message: bytes, number: int) -> None:
        """Send a frame with the memory of its slot, and the first one with the control page too."""
        descriptors = [self._unsent[number]]
        if self._control_descriptor >= 0:
            descriptors.append(self._control_descriptor)
        self._send(message, descriptors)
        os.close(self._unsent.pop(number))
        if self._control_descriptor >= 0:
            os.close(self._control_descriptor)
            self._control_descriptor = -1

    def _send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        while True:
            try:
                if not descriptors:
                    self._socket.send(message, FLAGS)
                else:
                    rights = array.array("i", descriptors)
                    self._socket.sendmsg((message,), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], FLAGS)
            except BlockingIOError:
                self._waiting.wait_for_room()
            except ConnectionError as error:
                raise self._gone() from error
            except OSError as error:
                if descriptors and self._socket.fileno() >= 0:
                    raise no_room(self._largest, error) from error
                raise self._gone() from error
            else:
                return

    def _memory_for(self, number: int, total: int) -> memoryview:
        """Return the memory of a slot; where it is too small, new memory for the largest frame so far."""
        if len(self._memory[number]) < max(total, 1):
            largest = max(self._largest, segment_size(total))
            descriptor, self._memory[number] = allocate(largest)
            self._largest = largest
            if number in self._unsent:
                os.close(self._unsent[number])
            self._unsent[number] = descriptor
        return self._memory[number]

    def _abandon(self, slot: Slot) -> None:
        self._reserved.pop(slot.number, None)
        if self._socket.fileno() >= 0:
            self._free.append(slot.number)

    def _refuse(self, what: str) -> NoReturn:
        self.close()
        raise FrameError(f"the receiver {what}: the edge is closed")

    def _gone(self) -> PeerGone:
        if self._socket.fileno() < 0:
            return PeerGone("this end of the edge is closed")
        return PeerGone("the receiver of the edge is gone")


def _check_depth(depth: int) -> None:
    if not 1 <= depth <= MOST_DEPTH:
        raise ValueError(f"a ring of {depth} slots: 1 to {MOST_DEPTH} are possible")
