"""The file of a pipeline becomes a resource, and its code a ConfigMap."""

from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.pipeline.files import MOST_BYTES, collect_files
from fairlead.errors import PipelineError
from fairlead.pipeline.yaml_file import parse_pipeline, read_pipeline
from fairlead.pipelineobjects.from_file import files_map, resource_of
from fairlead.pipelineobjects.problems import check_resource
from fairlead.pipelineobjects.resource import read_resource
from fairlead.yamltext import parse_documents

TEXT = """
pipeline: people
fuse: false
stages:
  - {name: camera, source: images, options: {path: shots/one.npy}, on: "room=lab"}
  - {name: bright, run: "pkg.stages:bright", on: server, timeout: 500ms}
  - {name: conv, exec: [./conv, --size, 3]}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}}
hosts:
  edge: {address: "10.0.0.5:7070", labels: {room: lab}, pod: {nodeSelector: {room: lab}}}
  server: {class: jetson-orin-nano}
cluster: {image: "mine:1", stateClaim: progress, local: {dataClaim: out}}
"""


def resource(text: str, files: dict[str, bytes] | None = None) -> dict[str, Any]:
    data = text.encode()
    (document,) = parse_documents(data)
    return resource_of(parse_pipeline(data, "p.yaml"), document, "people", "shop", files or {})


def test_a_file_becomes_a_sound_resource() -> None:
    made = resource(TEXT, {"pkg/stages.py": b"x = 1\n"})
    spec = made["spec"]
    assert [stage.get("host") for stage in spec["stages"]] == ["edge", "server", None, None]
    assert spec["stages"][2] == {"name": "conv", "exec": ["./conv", "--size", "3"]}
    assert spec["hosts"] == [
        {"name": "edge", "nodeSelector": {"room": "lab"}},
        {"name": "server", "class": "jetson-orin-nano"},
    ]
    assert (spec["image"], spec["stateClaim"], spec["fuse"], spec["suspend"]) == (
        "mine:1",
        "progress",
        False,
        False,
    )
    assert spec["files"]["items"] == [{"key": "pkg..stages.py", "path": "pkg/stages.py"}]
    assert check_resource(read_resource(made)) == []


def test_a_stage_that_states_local_is_pinned_there() -> None:
    """A plan places stages that state nothing alone."""
    pinned = resource(TEXT.replace("exec: [./conv, --size, 3]", "exec: [./conv], on: local"))
    assert [stage.get("host") for stage in pinned["spec"]["stages"]] == ["edge", "server", "local", None]


REFUSED = {
    "a host that is not there": (
        TEXT.replace("on: server", "on: sever"),
        "p.yaml:6: stage bright: no host is 'sever'",
    ),
    "two hosts": (
        TEXT.replace("class: jetson-orin-nano", "labels: {room: lab}, pod: {}"),
        "p.yaml:5: stage camera: on 'room=lab' fits edge, server",
    ),
    "an unknown key of a pod": (
        TEXT.replace("{nodeSelector", "{nodeSelect"),
        "pod of host edge has no key 'nodeSelect'",
    ),
    "an unknown key of the cluster": (TEXT.replace("image:", "img:"), "p.yaml: cluster has no key 'img'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_cluster_cannot_do_is_refused(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(PipelineError) as caught:
        resource(text)
    assert message in str(caught.value)


def write(folder: Path, **files: str) -> str:
    """Write files of a folder; two underscores stand for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder / "p.yaml")


def test_the_files_that_stages_need_are_collected(tmp_path: Path) -> None:
    path = write(tmp_path, conv="#!/bin/sh\n", secret="token", shots__one="x")
    (tmp_path / "p.yaml").write_text(TEXT)
    (tmp_path / "shots" / "one.npy").write_bytes(b"\x93NUMPY\xff")
    for name in ("pkg/stages.py", "pkg/__pycache__/stages.py", ".hidden/a.py", "env/a.py", "env/pyvenv.cfg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    files = collect_files(read_pipeline(path))
    assert sorted(files) == ["conv", "pkg/stages.py", "shots/one.npy"]
    made = files_map("people", "shop", files)
    assert sorted(made["data"]) == ["conv", "pkg..stages.py"]
    assert made["binaryData"] == {"shots..one.npy": "k05VTVBZ/w=="}
    other = files_map("people", "shop", {**files, "conv": b"#!/bin/bash\n"})
    assert other["metadata"]["name"] != made["metadata"]["name"]


def test_stages_that_are_installed_need_no_files(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("")
    (tmp_path / "p.yaml").write_text(
        "pipeline: p\nstages:\n  - {name: a, source: numbers}\n"
        "  - {name: b, run: 'json:dumps'}\n  - {name: c, sink: 'null'}\n"
    )
    assert collect_files(read_pipeline(str(tmp_path / "p.yaml"))) == {}


def test_files_that_no_object_holds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(bytes(MOST_BYTES + 1))
    (tmp_path / "p.yaml").write_text(
        "pipeline: p\nstages:\n  - {name: a, source: numbers}\n"
        "  - {name: b, run: m.onnx}\n  - {name: c, sink: 'null'}\n"
    )
    with pytest.raises(PipelineError, match="stages need 1 file of 900 KiB; at most 900 KiB fit") as caught:
        collect_files(read_pipeline(str(tmp_path / "p.yaml")))
    assert "--no-files" in caught.value.hint
