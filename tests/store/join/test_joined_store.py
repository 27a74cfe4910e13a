"""A device and the real store: join, transfers, conflicts, quota, freeze, revocation."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.device.connection import StoreConnection
from fairlead.device.download import download
from fairlead.device.listing import list_folder
from fairlead.device.place import DevicePlace
from fairlead.device.queue import UploadQueue
from fairlead.device.report import DeviceReport
from fairlead.device.session import SessionClient, StoreAddress, join
from fairlead.device.upload import Sent, Uploader
from fairlead.device.verdict import UploadStep
from fairlead.errors import DeviceError, SettingsError, TransferError
from fairlead.invite import mint_admin, mint_invite, parse_key
from fairlead.store.settings import StoreFiles
from fairlead.units import Bytes
from tests.store.stores import Store, store

KEY = "the key of a session of tests"
REPORT = DeviceReport("pi", {"cores": 4, "accelerators": []}, {"free_bytes": 1, "size_bytes": 2})


@dataclass
class JoinedWorld:
    """A device that has joined a real store."""

    folder: Path
    store: Store
    place: DevicePlace
    queue: UploadQueue
    client: SessionClient

    def put(self, path: str, content: bytes) -> Sent:
        """Queue a content, and send it."""
        (self.folder / "source").write_bytes(content)
        upload = self.queue.add(str(self.folder / "source"), path, time.time())
        return Uploader(self.queue, self.client.connection, "pi").send(upload, time.time())


@contextmanager
def joined(folder: Path, quota: Bytes | None = None) -> Iterator[JoinedWorld]:
    """Yield a device and its store."""
    (folder / "key").write_text(KEY + "\n")
    files = StoreFiles(freeze=str(folder / "freeze"), invite_key=str(folder / "key"), session="shop")
    with store(folder, files, quota=quota) as served:
        place = DevicePlace.of({"XDG_STATE_HOME": str(folder / "device")}, "pi")
        if not place.is_joined():
            invite = mint_invite(parse_key(KEY), time.time() + 60, "pi")
            join(place, StoreAddress(served.url.rstrip("/"), ""), invite, REPORT, {})
        with UploadQueue(place) as queue, SessionClient(place) as client:
            yield JoinedWorld(folder, served, place, queue, client)


def test_files_travel_both_ways(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9000
    with joined(tmp_path) as world:
        assert world.put("out/deep/a b", content).step is UploadStep.DELIVERED
        assert world.put("out/deep/a b", content + b"2").kept == ""
        assert world.store.files() == {"out/deep/a b": content + b"2"}
        done = download(world.client.connection, "out/deep/a b", str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == content + b"2"
        known = world.queue.known("out/deep/a b")
        assert known is not None
        assert known.etag == done.file.etag
        assert [each.path for each in list_folder(world.client.connection, "")] == ["out/"]
        entries = list_folder(world.client.connection, "out/deep")
        assert [(each.path, each.size) for each in entries] == [("out/deep/a b", len(content) + 1)]


def test_a_download_goes_on_after_the_part_that_is_here(tmp_path: Path) -> None:
    with joined(tmp_path) as world:
        world.put("a", b"0123456789")
        etag = download(world.client.connection, "a", str(tmp_path / "first")).file.etag
        from hashlib import sha256  # noqa: PLC0415  # as the name of the part is made

        (tmp_path / f".a.{sha256(etag.encode()).hexdigest()[:12]}.part").write_bytes(b"0123")
        assert download(world.client.connection, "a", str(tmp_path / "a")).resumed == 4
        assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_another_writer_of_the_volume_is_a_conflict(tmp_path: Path) -> None:
    with joined(tmp_path) as world:
        world.put("a", b"first")
        (world.store.root / "a").write_bytes(b"theirs")
        sent = world.put("a", b"second")
        assert sent.kept.startswith("a.conflict-pi-")
        assert world.store.files() == {"a": b"theirs", sent.kept: b"second"}


def test_over_quota_and_frozen_uploads_wait_and_nothing_is_lost(tmp_path: Path) -> None:
    with joined(tmp_path, quota=Bytes(100)) as world:
        sent = world.put("a", b"1" * 101)
        assert (sent.step, "quota" in sent.reason) == (UploadStep.RETRY, True)
        (tmp_path / "freeze").write_text("it is being resized")
        frozen = world.put("b", b"1")
        assert (frozen.step, frozen.pause) == (UploadStep.PAUSE, 5.0)
        assert world.client.report(REPORT)["frozen"] == "it is being resized"
        token = world.client.membership.token
        refused = world.store.ask("POST", "/.fairlead/rotate", b"", token)
        assert refused.status == 503, "a credential that is made now would stay behind"
        assert world.store.files() == {}
        assert len(world.queue.uploads()) == 2


def test_a_credential_outlives_the_store_and_ends_when_it_is_revoked(tmp_path: Path) -> None:
    with joined(tmp_path):
        pass
    with joined(tmp_path) as world:  # the same device, and a store that was started again
        url = world.store.url.rstrip("/")
        world.client.connection = StoreConnection(url, "", world.client.membership.token)
        assert world.put("a", b"1").step is UploadStep.DELIVERED
        admin = mint_admin(parse_key(KEY), time.time() + 60)
        assert b"sha256" not in world.store.ask("GET", "/.fairlead/report", token=admin).body
        assert world.store.ask("POST", "/.fairlead/revoke", token=admin).status == 200
        assert world.put("b", b"1").step is UploadStep.STOP
        with pytest.raises(DeviceError, match="refuses this device's credential"):
            download(world.client.connection, "a", str(tmp_path / "back"))


def test_the_token_of_the_store_is_no_credential_of_a_device(tmp_path: Path) -> None:
    with joined(tmp_path) as world:
        assert world.store.ask("PUT", "/.fairlead/report", b"{}").status == 401
        assert world.store.ask("GET", "/.fairlead/report").status == 401
        assert world.store.ask("GET", "/.fairlead/state/devices/x").status == 404
        token = world.client.membership.token
        assert world.store.ask("PUT", "/.fairlead/probe", bytes(1 << 20), token).status == 200
        assert world.store.ask("PUT", "/.fairlead/report", bytes(300_000), token).status == 413
        assert len(world.store.ask("GET", "/.fairlead/probe/1000", token=token).body) == 1000


def test_without_a_key_nothing_joins(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        place = DevicePlace.of({"XDG_STATE_HOME": str(tmp_path / "device")}, "pi")
        invite = mint_invite(parse_key(KEY), time.time() + 60)
        with pytest.raises((DeviceError, TransferError)):
            join(place, StoreAddress(served.url.rstrip("/"), ""), invite, REPORT, {})
        assert not place.is_joined()


def test_a_key_that_protects_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("short")
    with (
        pytest.raises(SettingsError, match="key of invites"),
        store(tmp_path, StoreFiles(invite_key=str(tmp_path / "key"))),
    ):
        pass
