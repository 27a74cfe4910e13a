"""Uploads to a store that loses connections, has other versions, and takes nothing for a while."""

from pathlib import Path

import pytest

from fairlead.device.queue import KnownFile
from fairlead.device.upload import conflict_name
from fairlead.device.verdict import UploadStep, pause_after
from fairlead.errors import StoreUnavailableError
from tests.device.store import answering, disconnect_after, lose_reply, usual
from tests.device.worlds import NOW, device_world


def test_uploads_arrive_whole_and_leave_the_queue(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("out/deep/a", b"1" * 3_000_000)
        world.put("b", b"")
        assert [sent.step for sent in world.send()] == [UploadStep.DELIVERED] * 2
        assert world.store.files == {"out/deep/a": b"1" * 3_000_000, "b": b""}
        assert world.queue.uploads() == []
        assert list(Path(world.place.spool).iterdir()) == []


def test_a_second_version_replaces_the_own_first_one(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("a", b"1")
        world.put("a", b"2")
        world.send()
        world.put("a", b"3")
        assert [sent.kept for sent in world.send()] == [""]
        assert world.store.files == {"a": b"3"}


@pytest.mark.parametrize("size", [0, 1, 700_000])
def test_a_cut_upload_is_sent_again(tmp_path: Path, size: int) -> None:
    with device_world(tmp_path) as world:
        world.put("a", b"1" * 900_000)
        world.store.faults = [disconnect_after(size)]
        with pytest.raises(StoreUnavailableError):
            world.send()
        assert world.store.files == {}
        assert [sent.step for sent in world.send()] == [UploadStep.DELIVERED]
        assert world.store.files == {"a": b"1" * 900_000}


@pytest.mark.parametrize("digests", [True, False])
def test_an_upload_whose_reply_was_lost_is_no_conflict(tmp_path: Path, digests: bool) -> None:
    with device_world(tmp_path) as world:
        world.store.digests = digests
        world.put("a", b"1")
        world.store.faults = [lose_reply]
        with pytest.raises(StoreUnavailableError):
            world.send()
        world.put("a", b"2")
        assert [(sent.step, sent.kept) for sent in world.send()] == [(UploadStep.DELIVERED, "")] * 2
        assert world.store.files == {"a": b"2"}


@pytest.mark.parametrize("size", [1, 2_000_000])
def test_with_another_version_in_the_store_both_are_kept(tmp_path: Path, size: int) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a.txt"] = b"theirs"
        world.put("a.txt", b"m" * size)
        (sent,) = world.send()
        assert sent.kept == conflict_name("a.txt", "edge", NOW)
        assert world.store.files == {"a.txt": b"theirs", sent.kept: b"m" * size}
        assert [(each.path, each.kept) for each in world.queue.conflicts()] == [("a.txt", sent.kept)]


def test_a_conflict_lasts_until_the_version_of_the_store_is_fetched_or_replaced(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a"] = b"theirs"
        world.put("a", b"mine")
        world.send()
        world.put("a", b"newer")
        (sent,) = world.send()
        assert sent.kept.endswith("-2")
        world.queue.remember(KnownFile("a", world.store.etag("a"), 6, ""))  # as `get` does
        world.put("a", b"newest")
        assert [each.kept for each in world.send()] == [""]
        world.store.files["a"] = b"theirs again"
        world.put("a", b"forced", replace=True)
        assert [each.kept for each in world.send()] == [""]
        assert world.store.files["a"] == b"forced"


@pytest.mark.parametrize(
    ("status", "step", "again"),
    [
        (503, UploadStep.PAUSE, 0.0),
        (429, UploadStep.PAUSE, 0.0),
        (507, UploadStep.RETRY, 7.0),
        (500, UploadStep.RETRY, 7.0),
        (413, UploadStep.REFUSED, None),
        (403, UploadStep.REFUSED, None),
        (401, UploadStep.STOP, 0.0),
    ],
)
def test_a_refusal_says_when_the_upload_is_tried_again(
    tmp_path: Path, status: int, step: UploadStep, again: float | None
) -> None:
    with device_world(tmp_path) as world:
        world.put("a", b"1")
        world.store.faults = [answering(status, b"reason", Retry_After="7")]
        (sent,) = world.send()
        assert sent.step is step
        assert sent.pause == (7.0 if step in (UploadStep.PAUSE, UploadStep.RETRY) else None)
        assert "reason" in sent.reason
        (upload,) = world.queue.uploads()
        assert upload.problem == sent.reason
        assert upload.refused is (again is None)
        if again is not None:
            assert upload.next_try == NOW + again
        world.queue.retry_all()
        assert [each.step for each in world.send()] == [UploadStep.DELIVERED]


def test_the_content_of_a_link_that_changed_is_not_delivered(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("a", b"first", link=True)
        (tmp_path / "source").write_bytes(b"later")
        (sent,) = world.send()
        assert sent.step is UploadStep.REFUSED
        assert world.store.files == {}
        assert len(world.queue.uploads()) == 1


def test_a_connection_that_the_store_closed_is_opened_again(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("a", b"1")
        world.put("b", b"2")
        world.store.faults = [usual, disconnect_after(0)]
        assert [sent.step for sent in world.send()] == [UploadStep.DELIVERED] * 2


def test_pauses_grow_to_five_minutes_and_are_spread() -> None:
    assert [pause_after(tries, None, lambda: 1.0) for tries in (0, 1, 2, 20, 2000)] == [1, 2, 4, 300, 300]
    assert pause_after(3, None, lambda: 0.0) == 4
    assert pause_after(0, 600.0) == 600


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("out/a.tar", "out/a.conflict-edge-20270115T080000Z.tar"),
        ("a", "a.conflict-edge-20270115T080000Z"),
        ("x.d/.rc", "x.d/.rc.conflict-edge-20270115T080000Z"),
    ],
)
def test_a_conflict_has_a_name_that_says_whose_it_is(path: str, name: str) -> None:
    assert conflict_name(path, "edge", NOW) == name
