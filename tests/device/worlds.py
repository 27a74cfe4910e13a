"""Devices for tests: a place below a folder, its queue, and a connection to a small store."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairlead.device.connection import StoreConnection
from fairlead.device.membership import Membership
from fairlead.device.place import DevicePlace
from fairlead.device.queue import QueuedUpload, UploadQueue
from fairlead.device.upload import Sent, Uploader
from tests.device.store import TOKEN, FakeStore, serving

NOW = 1_800_000_000.0


@dataclass
class DeviceWorld:
    """A joined device and its store."""

    folder: Path
    place: DevicePlace
    queue: UploadQueue
    store: FakeStore
    connection: StoreConnection

    def put(self, path: str, content: bytes, **options: bool) -> QueuedUpload:
        """Queue a content."""
        source = self.folder / "source"
        source.write_bytes(content)
        return self.queue.add(str(source), path, NOW, **options)

    def send(self, now: float = NOW) -> list[Sent]:
        """Try every upload that is due once."""
        uploader, results = Uploader(self.queue, self.connection, "edge"), list[Sent]()
        while due := self.queue.next_due(now):
            if any(sent.upload.id == due.id for sent in results):
                break
            results.append(uploader.send(due, now))
        return results


def joined_place(folder: Path, url: str = "http://127.0.0.1:1", token: str = TOKEN) -> DevicePlace:
    """Return the place of a device that has joined a store."""
    place = DevicePlace.of({"XDG_STATE_HOME": str(folder / "state")}, "edge")
    place.make()
    place.write_membership(Membership("edge", url, "", token))
    return place


@contextmanager
def device_world(folder: Path) -> Iterator[DeviceWorld]:
    """Yield a device and its store."""
    with serving(FakeStore()) as store:
        place = joined_place(folder, store.url)
        with UploadQueue(place) as queue, closing(StoreConnection(store.url, "", TOKEN)) as connection:
            yield DeviceWorld(folder, place, queue, store, connection)
