"""The whole application with a tiny network of the same ports: counts are the same in every arrangement."""

import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.people.street import EXPECTED, FRAMES, SCENE, write_detector
from tests.pipeline.pipelines import lines, run

pytest.importorskip("onnxruntime")
pytest.importorskip("hpack")

from tests.pipeline.hosts import host, run_on_hosts

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline" / "people"
FILES = ("people.yaml", "replicas.yaml", "hosts.yaml")
STREET = "{name: clip, source: generator, options: {function: 'tests.pipeline.people.street:images'}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the example with a street and a network of tests."""
    shutil.copytree(EXAMPLE, tmp_path, ignore=shutil.ignore_patterns("data", "*.jsonl"), dirs_exist_ok=True)
    (tmp_path / "scene.json").write_text(json.dumps(SCENE))
    write_detector(tmp_path / "data" / "nanodet.onnx")
    return tmp_path


def street(folder: Path, name: str) -> str:
    """Return a file of the example with the images of the tests as its clip."""
    text, count = re.subn(
        r"\{name: clip, source: video, options: \{[^}]*\}", STREET, (folder / name).read_text()
    )
    assert count == 1
    return text


def test_counts_are_the_same_on_two_hosts_with_replicas_and_after_a_crash(folder: Path) -> None:
    status = run(street(folder, "people.yaml"), folder)
    one = lines(folder, "counts.jsonl")
    assert status["edges"] == [], "all stages share a process"
    assert [line["sequence"] for line in one] == [*range(FRAMES)]
    assert one[-1]["value"]["crossed"] == EXPECTED
    assert one[-1]["value"]["visited"] == {"south person": 1, "south vehicle": 1}
    (folder / "counts.jsonl").unlink()
    with host(folder) as edge:
        address = f"127.0.0.1:{edge.port}"
        status = run_on_hosts(street(folder, "hosts.yaml").replace("10.0.0.5:7070", address), folder)
    assert [(each["from"], each["to"]) for each in status["edges"]] == [("letterbox", "detect")]
    assert lines(folder, "counts.jsonl") == one
    (folder / "counts.jsonl").unlink()
    killed: list[int] = []

    def kill_tracks(status: dict[str, Any]) -> None:
        """Kill the process of the tracks once, when the sink has taken frames."""
        taken = status["stages"][-1]["out"]
        if taken > 4 and not killed:
            killed.append(next(pid for name, pid in status["processes"].items() if "track" in name))
            os.kill(killed[0], signal.SIGKILL)

    text = street(folder, "replicas.yaml").replace("street:images'}", "street:images', rate: 30}")
    status = run(text, folder, kill_tracks)
    assert [(each["from"], each["to"]) for each in status["edges"]] == [
        ("letterbox", "detect"),
        ("detect", "objects"),
    ]
    assert lines(folder, "counts.jsonl") == one
    assert killed
    assert {each["name"]: each["restarts"] for each in status["stages"]}["track"] == 1


def test_every_file_has_the_same_stages(folder: Path) -> None:
    stages = {}
    for name in FILES:
        document = yaml.safe_load((folder / name).read_text())
        stages[name] = [
            (each["name"], each.get("run"), each.get("options", {}).get("mean"))
            for each in document["stages"]
        ]
        text = street(folder, name)
        assert require_sound(parse_pipeline(text.encode(), f"{folder}/{name}")).name == document["pipeline"]
    assert stages["people.yaml"] == stages["replicas.yaml"] == stages["hosts.yaml"]


def test_the_scene_of_the_example_lies_in_its_images() -> None:
    scene = json.loads((EXAMPLE / "scene.json").read_text())
    width, height = scene["image"]
    points = [point for shape in (*scene["lines"].values(), *scene["zones"].values()) for point in shape]
    assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
