"""The queue of uploads: durable, in order, and what is left after a kill is swept."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.device.queue import KnownFile, UploadQueue
from fairlead.errors import DeviceError, OutputError
from tests.device.worlds import NOW, DeviceWorld, device_world, joined_place


def test_a_queued_upload_is_the_content_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "result.bin"
    source.write_bytes(b"first")
    place = joined_place(tmp_path)
    with UploadQueue(place) as queue:
        queue.add(str(source), "out/result.bin", NOW)
        source.write_bytes(b"second")
    with UploadQueue(place) as queue:  # another process
        (upload,) = queue.uploads()
        assert Path(queue.content_path(upload)).read_bytes() == b"first"
        assert (upload.path, upload.size, upload.base, upload.after) == ("out/result.bin", 5, None, None)


def test_a_link_takes_no_space(tmp_path: Path) -> None:
    source = tmp_path / "result.bin"
    source.write_bytes(b"first")
    with UploadQueue(joined_place(tmp_path)) as queue:
        upload = queue.add(str(source), "result.bin", NOW, link=True)
        assert os.path.samefile(source, queue.content_path(upload))
        queue.drop(upload)
        assert source.read_bytes() == b"first"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, str], ids=["folder", "pipe", "nothing"])
def test_what_is_no_file_is_not_queued(tmp_path: Path, make: Callable[[Path], object]) -> None:
    source = tmp_path / "odd"
    make(source)
    place = joined_place(tmp_path)
    with UploadQueue(place) as queue:
        for link in (False, True):
            with pytest.raises(DeviceError, match="odd"):
                queue.add(str(source), "odd", NOW, link=link)
        assert queue.uploads() == []
    assert os.listdir(place.spool) == []


def test_uploads_of_one_path_keep_their_order(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        first = world.put("a", b"1")
        second = world.put("a", b"2")
        other = world.put("b", b"3")
        due = world.queue.next_due(NOW)
        assert due is not None
        assert due.id == first.id
        world.queue.postpone(first, "busy", NOW + 60)
        due = world.queue.next_due(NOW)
        assert due is not None
        assert due.id == other.id  # not the second: its first would come after it
        world.queue.delivered(first, KnownFile("a", '"1"', 1, "", first.id))
        due = world.queue.next_due(NOW)
        assert due is not None
        assert (due.id, due.after, world.queue.base_of(due)) == (second.id, first.id, '"1"')


def test_contents_that_no_upload_names_are_swept(tmp_path: Path) -> None:
    place = joined_place(tmp_path)
    with UploadQueue(place) as queue:
        (tmp_path / "a").write_bytes(b"1")
        upload = queue.add(str(tmp_path / "a"), "a", NOW)
        Path(place.spool, "left-by-a-kill").write_bytes(b"half")
        assert queue.sweep() == 1
        assert os.listdir(place.spool) == [upload.content]


def test_others_cannot_read_the_state(tmp_path: Path) -> None:
    place = joined_place(tmp_path)
    os.chmod(place.folder, 0o755)
    place.check()
    with UploadQueue(place):
        assert stat.S_IMODE(os.stat(place.folder).st_mode) == 0o700
        for name in ("membership.json", "queue.sqlite"):
            assert stat.S_IMODE(os.stat(os.path.join(place.folder, name)).st_mode) == 0o600


def test_a_damaged_queue_says_where_the_contents_are(tmp_path: Path) -> None:
    place = joined_place(tmp_path)
    Path(place.database).write_bytes(b"no database" * 100)
    with pytest.raises(DeviceError, match="queue cannot be opened"):
        UploadQueue(place)


def test_a_full_disk_is_one_line_and_keeps_what_was_queued(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.put("a", b"1")
        world.queue._db.execute("PRAGMA max_page_count = 1")  # as a full disk: no page can be added
        with pytest.raises(OutputError, match="the queue cannot be written: database or disk is full"):
            fill(world)
        assert world.queue.uploads()[0].path == "a"


def fill(world: DeviceWorld) -> None:
    """Queue uploads until the queue takes no more."""
    for number in range(1000):
        world.put(f"b{number}", b"2")
