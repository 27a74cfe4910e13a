"""A link without a network: nothing is lost or repeated, and nonsense is refused."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.pipeline.frame import FrameError, FrameHeader, PartHeader
from fairlead.pipeline.link.clock import ClockOffset
from fairlead.pipeline.link.pace import FIRST, QUICK, SLOW, ChunkPace
from fairlead.pipeline.link.receiver import LinkReceiver
from fairlead.pipeline.link.sender import LinkSender
from fairlead.pipeline.link.session import LinkSession
from fairlead.pipeline.link.window import Assembler, OpenMessage, SendWindow
from fairlead.pipeline.link.wire import CHUNK_BYTES, Ack, Chunk, Hello, Ping, Pong, chunk_head, decode, encode
from fairlead.pipeline.transport import PeerGone

HELLO = {"run": "r", "session": "1"}


def open_bytes(first: memoryview, total: int) -> OpenMessage[bytearray]:
    data = bytearray(total)
    return OpenMessage(data, memoryview(data), 0)


def chunks_of(number: int) -> int:
    """Return how many chunks a frame of the test has at least."""
    return 2 if number % 3 == 0 else 1


def exchange(sender: LinkSender, receiver: LinkReceiver, steps: int) -> None:
    """Let both sides say something on a new connection, which is cut after some messages of the sender."""
    ends = (sender.session.connect(), receiver.session.connect())
    ours = sender.session.outgoing(ends[0])
    theirs = receiver.session.outgoing(ends[1])
    receiver.session.receive(ends[1], b"".join(next(ours)))
    sender.session.receive(ends[0], b"".join(next(theirs)))
    for _ in range(steps):
        receiver.session.receive(ends[1], b"".join(next(ours)))
    sender.session.disconnect(ends[0])
    receiver.session.disconnect(ends[1])


@settings(max_examples=30)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_every_frame_arrives_once_and_in_order_whatever_is_cut(cuts: list[int]) -> None:
    sender, receiver = LinkSender(HELLO, 4), LinkReceiver(HELLO, 4)
    sent = 0
    got: list[int] = []
    for steps in [*cuts, 40, 40]:
        while sender.credits():
            array = np.full(FIRST * 2 if sent % 3 == 0 else 5, sent % 251, np.uint8)
            slot = sender.reserve((array.nbytes,), 0)
            assert slot is not None
            slot.buffers[0][:] = array.data
            sender.send(FrameHeader(0, sent, 1.0, parts=(PartHeader.of(array),)), slot)
            sent += 1
        unsent = 1 + sum(chunks_of(number) for number in range(len(got), sent))
        exchange(sender, receiver, min(steps, unsent))
        while (frame := receiver.receive(0)) is not None:
            assert set(np.unique(frame.buffers[0])) == {frame.header.sequence % 251}
            got.append(frame.header.sequence)
            frame.release()
    assert got == list(range(len(got)))
    assert len(got) >= sent - 4


@given(st.binary(max_size=200), st.integers(1, 6))
def test_nonsense_is_refused_and_nothing_else_happens(data: bytes, kind: int) -> None:
    for text in (data, bytes([kind]) + bytes(7) + data):
        receiver = LinkReceiver(HELLO, 4)
        connection = receiver.session.connect()
        hello = {"protocol": 1, "received": 0, "released": 0}
        receiver.session.receive(connection, encode(Hello(hello)))
        with suppress(FrameError):
            receiver.session.receive(connection, text)
        try:
            assert receiver.receive(0) is None
        except PeerGone:
            assert text[:1] == b"\x06"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(CHUNK_BYTES + 1),
        chunk_head(0, 0, 1 << 40) + b"x",
        chunk_head(0, 5, 3) + b"x",
        chunk_head(0, 0, 0) + b"x",
        encode(Ping(math.nan)),
        b"\x01" + bytes(7) + b"[" * 100_000,
    ],
)
def test_sizes_and_times_that_make_no_sense_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


def test_a_frame_larger_than_its_header_says_is_refused_before_memory_is_taken() -> None:
    receiver = LinkReceiver(HELLO, 4)
    connection = receiver.session.connect()
    receiver.session.receive(connection, encode(Hello({"protocol": 1, "received": 0, "released": 0})))
    with pytest.raises(FrameError, match="frame header"):
        receiver.session.receive(connection, chunk_head(0, 0, 1 << 29) + bytes(200))


def test_a_session_that_the_other_side_has_lost_is_refused() -> None:
    window = SendWindow(4)
    window.post([b"one"])
    assert window.next_chunk() is not None
    window.on_ack(Ack(1, 1))
    with pytest.raises(FrameError):
        window.rewind(Ack(0, 0))
    with pytest.raises(FrameError):
        window.on_ack(Ack(2, 1))


def test_credits_bound_what_is_posted_and_what_is_accepted() -> None:
    window = SendWindow(2)
    window.post([b"a"])
    window.post([b"b"])
    assert window.credits == 0
    with pytest.raises(ValueError, match="no credit"):
        window.post([b"c"])
    session: LinkSession[bytearray] = LinkSession(HELLO, 1, open_bytes, lambda content: None)
    connection = session.connect()
    session.receive(connection, encode(Hello({"protocol": 1, "received": 0, "released": 0})))
    session.receive(connection, chunk_head(0, 0, 1) + b"x")
    with pytest.raises(FrameError, match="without a credit"):
        session.receive(connection, chunk_head(1, 0, 1) + b"x")


def test_a_chunk_out_of_place_is_refused_and_one_of_before_is_dropped() -> None:
    assembler = Assembler(open_bytes)
    assert assembler.add(Chunk(0, 0, 2, memoryview(b"a"))) is None
    with pytest.raises(FrameError):
        assembler.add(Chunk(0, 0 + 2, 3, memoryview(b"b")))
    assert assembler.add(Chunk(0, 1, 2, memoryview(b"b"))) == bytearray(b"ab")
    assert assembler.add(Chunk(0, 0, 2, memoryview(b"ab"))) is None
    with pytest.raises(FrameError):
        assembler.add(Chunk(2, 0, 1, memoryview(b"c")))


def samples() -> Iterator[tuple[float, float, float, float]]:
    """Yield exchanges with a clock that is 100 s ahead; one has a short way, the others wait in queues."""
    for there, back in [(0.5, 0.001), (0.001, 0.001), (0.001, 0.9)]:
        yield 10.0, 110.0 + there, 110.0 + there, 10.0 + there + back


def test_the_clock_offset_is_that_of_the_shortest_round_trip() -> None:
    clock = ClockOffset()
    assert clock.seconds == 0.0
    for sample in samples():
        clock.add(*sample)
    assert clock.seconds == pytest.approx(100.0)
    assert clock.round_trip == pytest.approx(0.002)
    clock.add(10.0, 200.0, 100.0, 10.0)
    assert clock.seconds == pytest.approx(100.0), "an answer before its question counts for nothing"


def test_frames_are_stamped_with_the_clock_of_the_receiver() -> None:
    sender, receiver = LinkSender(HELLO, 4), LinkReceiver(HELLO, 4)
    receiver.session.clock.add(10.0, 110.0, 110.0, 10.0)
    slot = sender.reserve((), 0)
    assert slot is not None
    sender.send(FrameHeader(0, 0, 105.0, 106.0), slot)
    exchange(sender, receiver, 2)  # a ping, and the frame
    frame = receiver.receive(0)
    assert frame is not None
    assert (frame.header.captured, frame.header.deadline) == (5.0, 6.0)


def test_a_frame_that_is_not_released_gives_its_credit_back_when_it_is_collected() -> None:
    sender, receiver = LinkSender(HELLO, 1), LinkReceiver(HELLO, 1)
    slot = sender.reserve((), 0)
    assert slot is not None
    sender.send(FrameHeader(0, 0, 1.0), slot)
    assert sender.credits() == 0
    exchange(sender, receiver, 2)
    frame = receiver.receive(0)
    assert frame is not None
    del frame
    exchange(sender, receiver, 0)
    assert sender.credits() == 1
    assert os.eventfd_read(receiver.fileno()) > 0


def test_an_end_that_closes_is_gone_for_the_other() -> None:
    sender, receiver = LinkSender(HELLO, 1), LinkReceiver(HELLO, 1)
    sender.close()
    exchange(sender, receiver, 1)
    with pytest.raises(PeerGone):
        receiver.receive(None)
    with pytest.raises(PeerGone):
        sender.credits()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_messages_come_back_as_they_were(time: float) -> None:
    for message in (Ping(time), Pong(time, 0.0, 1.0), Ack(3, 2), Hello({"protocol": 1})):
        assert decode(encode(message)) == message


def test_chunks_grow_to_whole_frames_on_a_quick_link_and_shrink_on_a_slow_one() -> None:
    pace = ChunkPace()
    first = pace.most
    pace.on_sent(100, QUICK / 2)
    assert pace.most == first, "an ack says nothing of chunks"
    pace.on_sent(first, QUICK * 2)
    assert pace.most == first
    for _ in range(5):
        pace.on_sent(pace.most, QUICK / 2)
    assert pace.most + len(chunk_head(0, 0, 1)) == CHUNK_BYTES
    pace.on_sent(1000, SLOW * 2)
    assert 1000 < pace.most < first, "whatever was slow, the next chunk is short, but not shorter than that"
    for _ in range(20):
        pace.on_sent(pace.most, QUICK / 2)
    assert pace.most + len(chunk_head(0, 0, 1)) == CHUNK_BYTES


@pytest.mark.parametrize("dtype", ["u1", "<f4"])
def test_a_frame_in_one_chunk_arrives_as_it_was_and_aligned(dtype: str) -> None:
    sender, receiver = LinkSender(HELLO, 2), LinkReceiver(HELLO, 2)
    arrays = [np.arange(300, dtype=np.dtype(dtype)).reshape(3, 100), np.arange(7, dtype=np.uint8)]
    for sequence in range(2):
        slot = sender.reserve([array.nbytes for array in arrays], 0)
        assert slot is not None
        for buffer, array in zip(slot.buffers, arrays, strict=True):
            buffer[:] = array.tobytes()
        parts = tuple(PartHeader.of(array) for array in arrays)
        sender.send(FrameHeader(0, sequence, 1.0, parts=parts), slot)
    exchange(sender, receiver, 3)
    frames = [receiver.receive(0), receiver.receive(0)]
    for frame in frames:
        assert frame is not None
        for there, array in zip(frame.buffers, arrays, strict=True):
            assert there.flags.aligned
            assert not there.flags.writeable
            np.testing.assert_array_equal(there, array)
        frame.release()
