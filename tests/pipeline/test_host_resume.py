"""A run over hosts goes on after its coordinator was killed."""

from pathlib import Path

import pytest

pytest.importorskip("grpc")

from tests.pipeline.hosts import start_host
from tests.pipeline.pipelines import STAGES, lines
from tests.pipeline.resumed import expected, finish, kept_start, kill_when, start_run

FRAMES = 120


def test_a_run_with_a_sink_on_another_host_goes_on(tmp_path: Path) -> None:
    """The host keeps processes of a killed run for its grace: they end before the next ones write."""
    file = tmp_path / "p.yaml"
    child, port = start_host(tmp_path)
    with child:
        file.write_text(
            f"""
pipeline: remote
hosts: {{edge: {{address: "127.0.0.1:{port}"}}}}
stages:
  - {{name: camera, source: numbers, options: {{count: {FRAMES}, rate: 100}}, on: edge}}
  - {{name: count, run: "{STAGES}:RunningCount"}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on: edge}}
"""
        )
        assert kill_when(start_run(file, "--insecure"), lambda: kept_start(tmp_path) > 0)
        finish(start_run(file, "--insecure", "--resume"))
        child.terminate()
    assert [line["sequence"] for line in lines(tmp_path)] == [*range(FRAMES)]
    assert [line["value"] for line in lines(tmp_path)] == expected(FRAMES)
