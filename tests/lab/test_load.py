"""Images from archives: another file is rejected with a reason, and a loaded image runs in a pod."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from fairlead.errors import LabError
from fairlead.lab.build.debian import ensure_tools
from fairlead.lab.build.images import Image, busybox_image, write_archive
from fairlead.lab.node.load import check, load
from fairlead.lab.run.state import Lab, LabPhase, LabProfile
from tests.labs import RealNode


def tar(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


@pytest.mark.parametrize("name", ["manifest.json", "./manifest.json", "index.json"])
def test_an_archive_is_recognized_by_its_index_file(tmp_path: Path, name: str) -> None:
    check(tar(tmp_path / "a.tar", "layer.tar", name))


def test_a_file_that_is_not_an_image_archive_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a tar file, however long this line is")
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tar(tmp_path / "a.tar", "manifest.json").read_bytes()))
    rejected = {
        tmp_path / "none.tar": ("No such file", ""),
        tmp_path: ("Is a directory", ""),
        tmp_path / "text": ("it is not a tar file", "docker save"),
        tmp_path / "a.tgz": ("it is not a tar file", "gunzip"),
        tar(tmp_path / "other.tar", "README", "x/manifest.json"): ("it has no manifest.json", "docker save"),
    }
    for path, (reason, hint) in rejected.items():
        with pytest.raises(LabError, match=reason) as caught:
            check(path)
        assert str(path) in str(caught.value)
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("profile", "phase", "reason"),
    [
        (LabProfile.API, LabPhase.READY, "has no real nodes: its profile is api"),
        (LabProfile.NODE, LabPhase.STARTING, "is not ready"),
    ],
)
def test_a_lab_without_running_nodes_loads_no_images(
    tmp_path: Path, profile: LabProfile, phase: LabPhase, reason: str
) -> None:
    with pytest.raises(LabError, match=reason):
        load(Lab("a", profile, tmp_path, 0.0, phase=phase), [tmp_path / "none.tar"], tmp_path / "ctr")


def test_a_loaded_image_runs(real_node: RealNode, node_namespace: str, tmp_path: Path) -> None:
    busybox = busybox_image(ensure_tools().busybox)
    write_archive(
        tmp_path / "mine.tar",
        [Image(name, busybox.entries, busybox.config) for name in ("localhost/mine:1", "short")],
    )
    names = real_node.load(tmp_path / "mine.tar")
    assert names == ["localhost/mine:1", "docker.io/library/short:latest"]
    pod = ["run", "p", "--image=localhost/mine:1", "--image-pull-policy=Never", "--restart=Never"]
    real_node.kubectl("-n", node_namespace, *pod, "--", "true")
    real_node.kubectl(
        "-n", node_namespace, "wait", "pod/p", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s"
    )
    broken = tar(tmp_path / "broken.tar", "manifest.json")
    with pytest.raises(LabError, match="the import into node-1 failed"):
        real_node.load(broken)
