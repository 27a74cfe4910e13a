"""The whole application with tiny networks of the same ports, and with the real ones where they are there."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from examples.pipeline.ocr.golden import missing
from examples.pipeline.packages import cache_folder, link, read_pins
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.clips import pyav
from tests.pipeline.ocr.coloured import page, write_networks
from tests.pipeline.pipelines import lines, run

pytest.importorskip("onnxruntime")
pytest.importorskip("hpack")

from tests.pipeline.hosts import host, run_on_hosts

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline" / "ocr"
FILES = ("ocr.yaml", "hosts.yaml")
PAGES = (
    page((30, 40, "abc"), (180, 44, "cb"), (40, 120, "a-abb-b")),
    page(),
    page((60, 100, "cab")),
)
TEXTS = [["abc", "cb", "aabb"], [], ["cab"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the example with pages and networks of tests."""
    shutil.copytree(EXAMPLE, tmp_path, ignore=shutil.ignore_patterns("data", "*.jsonl"), dirs_exist_ok=True)
    write_networks(tmp_path / "data")
    for number, made in enumerate(PAGES):
        np.save(tmp_path / "data" / f"{number}.npy", made)
    return tmp_path


def pipeline(folder: Path, name: str) -> str:
    """Return a file of the example with the pages of the tests."""
    text, count = re.subn(r"data/\*\.png", "data/*.npy", (folder / name).read_text())
    assert count == 1
    return text


def test_texts_are_the_same_on_two_hosts(folder: Path) -> None:
    run(pipeline(folder, "ocr.yaml"), folder)
    one = lines(folder, "text.jsonl")
    assert [[line["text"] for line in each["value"]["lines"]] for each in one] == TEXTS
    corner = one[0]["value"]["lines"][0]["box"][0]
    margin = 72 * 24 * 1.8 / (2 * (72 + 24))
    assert corner == pytest.approx([30 - margin, 40 - margin], abs=1)
    (folder / "text.jsonl").unlink()
    with host(folder) as edge:
        address = f"127.0.0.1:{edge.port}"
        status = run_on_hosts(pipeline(folder, "hosts.yaml").replace("10.0.0.5:7070", address), folder)
    assert lines(folder, "text.jsonl") == one
    edges = {(each["from"], each["to"]) for each in status["edges"]}
    assert {("crop", "normalise"), ("regions", "text")} <= edges
    assert ("normalise", "recognise") not in edges, "the recogniser shares a process with its input"


def test_only_lines_of_text_leave_the_edge(folder: Path) -> None:
    one, cut = (parse_pipeline(pipeline(folder, name).encode(), f"{folder}/{name}") for name in FILES)
    on = {stage.name: stage.on for stage in cut.stages}
    crossing = [(edge.source, edge.target) for edge in cut.edges if on[edge.source] != on[edge.target]]
    assert crossing == [("crop", "normalise"), ("regions", "text")]
    kept = [[(stage.name, stage.target, stage.options) for stage in spec.stages] for spec in (one, cut)]
    assert kept[0] == kept[1]
    assert [edge.name for edge in one.edges] == [edge.name for edge in cut.edges]


def test_the_real_networks_read_every_line_of_the_page(tmp_path: Path) -> None:
    pyav()
    cache = cache_folder(EXAMPLE, os.environ)
    results = [cache / pin.result for pin in read_pins(EXAMPLE)]
    if not all(map(Path.is_file, results)):
        pytest.skip("the networks are not there: make ocr-data")
    shutil.copytree(EXAMPLE, tmp_path, ignore=shutil.ignore_patterns("data", "*.jsonl"), dirs_exist_ok=True)
    link(results, tmp_path / "data")
    run((tmp_path / "ocr.yaml").read_text(), tmp_path)
    golden = (EXAMPLE / "golden.txt").read_text().splitlines()
    assert missing(golden, (tmp_path / "text.jsonl").read_text().splitlines()) == []
