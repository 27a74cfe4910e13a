"""The input edge of a worker at the end of an epoch: nothing of the epoch before reaches the stage."""

from collections.abc import Iterator

import pytest

from fairlead.pipeline.edge import EdgeContract
from fairlead.pipeline.ring.pair import RingSender
from fairlead.pipeline.work.intake import Intake
from tests.pipeline.rings import filled, ring, send


@pytest.fixture
def edge() -> Iterator[tuple[RingSender, Intake]]:
    with ring(depth=8) as (sender, receiver):
        intake = Intake("a->b", EdgeContract(depth=4), 1, merged=False, replayable=True)
        intake.attach(0, receiver)
        yield sender, intake


def taken(intake: Intake) -> list[tuple[int, int]]:
    """Return the epochs and numbers of the frames that a stage gets now."""
    frames = []
    while (frame := intake.take()) is not None:
        frames.append((frame.header.epoch, frame.header.sequence))
        frame.release()
    return frames


def test_a_new_epoch_drops_what_is_buffered_and_what_still_comes(edge: tuple[RingSender, Intake]) -> None:
    sender, intake = edge
    for sequence in range(6):
        send(sender, sequence, filled(sequence))
    first = intake.take()  # four are in the buffer now, and two in the ring
    assert first is not None
    first.release()
    assert intake.counts()["depth"] == 3

    intake.start_epoch(1, {0: 2})
    send(sender, 2, filled(2), epoch=1)
    send(sender, 3, filled(3), epoch=1)

    assert taken(intake) == [(1, 2), (1, 3)]
    counts = intake.counts()
    assert counts["dropped"] == {"stale": 5}
    assert (counts["received"], counts["taken"], counts["depth"]) == (8, 3, 0)
    assert sender.credits() == 8, "every slot has come back"


def test_frames_of_an_epoch_that_has_not_begun_wait_for_it(edge: tuple[RingSender, Intake]) -> None:
    sender, intake = edge
    send(sender, 0, filled(0), epoch=1)
    send(sender, 1, filled(1), epoch=1)
    assert taken(intake) == []
    intake.start_epoch(1, {0: 0})
    assert taken(intake) == [(1, 0), (1, 1)]
    assert intake.counts()["dropped"] == {}


def test_a_new_epoch_drops_what_waits_for_its_turn() -> None:
    with ring(depth=8) as (sender, receiver):
        intake = Intake("a->b", EdgeContract(depth=4), 1, merged=True, replayable=True)
        intake.attach(0, receiver)
        send(sender, 1, filled(1))
        assert intake.take() is None
        assert intake.counts()["depth"] == 1
        intake.start_epoch(1, {0: 0})
        for sequence in (0, 1):
            send(sender, sequence, filled(sequence), epoch=1)
        assert taken(intake) == [(1, 0), (1, 1)]
        assert intake.counts()["dropped"] == {"stale": 1}
        assert intake.counts()["taken"] == 2
