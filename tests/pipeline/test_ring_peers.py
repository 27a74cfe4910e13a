"""A ring whose other end is gone, or speaks nonsense."""

import array
import fcntl
import os
import select
import signal
import socket
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.frame import MOST_HEADER, FrameError, encode_header
from fairlead.pipeline.ring.pair import RingReceiver, RingSender, ring_pair
from fairlead.pipeline.transport import PeerGone
from tests.pipeline.rings import (
    SOON,
    filled,
    header,
    new_descriptors,
    open_descriptors,
    receive,
    ring,
    send,
    start,
)

GOOD = encode_header(header(0, filled(0)))
SEALED = fcntl.F_SEAL_SHRINK


def test_every_frame_is_received_before_the_end_of_the_sender() -> None:
    with ring() as (sender, receiver):
        for sequence in range(4):
            send(sender, sequence, filled(sequence))
        sender.close()
        sender.close()
        assert [receive(receiver).buffers[0][0] for _ in range(4)] == [0, 1, 2, 3]
        for _ in range(2):
            with pytest.raises(PeerGone, match="sender of the edge is gone"):
                receiver.receive(None)


def test_messages_that_the_sender_did_not_read_cost_no_frame() -> None:
    with ring(3) as (sender, receiver):
        for sequence in range(3):
            send(sender, sequence, filled(sequence))
        assert sender.credits() == 0
        receive(receiver).release()
        sender.close()  # with a message unread, which the kernel reports as a reset
        assert [receive(receiver).header.sequence for _ in range(2)] == [1, 2]
        with pytest.raises(PeerGone):
            receiver.receive(0)


def test_the_end_of_the_receiver_is_noticed_at_once() -> None:
    with ring(2) as (sender, receiver):
        slot = sender.reserve([1000], 0)
        assert slot is not None
        frames = header(0, filled(0))
        receiver.close()
        assert select.select([sender.fileno()], [], [], SOON)[0]
        calls: list[Callable[[], object]] = [
            lambda: sender.send(frames, slot),
            sender.credits,
            sender.credits,
        ]
        for call in calls:
            with pytest.raises(PeerGone, match="receiver of the edge is gone"):
                call()


def test_an_end_that_is_closed_says_so() -> None:
    with ring() as (sender, receiver):
        slot = sender.reserve([1000], 0)
        assert slot is not None
        sender.close()
        receiver.close()
        calls: list[Callable[[], object]] = [
            lambda: receiver.receive(0),
            lambda: sender.reserve([1], 0),
            lambda: sender.send(header(0, filled(0)), slot),
        ]
        for call in calls:
            with pytest.raises(PeerGone, match="this end of the edge is closed"):
                call()


SENDS = """
import sys, socket
from fairlead.pipeline.frame import FrameHeader, PartHeader
from fairlead.pipeline.ring.pair import RingSender
sender = RingSender(socket.socket(fileno=int(sys.argv[1])), 4)
for number in range(3):
    slot = sender.reserve([100_000], None)
    slot.buffers[0][:] = bytes([number]) * 100_000
    sender.send(FrameHeader(0, number, 0.0, parts=(PartHeader(2, (100_000,), 100_000),)), slot)
print("sent", flush=True)
sys.stdin.read()
"""


def test_a_sender_that_is_killed_leaves_its_frames_and_nothing_else() -> None:
    before = open_descriptors()
    ours, theirs = ring_pair(4)
    with start(SENDS, theirs.fileno()) as child:
        theirs.close()
        receiver = RingReceiver(ours)
        first = receive(receiver)
        assert child.stdout is not None
        assert child.stdout.readline() == "sent\n"
        child.send_signal(signal.SIGKILL)
        frames = [first, receive(receiver), receive(receiver)]
        with pytest.raises(PeerGone):
            receiver.receive(SOON)
        assert [frame.buffers[0].sum() for frame in frames] == [0, 100_000, 200_000]
        receiver.close()
    del first, frames, receiver
    assert new_descriptors(before) == []


RECEIVES = """
import sys, socket
from fairlead.pipeline.ring.pair import RingReceiver
receiver = RingReceiver(socket.socket(fileno=int(sys.argv[1])))
frame = receiver.receive(None)
print("received", flush=True)
sys.stdin.read()
"""


def test_a_receiver_that_is_killed_ends_a_wait_for_credits() -> None:
    ours, theirs = ring_pair(1)
    with start(RECEIVES, theirs.fileno()) as child:
        theirs.close()
        sender = RingSender(ours, 1)
        send(sender, 0, filled(0))
        assert child.stdout is not None
        assert child.stdout.readline() == "received\n"
        assert sender.reserve([10], 0) is None
        child.send_signal(signal.SIGKILL)
        with pytest.raises(PeerGone):
            sender.reserve([10], SOON)
        sender.close()


def memory(size: int, seals: int = SEALED, allocated: bool = True) -> int:
    """Return a memfd."""
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    if allocated and size:
        os.posix_fallocate(descriptor, 0, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def zero() -> int:
    """Return a descriptor that is not of memory."""
    return os.open("/dev/zero", os.O_RDONLY)


Message = tuple[bytes, tuple[Callable[[], int], ...]]
FIRST = struct.pack("<I", 0)


def control(size: int = 4096, seals: int = SEALED) -> Callable[[], int]:
    """Return what makes the control page of a first frame."""
    return lambda: memory(size, seals)


NONSENSE: dict[str, list[Message]] = {
    "a message of 3 bytes": [(b"abc", ())],
    "frame header of 0 bytes": [(FIRST, ())],
    "frame header starts with": [(FIRST + b"x" * 200, ())],
    "a message longer than": [(FIRST + GOOD.ljust(MOST_HEADER + 1, b"x"), ())],
    "in slot 256, which is not free": [(struct.pack("<I", 256) + GOOD, (lambda: memory(4096), control()))],
    "in slot 4294967295, which": [(b"\xff" * 4 + GOOD, (lambda: memory(4096), control()))],
    "in slot 0, which is not free": [(FIRST + GOOD, (lambda: memory(4096), control())), (FIRST + GOOD, ())],
    "in a slot with no memory": [(FIRST + GOOD, ())],
    "of 1000 bytes in a slot with 999 bytes": [(FIRST + GOOD, (lambda: memory(999), control()))],
    "memory of 0 bytes": [(FIRST + GOOD, (lambda: memory(0), control()))],
    "not allocated": [(FIRST + GOOD, (lambda: memory(2**40, allocated=False), control()))],
    "not sealed against shrinking": [(FIRST + GOOD, (lambda: memory(4096, seals=0), control()))],
    "not a memfd": [(FIRST + GOOD, (zero, control()))],
    "a control page of 8192 bytes": [(FIRST + GOOD, (lambda: memory(4096), control(8192)))],
    "memory that is not sealed": [(FIRST + GOOD, (lambda: memory(4096), control(seals=0)))],
    "memory of 4096 bytes that cannot be mapped": [
        (FIRST + GOOD, (lambda: memory(4096), control(seals=SEALED | fcntl.F_SEAL_WRITE)))
    ],
    "1 descriptors in one message": [(FIRST + GOOD, (lambda: memory(4096),))],
    "2 descriptors in one message": [
        (FIRST + GOOD, (lambda: memory(4096), control())),
        (struct.pack("<I", 1) + GOOD, (lambda: memory(4096), control())),
    ],
    "more descriptors than two": [(FIRST + GOOD, (lambda: memory(4096),) * 9)],
}


def post(end: socket.socket, message: Message) -> None:
    """Send a message with descriptors."""
    data, makers = message
    descriptors = [make() for make in makers]
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    end.sendmsg([data], rights)
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("fault", NONSENSE)
def test_a_sender_of_nonsense_is_named_and_cut_off(fault: str) -> None:
    before = open_descriptors()
    peer, ours = ring_pair(1)
    receiver = RingReceiver(ours)
    *accepted, last = NONSENSE[fault]
    frames = []
    for message in accepted:
        post(peer, message)
        frames.append(receive(receiver))
    post(peer, last)
    with pytest.raises(FrameError) as refused:
        receiver.receive(SOON)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(PeerGone):
        receiver.receive(SOON)
    with pytest.raises(ConnectionError):
        peer.send(b"x")
    peer.close()
    del frames, receiver, refused
    assert new_descriptors(before) == []


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5))
def test_no_message_of_a_sender_does_harm(messages: list[bytes]) -> None:
    peer, ours = ring_pair(1)
    with peer:
        receiver = RingReceiver(ours)
        for message in messages:
            peer.send(message)
        peer.close()
        with pytest.raises(FrameError if messages else PeerGone):
            receiver.receive(SOON)
        receiver.close()


RETURNS = {
    "sent b'abc'": [b"abc"],
    "sent b'\\x02'": [b"\1", b"\2"],
    "messages at once": [b"\1"] * 20,
}


@pytest.mark.parametrize("fault", RETURNS)
def test_a_receiver_of_nonsense_is_named_and_cut_off(fault: str) -> None:
    ours, peer = ring_pair(2)
    with peer:
        sender = RingSender(ours, 2)
        for sequence in range(2):
            send(sender, sequence, filled(0))
        for message in RETURNS[fault]:
            peer.send(message)
        with pytest.raises(FrameError) as refused:
            sender.reserve([10], SOON)
        assert fault.replace("'abc'", "'ab") in str(refused.value)
        with pytest.raises(PeerGone):
            sender.reserve([10], SOON)


@given(st.binary(max_size=4))
def test_no_control_page_does_harm_to_the_sender(page: bytes) -> None:
    ours, peer = ring_pair(2)
    with peer:
        sender = RingSender(ours, 2)
        send(sender, 0, filled(0))
        _, ancillary, _, _ = peer.recvmsg(8192, socket.CMSG_SPACE(8))
        own, control_page = array.array("i", ancillary[0][2])
        os.pwrite(control_page, page, 0)  # one byte says for each slot how often it came back
        os.close(own)
        os.close(control_page)
        assert 1 <= sender.credits() <= 2
        for sequence in range(sender.credits()):
            send(sender, sequence, filled(sequence))
        sender.close()


def received_descriptor(peer: socket.socket) -> int:
    """Return the descriptor of the memory that a sender of ours sends."""
    _, ancillary, _, _ = peer.recvmsg(8192, socket.CMSG_SPACE(8))
    own, control_page = array.array("i", ancillary[0][2])
    os.close(control_page)
    return own


def test_a_receiver_can_neither_change_nor_shrink_the_senders_memory() -> None:
    ours, peer = ring_pair(1)
    with peer:
        sender = RingSender(ours, 1)
        send(sender, 0, filled(3))
        descriptor = received_descriptor(peer)
        for change in (
            lambda: os.ftruncate(descriptor, 10),
            lambda: os.ftruncate(descriptor, 10**6),
            lambda: os.pwrite(descriptor, b"x", 0),
        ):
            with pytest.raises(PermissionError):
                change()
        assert os.pread(descriptor, 2, 0) == b"\3\3"
        os.close(descriptor)
        sender.close()
