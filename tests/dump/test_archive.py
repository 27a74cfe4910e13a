"""The archive of a dump: readers find its snapshot, the same parts give the same bytes, and limits hold."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from fairlead.cache.clusterfile import read_cluster
from fairlead.catalog import Catalog
from fairlead.dump.archive import DumpBuilder
from fairlead.dump.logs import ContainerLog, logs_of
from fairlead.dump.scrub import Scrubber
from fairlead.errors import ManifestError
from fairlead.manifest.files import text
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.files.text import FileLimits
from fairlead.placement import NodeState
from fairlead.request import Request


def dump(snapshot: Snapshot | None) -> bytes:
    builder = DumpBuilder("lab", "2026-01-01T00:00:00Z", Scrubber(["planted-value"]))
    builder.add("a/first.json", {"what": "planted-value"})
    builder.add_text("logs/x.log", "said planted-value\n")
    builder.miss("metrics/y.txt", "no answer from planted-value")
    if snapshot is not None:
        builder.add_snapshot(snapshot.to_json())
    return builder.pack()


WORLD = Snapshot((NodeState("one", 8000),), (), (Request("waits", "shop", "uid-1"),), "2026", "lab")


def test_readers_of_clusters_read_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"
    path.write_bytes(dump(WORLD))
    assert read_cluster([str(path)], Catalog({})) == WORLD
    assert dump(WORLD) == dump(WORLD)


def test_it_holds_an_index_and_no_planted_value() -> None:
    with tarfile.open(fileobj=io.BytesIO(dump(WORLD))) as archive:
        assert archive.getnames() == ["index.json", "snapshot.json", "a/first.json", "logs/x.log"]
        parts = [archive.extractfile(name) for name in archive.getnames()]
        texts = [part.read().decode() for part in parts if part is not None]
    assert not [each for each in texts if "planted" in each]
    index = json.loads(texts[0])
    assert (index["format"], index["version"], index["removed"]) == ("fairlead-debug-dump", 1, 3)
    assert index["missing"] == [{"what": "metrics/y.txt", "why": "no answer from [removed]"}]


def bomb() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = 4 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (dump(None), "no snapshot.json in it"),
        (gzip.compress(b"{}"), "compressed, and no dump"),
        (dump(WORLD)[:200], "compressed, and no dump"),
        (bomb(), "more than 1 MiB in it"),
    ],
    ids=["without a snapshot", "another file", "cut", "too large"],
)
def test_other_archives_are_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(data)
    with pytest.raises(ManifestError, match=words):
        text.read(str(path), FileLimits(json=1 << 20, yaml=1 << 10))


def test_logs_are_those_of_containers_that_have_run() -> None:
    statuses = [
        {"name": "now", "state": {"running": {}}, "restartCount": 2},
        {"name": "waits", "state": {"waiting": {}}, "restartCount": 0},
    ]
    pod = {"metadata": {"namespace": "f", "name": "p"}, "status": {"containerStatuses": statuses}}
    found = list(logs_of(pod))
    assert found == [ContainerLog("f", "p", "now"), ContainerLog("f", "p", "now", previous=True)]
    assert [each.name for each in found] == ["logs/f/p/now.log", "logs/f/p/now.previous.log"]
