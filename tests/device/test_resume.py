"""Large uploads that are cut go on where they ended."""

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fairlead.device.connection import StoreConnection
from fairlead.device.digests import repr_digest
from fairlead.device.queue import UploadQueue
from fairlead.device.resume import FROM_SIZE
from fairlead.device.upload import Uploader, conflict_name
from fairlead.device.verdict import UploadStep
from fairlead.errors import StoreUnavailableError
from tests.device.store import Handler, answering, keep_part, lose_reply, usual
from tests.device.worlds import NOW, device_world, joined_place
from tests.store.stores import TOKEN, Store, store

CONTENT = bytes(range(256)) * (FROM_SIZE // 256) + b"the end"


def test_a_cut_upload_goes_on_where_it_ended(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("a", CONTENT)
        world.store.faults = [usual, keep_part(3_000_000), usual, keep_part(1_000_000)]
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                world.send()
        assert world.store.files == {}
        assert len(world.store.parts["a"]) == 4_000_000
        sent: list[int] = []
        world.store.faults = [usual, lambda handler: note_length(handler, sent)]
        assert [each.step for each in world.send()] == [UploadStep.DELIVERED]
        assert world.store.files == {"a": CONTENT}
        assert sent == [len(CONTENT) - 4_000_000]


def note_length(handler: Handler, lengths: list[int]) -> bool:
    """Note how much is sent, and let the store handle it."""
    lengths.append(int(handler.headers["Content-Length"]))
    return False


def test_what_the_store_has_damaged_is_sent_again_from_the_start(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.parts["a"] = bytes(1_000_000)
        world.put("a", CONTENT)
        assert [each.step for each in world.send()] == [UploadStep.DELIVERED]
        assert world.store.files == {"a": CONTENT}


def test_an_upload_that_is_complete_without_an_answer_is_finished(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("a", CONTENT)
        world.store.faults = [usual, lose_reply]
        with pytest.raises(StoreUnavailableError):
            world.send()
        assert [(each.step, each.kept) for each in world.send()] == [(UploadStep.DELIVERED, "")]
        assert [method for method, _ in world.store.requests] == ["PUT", "PUT", "PUT", "HEAD"]


def test_a_refused_condition_sends_nothing(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a"] = b"theirs"
        world.put("a", CONTENT)
        assert [each.kept for each in world.send()] == [conflict_name("a", "edge", NOW)]
        assert world.store.files["a"] == b"theirs"


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        (answering(409, b"another connection sends this upload", Retry_After="1"), UploadStep.RETRY),
        (answering(507, b"over the quota"), UploadStep.RETRY),
        (answering(503, b"frozen", Retry_After="5"), UploadStep.PAUSE),
        (answering(413), UploadStep.REFUSED),
    ],
    ids=["busy", "quota", "frozen", "size"],
)
def test_answers_to_the_question_are_those_of_any_upload(
    tmp_path: Path, fault: Callable[[Handler], bool], step: UploadStep
) -> None:
    with device_world(tmp_path) as world:
        world.put("a", CONTENT)
        world.store.faults = [fault]
        assert [each.step for each in world.send()] == [step]


def test_the_store_takes_the_rest_of_an_upload_that_was_cut(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        part = cut_upload(served, "a", 3_000_000)
        place = joined_place(tmp_path, served.url.rstrip("/"), TOKEN)
        with UploadQueue(place) as queue, closing(StoreConnection(served.url, "", TOKEN)) as connection:
            (tmp_path / "source").write_bytes(CONTENT)
            queued = queue.add(str(tmp_path / "source"), "a", NOW)
            assert Uploader(queue, connection, "edge").send(queued, NOW).step is UploadStep.DELIVERED
        # The file that the cut upload began is the one that has the name now.
        assert (served.root / "a").stat().st_ino == part
        assert (served.root / "a").read_bytes() == CONTENT


def cut_upload(served: Store, name: str, size: int) -> int:
    """Send the beginning of a file in a part that is cut; return its inode once the store keeps it."""
    digest = repr_digest(hashlib.sha256(CONTENT).hexdigest())
    lines = (f"Content-Length: {len(CONTENT)}", f"Repr-Digest: {digest}")
    place = f"Content-Range: bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"
    with served.connection() as client:
        client.sendall(served.head("PUT", f"/{name}", *lines, place) + CONTENT[:size])
    staging = served.root / ".fairlead" / "staging"
    while not (parts := os.listdir(staging)) or (staging / parts[0]).stat().st_size < size:
        threading.Event().wait(0.01)
    return (staging / parts[0]).stat().st_ino
