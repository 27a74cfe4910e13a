"""Downloads that are cut, changed on the way, or damaged."""

import os
from pathlib import Path

import pytest

from fairlead.device.download import download
from fairlead.errors import DeviceError, StoreUnavailableError, TransferError
from tests.device.store import answering, cut_reply, usual
from tests.device.worlds import device_world

CONTENT = os.urandom(700_000)


def test_a_file_is_fetched(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a"] = CONTENT
        done = download(world.connection, "a", str(tmp_path / "a"))
        assert (tmp_path / "a").read_bytes() == CONTENT
        assert (done.resumed, done.file.etag) == (0, world.store.etag("a"))


@pytest.mark.parametrize("size", [0, 1, 500_000])
def test_a_cut_download_goes_on_where_it_ended(tmp_path: Path, size: int) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with device_world(tmp_path) as world:
        world.store.files["a"] = CONTENT
        world.store.faults = [usual, cut_reply(size)]
        with pytest.raises(StoreUnavailableError):
            download(world.connection, "a", str(target))
        assert target.read_bytes() == b"old"
        assert download(world.connection, "a", str(target)).resumed == size
        assert target.read_bytes() == CONTENT
        assert [path.name for path in tmp_path.glob(".a.*")] == []


def test_a_part_of_an_older_version_is_not_used(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a"] = CONTENT
        world.store.faults = [usual, cut_reply(1000)]
        with pytest.raises(StoreUnavailableError):
            download(world.connection, "a", str(tmp_path / "a"))
        world.store.files["a"] = b"another"
        assert download(world.connection, "a", str(tmp_path / "a")).resumed == 0
        assert (tmp_path / "a").read_bytes() == b"another"
        assert [path.name for path in tmp_path.glob(".a.*")] == []


def test_a_damaged_part_is_found_by_the_checksum(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a"] = CONTENT
        world.store.faults = [usual, cut_reply(1000)]
        with pytest.raises(StoreUnavailableError):
            download(world.connection, "a", str(tmp_path / "a"))
        (part,) = tmp_path.glob(".a.*.part")
        part.write_bytes(b"x" * 1000)
        with pytest.raises(TransferError, match="checksum"):
            download(world.connection, "a", str(tmp_path / "a"))
        assert not (tmp_path / "a").exists()
        download(world.connection, "a", str(tmp_path / "a"))
        assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, DeviceError), (404, TransferError), (503, StoreUnavailableError), (500, TransferError)],
)
def test_a_refusal_is_one_clear_error(tmp_path: Path, status: int, error: type[Exception]) -> None:
    with device_world(tmp_path) as world:
        world.store.faults = [answering(status)]
        with pytest.raises(error):
            download(world.connection, "a", str(tmp_path / "a"))
        assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with device_world(tmp_path) as world:
        world.store.files["a"] = CONTENT
        with pytest.raises(DeviceError, match="nowhere"):
            download(world.connection, "a", str(tmp_path / "nowhere" / "a"))
