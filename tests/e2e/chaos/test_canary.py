"""An update with a canary in real pods: a share of the frames first, then all, or none."""

import os
from pathlib import Path

import pytest

from fairlead.cli.main import main
from tests.labs import RealNode
from tests.pipelineobjects.deployed import DeployedPipeline, kind_installed
from tests.pipelineobjects.operated import operator

FILE = """
pipeline: tried
stages:
  - {name: camera, source: numbers, options: {shape: [72, 128, 3], rate: 50}, on_error: restart}
  - {name: work, run: "pkg.stages:work", on: server, in: Image, out: Record, replicas: 2, on_error: restart}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}, on_error: restart}
hosts:
  server: {pod: {}}
cluster:
  schedulerName: default-scheduler
  imagePullPolicy: Never
  update: {observe: 5s, canary: {percent: 20, duration: 10s}}
"""
CODE = """
import time


def work(image):
    time.sleep(SECONDS)
    return {"mark": MARK}
"""


@pytest.mark.skipif(os.environ.get("FAIRLEAD_CHAOS") != "long", reason="two minutes: FAIRLEAD_CHAOS=long")
def test_new_code_is_tried_before_all_frames_go_to_it(
    real_node: RealNode, node_namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "tried.yaml").write_text(FILE)
    site = DeployedPipeline(real_node, node_namespace)
    where = ("--kubeconfig", str(real_node.kubeconfig), "-n", node_namespace, "--wait", "--timeout", "240s")

    def deploy(mark: int, seconds: float) -> int:
        (tmp_path / "pkg" / "stages.py").write_text(
            CODE.replace("SECONDS", str(seconds)).replace("MARK", str(mark))
        )
        return main(["pipeline", "deploy", str(tmp_path / "tried.yaml"), *where])

    def frames(more: int = 20) -> None:
        wanted = len(site.written()) + more
        site.wait_for("frames", lambda: len(site.written()) >= wanted)

    with kind_installed(real_node), operator(real_node, node_namespace, tmp_path / "operator.log"):
        assert deploy(1, 0.002) == 0, site.story()
        frames()
        assert deploy(2, 0.002) == 0, site.story()
        frames()
        assert deploy(3, 0.05) == 1, site.story()
        site.wait_for("the way back", lambda: site.conditions()["Progressing"] == ("False", "RolledBack"))
        frames()
        written = site.written()
        assert main(["pipeline", "delete", "tried", *where]) == 0
        site.wait_for("nothing to be left", lambda: not site.left())
    assert [line["sequence"] for line in written] == list(range(len(written)))
    marks = [line["value"]["mark"] for line in written]
    first, last = marks.index(2), len(marks) - marks[::-1].index(1)
    tried = marks[first:last]
    assert 50 < tried.count(2) <= len(tried) // 5 + 2
    slow = marks[marks.index(3) : len(marks) - marks[::-1].index(3)]
    assert 5 < slow.count(3) <= len(slow) // 5 + 2
    assert {*marks[:first]} == {1}
    assert {*marks[-20:]} == {2}
