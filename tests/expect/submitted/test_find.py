"""Where the path that a container names leads: a volume, a ConfigMap, the image; and why not."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.expect.submitted.analyse import SearchStatus, analyse_pod
from fairlead.expect.submitted.contents import ReadableContents
from fairlead.expect.submitted.find import ModelSearch, PodSearch
from fairlead.expect.submitted.image_archive import open_archive
from fairlead.manifest.types.program import ProgramPod
from tests.expect.submitted.worlds import docker_save, layer, model, pod

MOUNT = {"name": "v", "mountPath": "/models"}


def search(given: ProgramPod, folder: Path, **contents: Any) -> PodSearch:
    (folder / "scratch").mkdir(exist_ok=True)
    return ModelSearch(ReadableContents(**contents), str(folder / "scratch")).search(given)


def host_pod(path: object, args: list[str] | None = None, **mount: Any) -> ProgramPod:
    """Return a pod that mounts a path of the host."""
    volumes = [{"name": "v", "hostPath": {"path": str(path)}}]
    return pod({"args": args or [], "volumeMounts": [{**MOUNT, **mount}]}, volumes=volumes)


@pytest.mark.parametrize(
    ("args", "mount", "file"),
    [
        (["/models/sub/tiny.onnx"], {}, "sub/tiny.onnx"),
        (["/models/tiny.onnx"], {"subPath": "sub"}, "sub/tiny.onnx"),
        (
            ["/models/here.onnx"],
            {"mountPath": "/models/here.onnx", "subPath": "sub/tiny.onnx"},
            "sub/tiny.onnx",
        ),
        (["/models/x/../sub/tiny.onnx"], {}, "sub/tiny.onnx"),
        ([], {}, "sub/tiny.onnx"),
        (["--dir=/models"], {"subPath": "sub"}, "sub/tiny.onnx"),
    ],
)
def test_volumes(args: list[str], mount: dict[str, str], file: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    model(tmp_path / "data" / "sub")
    found = search(host_pod(tmp_path / "data", args, **mount), tmp_path)
    assert [each.file for each in found.models] == [str(tmp_path / "data" / file)]
    assert not found.tried


def test_a_link_does_not_lead_out_of_a_volume(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    model(tmp_path)
    os.symlink("../tiny.onnx", tmp_path / "data" / "tiny.onnx")
    found = search(host_pod(tmp_path / "data", ["/models/tiny.onnx"]), tmp_path)
    assert not found.models
    assert "leads out of the volume" in found.tried[0].reason


def test_another_mounted_model_is_not_taken_for_the_named_one(tmp_path: Path) -> None:
    model(tmp_path)
    found = search(host_pod(tmp_path, ["/opt/other.onnx"]), tmp_path)
    assert not found.models
    assert [each.path for each in found.tried] == ["/opt/other.onnx"]


def test_the_longest_mount_wins_and_a_missing_file_says_where(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    model(tmp_path / "b")
    volumes = [{"name": name, "hostPath": {"path": str(tmp_path / name)}} for name in "ab"]
    mounts = [{"name": "a", "mountPath": "/models"}, {"name": "b", "mountPath": "/models/b/"}]
    given = pod({"args": ["/models/b/tiny.onnx", "/models/no.onnx"], "volumeMounts": mounts}, volumes=volumes)
    found = search(given, tmp_path)
    assert [each.path for each in found.models] == ["/models/b/tiny.onnx"]
    assert [(each.path, each.reason) for each in found.tried] == [
        ("/models/no.onnx", f"hostPath {tmp_path / 'a'}: no such file")
    ]


@pytest.mark.parametrize(
    ("root", "own_pods", "found"),
    [
        ("v", True, True),
        ("default/models", True, True),
        ("models", True, True),
        ("default/models", False, True),
        ("v", False, False),
        ("models", False, False),
        ("other/models", True, False),
    ],
)
def test_a_root_says_where_the_content_of_a_claim_lies(
    root: str, own_pods: bool, found: bool, tmp_path: Path
) -> None:
    model(tmp_path)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "models"}}]
    given = pod({"args": ["/models/tiny.onnx"], "volumeMounts": [MOUNT]}, volumes=volumes)
    result = search(given, tmp_path, roots={root: str(tmp_path)}, own_pods=own_pods)
    assert bool(result.models) == found
    assert found or "--volume-root default/models=FOLDER" in result.tried[0].reason


def test_a_path_of_the_host_is_not_read_for_the_pods_of_others(tmp_path: Path) -> None:
    model(tmp_path)
    found = search(host_pod(tmp_path, ["/models/tiny.onnx"]), tmp_path, own_pods=False)
    assert not found.models


@pytest.mark.parametrize("items", [(), ({"key": "m", "path": "deep/tiny.onnx"},)])
def test_config_maps(items: tuple[dict[str, str], ...], tmp_path: Path) -> None:
    data = model(tmp_path)
    key = "m" if items else "tiny.onnx"
    config_map = ConfigMap(
        metadata=Metadata(name="c", namespace="default"), binary_data={key: base64.b64encode(data).decode()}
    )
    path = "/models/deep/tiny.onnx" if items else "/models/tiny.onnx"
    source = {"name": "c", "items": list(items)}
    for volume in ({"configMap": source}, {"projected": {"sources": [{"configMap": source}]}}):
        for args in ([path], []):
            given = pod({"args": args, "volumeMounts": [MOUNT]}, volumes=[{"name": "v", **volume}])
            (found,) = search(given, tmp_path, config_maps={("default", "c"): config_map}).models
            assert (found.path, Path(found.file).read_bytes()) == (path, data)
            assert found.source == f"ConfigMap default/c, key {key}"
            missing = search(given, tmp_path)
            assert not missing.models
            assert not args or "neither in the manifest nor read" in missing.tried[0].reason


def test_images(tmp_path: Path) -> None:
    data = model(tmp_path)
    image = docker_save([layer(("app/tiny.onnx", data))], Cmd=["serve", "tiny.onnx"], WorkingDir="/app")
    (tmp_path / "image.tar").write_bytes(image)
    with open_archive(str(tmp_path / "image.tar")) as archive:
        (found,) = search(pod(), tmp_path, archives=(archive,)).models
        assert Path(found.file).read_bytes() == data
        assert (found.path, found.source) == ("/app/tiny.onnx", "image example/app:v1")
        tried = search(pod({"args": ["/no.onnx"]}), tmp_path, archives=(archive,)).tried
        assert [each.reason for each in tried] == ["image example/app:v1: not in the image"]
    (other,) = search(pod({"args": ["/no.onnx"]}), tmp_path).tried
    assert other.reason == "in image example/app:v1, of which there is no --image-archive"


def test_a_container_without_a_path_says_so(tmp_path: Path) -> None:
    (tried,) = search(pod(), tmp_path).tried
    assert (tried.container, tried.path) == ("main", "")
    assert search(pod({"args": ["https://h/a.onnx"]}), tmp_path).tried[0].reason.startswith("at a URL")


def test_models_are_analysed_and_several_are_not_chosen_from(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    model(tmp_path / "data", "a.onnx")
    model(tmp_path / "data", "same.onnx")

    def result(*names: str) -> Any:
        args = [f"/models/{name}" for name in names]
        contents = ReadableContents()
        return analyse_pod("w", host_pod(tmp_path / "data", args), ModelSearch(contents, str(tmp_path)), [])

    assert result("a.onnx", "same.onnx").status is SearchStatus.FOUND, "the same work twice"
    model(tmp_path / "data", "b.onnx", size=8)
    assert result("a.onnx", "b.onnx").status is SearchStatus.SEVERAL
    (tmp_path / "data" / "bad.onnx").write_bytes(b"PK\x03\x04" + bytes(64))
    bad = result("bad.onnx")
    assert bad.status is SearchStatus.MISSING
    assert "a zip archive" in bad.tried[0].reason
    assert str(tmp_path / "data" / "bad.onnx: ") not in bad.tried[0].reason
