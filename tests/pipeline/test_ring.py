"""The ring: payloads without a copy, slots that come back, and memory that is given back."""

import gc
import json
import select
import socket
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.pipeline.frame import DTYPES, RECORD, Frame, FrameError, FrameHeader, PartHeader
from fairlead.pipeline.ring.pair import RingReceiver, RingSender, ring_pair
from fairlead.pipeline.transport import Receiver, Sender, SlotMemoryError
from tests.pipeline.rings import (
    SOON,
    filled,
    header,
    mapped_slots,
    new_descriptors,
    open_descriptors,
    receive,
    ring,
    send,
    start,
)


def test_arrays_arrive_with_their_dtypes_and_shapes() -> None:
    arrays = [
        np.arange(24, dtype=DTYPES[code]).reshape(2, 3, 4) for code in DTYPES if code not in (1, RECORD)
    ]
    arrays += [
        np.array([True, False]),
        np.array(7.5),
        np.zeros((0, 3), np.float32),
        np.ones((1,) * 8, np.int8),
    ]
    with ring() as (sender, receiver):
        send(sender, 5, *arrays)
        frame = receive(receiver)
        assert frame.header == header(5, *arrays)
        for sent, received in zip(arrays, frame.buffers, strict=True):
            assert (received.dtype, received.shape) == (sent.dtype, sent.shape)
            np.testing.assert_array_equal(received, sent)
            assert received.size == 0 or received.ctypes.data % 64 == 0


def test_a_record_and_an_empty_frame_travel_too() -> None:
    text = json.dumps({"people": 3}).encode()
    with ring(1) as (sender, receiver):
        slot = sender.reserve([len(text)], 0)
        assert slot is not None
        slot.buffers[0][:] = text
        sender.send(FrameHeader(1, 0, 0.0, parts=(PartHeader.of_record(len(text)),)), slot)
        record = receive(receiver)
        assert json.loads(record.buffers[0].tobytes()) == {"people": 3}
        record.release()
        for sequence in range(3):
            send(sender, sequence)
            empty = receive(receiver)
            assert (empty.header, empty.buffers) == (header(sequence), ())
            empty.release()


def test_arrays_are_views_of_the_senders_memory_that_the_receiver_cannot_write() -> None:
    with ring() as (sender, receiver):
        slot = sender.reserve([1000], 0)
        assert slot is not None
        memory = slot.buffers[0]
        memory[:] = filled(1).data
        sender.send(header(0, filled(1)), slot)
        array = receive(receiver).buffers[0]
        memory[10] = 99  # a sender of ours lets go of the buffer; this one shows that nothing was copied
        assert array[10] == 99
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_a_slot_comes_back_when_its_frame_is_released_once() -> None:
    with ring(2) as (sender, receiver):
        send(sender, 0, filled(0))
        send(sender, 1, filled(1))
        assert sender.credits() == 0
        assert sender.reserve([10], 0) is None
        assert sender.reserve([10], 0.01) is None
        frame = receive(receiver)
        assert sender.credits() == 0
        frame.release()
        frame.release()
        assert sender.credits() == 1
        assert receive(receiver).buffers[0][0] == 1


def test_a_lost_frame_gives_its_slot_back_once_no_view_of_it_is_left() -> None:
    with ring(1) as (sender, receiver):
        send(sender, 0, filled(7, 12), filled(8, 12))
        frame = receive(receiver)
        row = frame.buffers[1].reshape(3, 4)[1]
        del frame
        gc.collect()
        assert sender.credits() == 0
        assert row.tolist() == [8] * 4
        del row
        gc.collect()
        assert sender.credits() == 1


def test_a_release_ends_the_slot_in_spite_of_a_view() -> None:
    with ring(1) as (sender, receiver):
        send(sender, 0, filled(7))
        frame = receive(receiver)
        kept = frame.buffers[0]
        frame.release()
        send(sender, 1, filled(8))
        second = receive(receiver)
        del kept
        gc.collect()
        assert sender.credits() == 0
        second.release()
        assert sender.credits() == 1


def test_a_slot_that_is_abandoned_or_lost_is_free_again() -> None:
    with ring(1) as (sender, _):
        slot = sender.reserve([10], 0)
        assert slot is not None
        assert sender.credits() == 0
        slot.abandon()
        slot.abandon()
        assert sender.credits() == 1
        lost = sender.reserve([10], 0)
        assert lost is not None
        del lost
        gc.collect()
        assert sender.credits() == 1
        with pytest.raises(FrameError, match="not reserved"):
            sender.send(header(0, filled(0, 10)), slot)


def test_a_slot_is_sent_once_with_its_own_sizes_by_its_own_sender() -> None:
    with ring() as (sender, receiver), ring() as (other, _):
        slot = sender.reserve([10], 0)
        assert slot is not None
        with pytest.raises(FrameError, match=r"parts of \(9,\) bytes, its slot of \(10,\)"):
            sender.send(header(0, filled(0, 9)), slot)
        with pytest.raises(FrameError, match="not reserved"):
            other.send(header(0, filled(0, 10)), slot)
        sender.send(header(0, filled(0, 10)), slot)
        assert slot.buffers == ()
        with pytest.raises(FrameError, match="not reserved"):
            sender.send(header(0, filled(0, 10)), slot)
        assert receive(receiver).header.sequence == 0


def test_a_larger_frame_gets_larger_memory_and_held_frames_stay() -> None:
    with ring(2) as (sender, receiver):
        held = []
        for sequence, size in enumerate([10, 5_000, 70_000, 300_000, 3, 900_000]):
            send(sender, sequence, filled(sequence, size))
            held.append(receive(receiver))
            assert all((frame.buffers[0] == frame.header.sequence).all() for frame in held)
            held[:-1] = []
        assert held[0].buffers[0].size == 900_000


def test_memory_lives_as_long_as_the_frames_in_it_and_no_longer() -> None:
    before, mapped = open_descriptors(), mapped_slots()
    with ring(3) as (sender, receiver):
        for sequence in range(3):
            send(sender, sequence, filled(sequence, 100_000))
        array = receive(receiver).buffers[0]
    del sender, receiver
    assert (array == 0).all()
    assert mapped_slots() == mapped + 1
    del array
    assert mapped_slots() == mapped
    assert new_descriptors(before) == []


def test_both_ends_can_be_waited_for() -> None:
    with ring(1) as (sender, receiver):
        first: Sender = sender
        second: Receiver = receiver
        assert select.select([first.fileno(), second.fileno()], [], [], 0)[0] == []
        send(sender, 0, filled(0))
        assert select.select([first.fileno(), second.fileno()], [], [], SOON)[0] == [second.fileno()]
        frame = receive(receiver)
        assert first.credits() == 0, "from here on a slot that comes back is announced"
        frame.release()
        assert select.select([first.fileno(), second.fileno()], [], [], SOON)[0] == [first.fileno()]
        assert first.credits() == 1
        assert select.select([first.fileno(), second.fileno()], [], [], 0)[0] == []


def test_a_receiver_without_a_frame_returns_after_its_timeout() -> None:
    with ring() as (_, receiver):
        assert receiver.receive(0) is None
        assert receiver.receive(0.01) is None


COUNTS = """
import sys, socket, numpy as np
from fairlead.pipeline.frame import FrameHeader, PartHeader
from fairlead.pipeline.ring.pair import RingSender
sender = RingSender(socket.socket(fileno=int(sys.argv[1])), 4)
for number in range(int(sys.argv[2])):
    slot = sender.reserve([8, number % 7], None)
    slot.buffers[0][:] = number.to_bytes(8, "little")
    parts = PartHeader(2, (8,), 8), PartHeader(2, (number % 7,), number % 7)
    sender.send(FrameHeader(3, number, 0.0, parts=parts), slot)
"""


def test_frames_of_another_process_arrive_in_order_without_loss() -> None:
    ours, theirs = ring_pair(4)
    with start(COUNTS, theirs.fileno(), "2000") as child:
        theirs.close()
        receiver = RingReceiver(ours)
        for number in range(2000):
            frame = receive(receiver)
            assert frame.header.sequence == number
            assert int.from_bytes(frame.buffers[0].tobytes(), "little") == number
            assert frame.buffers[1].size == number % 7
            frame.release()
        assert child.wait(SOON) == 0
        receiver.close()


def test_slots_come_back_also_when_the_socket_is_full() -> None:
    ours, theirs = ring_pair(256)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    sender, receiver = RingSender(ours, 256), RingReceiver(theirs)
    for turn in range(300):  # a slot is counted modulo 256
        send(sender, turn, filled(turn, 8))
        assert receive(receiver).header.sequence == turn
    for sequence in range(256):
        send(sender, sequence, filled(sequence, 8))
    frames = [receive(receiver) for _ in range(256)]
    assert sender.credits() == 0
    for frame in frames:
        frame.release()
    assert sender.credits() == 256
    sender.close()
    receiver.close()


@pytest.mark.parametrize("depth", [0, 257])
def test_a_ring_has_a_bounded_number_of_slots(depth: int) -> None:
    with pytest.raises(ValueError, match="1 to 256"):
        ring_pair(depth)


def test_more_memory_than_the_machine_has_is_refused_and_the_slot_stays() -> None:
    with ring(1) as (sender, receiver):
        with pytest.raises(SlotMemoryError, match="no shared memory for a slot") as refused:
            sender.reserve([2**60], 0)
        assert "lower the depth" in refused.value.hint
        with pytest.raises(ValueError, match="-1 bytes"):
            sender.reserve([-1], 0)
        send(sender, 0, filled(1))
        assert receive(receiver).buffers[0][0] == 1


LIMITED = """
import resource, sys, socket
from fairlead.pipeline.ring.pair import RingSender
from fairlead.pipeline.transport import SlotMemoryError
sender = RingSender(socket.socket(fileno=int(sys.argv[1])), 4)
limit = int(sys.argv[3])
resource.setrlimit(getattr(resource, sys.argv[2]), (limit, limit))
try:
    sender.reserve([1 << 20], 0)
except SlotMemoryError as error:
    print(f"{error}; {error.hint}")
assert sender.credits() == 4
"""


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("RLIMIT_FSIZE", "65536", "File too large; lower the depth"),
        ("RLIMIT_NOFILE", "3", "Too many open files; raise"),
    ],
)
def test_a_limit_of_the_process_is_named(limit: str, value: str, message: str) -> None:
    ours, theirs = ring_pair(4)
    with ours, start(LIMITED, theirs.fileno(), limit, value) as child:
        theirs.close()
        output, _ = child.communicate(timeout=SOON)
    assert message in output
    assert child.returncode == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "abandon", "receive", "receive", "release", "lose"]),
        st.integers(0, 9000),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(st.integers(1, 4), STEPS)
def test_credits_payloads_and_order_agree_with_a_queue(depth: int, steps: list[tuple[str, int]]) -> None:
    queue: deque[tuple[int, int]] = deque()
    held: deque[Frame] = deque()
    with ring(depth) as (sender, receiver):
        for sequence, (step, size) in enumerate(steps):
            assert sender.credits() == depth - len(queue) - len(held)
            if step == "send" and len(queue) + len(held) < depth:
                send(sender, sequence, filled(sequence, size))
                queue.append((sequence, size))
            elif step == "abandon":
                slot = sender.reserve([size], 0)
                assert (slot is None) == (len(queue) + len(held) == depth)
                if slot is not None:
                    slot.abandon()
            elif step == "receive":
                frame = receiver.receive(0)
                assert (frame is None) == (not queue)
                if frame is not None:
                    assert (frame.header.sequence, frame.buffers[0].size) == queue.popleft()
                    held.append(frame)
            elif step in ("release", "lose") and held:
                frame = held.popleft()
                if step == "release":
                    frame.release()
                del frame
            for frame in held:
                assert (frame.buffers[0] == frame.header.sequence % 251).all()
