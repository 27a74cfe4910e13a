"""The end of an edge in a worker that sends: frames of any shape, and a ring that is full or gone."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from fairlead.pipeline.frame import Array, Frame
from fairlead.pipeline.ring.pair import RingReceiver, RingSender, ring_pair
from fairlead.pipeline.work.outlet import Outlet
from tests.pipeline.rings import SOON, header


class Edge:
    """An outlet with one ring, and what happens while it waits."""

    def __init__(self) -> None:
        self.outlet = Outlet("edge", 1, marked=False, wait=self.wait, is_stale=lambda epoch: False)
        self.waits: list[Sequence[int]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.senders: list[RingSender] = []
        self.receivers: list[RingReceiver] = []
        self.attach()

    def attach(self) -> None:
        """Join both ends by a new ring with two slots."""
        ours, theirs = ring_pair(2)
        self.senders.append(RingSender(ours, 2))
        self.outlet.attach(0, self.senders[-1])
        self.receivers.append(RingReceiver(theirs))

    def wait(self, descriptors: Sequence[int]) -> None:
        self.waits.append(descriptors)
        assert len(self.waits) < 5
        self.meanwhile()

    def send(self, sequence: int, array: Array) -> None:
        self.outlet.send(header(sequence, array), (array,))

    def receive(self) -> Frame:
        frame = self.receivers[-1].receive(SOON)
        assert frame is not None
        return frame


@pytest.fixture
def edge() -> Iterator[Edge]:
    edge = Edge()
    yield edge
    for sender, receiver in zip(edge.senders, edge.receivers, strict=True):
        sender.close()
        receiver.close()


def test_frames_of_changing_shapes_and_dtypes_arrive_as_they_were(edge: Edge) -> None:
    shapes = [
        ((4, 6), "u1"),
        ((6, 4), "u1"),
        ((2, 3), "<f4"),
        ((2, 3), "<i4"),
        ((1000, 7), "u1"),
        ((24,), "u1"),
    ]
    for sequence, (shape, dtype) in enumerate([*shapes, *shapes, *shapes[::-1]]):
        array = np.random.default_rng(sequence).integers(0, 100, shape).astype(dtype)
        edge.send(sequence, array)
        frame = edge.receive()
        assert frame.buffers[0].dtype == array.dtype
        np.testing.assert_array_equal(frame.buffers[0], array)
        frame.release()
    assert not edge.waits


def test_a_frame_waits_until_a_slot_comes_back(edge: Edge) -> None:
    array = np.zeros(10, np.uint8)
    for sequence in range(2):
        edge.send(sequence, array)
    edge.meanwhile = lambda: edge.receive().release()
    edge.send(2, array)
    assert len(edge.waits) == 1
    assert len(edge.waits[0]) == 1, "the ring wakes the worker"
    assert [edge.receive().header.sequence for _ in range(2)] == [1, 2]
    assert edge.outlet.counts()["sent"] == 3


def test_a_frame_whose_receiver_is_gone_goes_to_the_next_ring(edge: Edge) -> None:
    edge.send(0, np.full(10, 1, np.uint8))
    edge.receivers[0].close()
    edge.meanwhile = edge.attach
    edge.send(1, np.full(10, 2, np.uint8))
    assert edge.waits == [[]]
    frame = edge.receive()
    assert frame.header.sequence == 1
    assert set(frame.buffers[0]) == {2}
