"""The controller beside a real run on the loopback: what the one writes, the other carries out."""

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hpack")

from fairlead.reconcile import PageReading
from tests.pipeline.followed import FollowedRun, version, versions
from tests.pipeline.hosts import host, start_host
from tests.pipelineobjects.test_updates import evict
from tests.pipelineobjects.worlds import NOW, Cluster, pipeline

SPEC = """
stages:
  - {name: camera, source: numbers, options: {count: 1000000, rate: 100}, on_error: restart}
  - {name: work, run: "work.py:work", host: server, on_error: restart}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}, on_error: restart}
hosts: [{name: server}]
image: "image:1"
update: {rollback: false}
"""


class LoopbackCluster:
    """A cluster whose coordinator is a run of this process, and whose hosts are servers of the loopback."""

    def __init__(self, ports: dict[str, int], spec: str = SPEC) -> None:
        self.world = Cluster(pipeline(spec))
        self._ports = ports
        self._texts: dict[str, str] = {}
        """What the run reads, by its digest: the digest of what the ConfigMap holds."""

    def text(self) -> str:
        """Return the file as the run reads it."""
        held: str = self.world.file()["data"]["pipeline.yaml"]
        text = held.replace("/data/", "")
        for slot, port in self._ports.items():
            text = text.replace(f"server-{slot}.count-pipeline.shop.svc:7070", f"127.0.0.1:{port}")
        self._texts[_digest(text)] = _digest(held)
        return text

    def step(self, run: FollowedRun, status: dict[str, Any]) -> None:
        """Let the operator read the page of the run, and the run the file of the operator."""
        follow = dict(status["follow"])
        for key in ("digest", "seen"):
            follow[key] = self._texts.get(follow[key], follow[key])
        self.world.now = NOW + timedelta(seconds=status["seconds"])
        body = json.dumps({**status, "follow": follow}).encode()
        for page in self.world.asked:
            self.world.pages[page] = PageReading(self.world.now, body)
        self.world.reconcile()
        self.world.run_pods()
        text = self.text()
        if text != run.file.read_text():
            run.write(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_new_image_is_carried_out_by_a_real_run_frame_by_frame(tmp_path: Path) -> None:
    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2)) as new:
        cluster = LoopbackCluster({"a": old.port, "b": new.port})
        world = cluster.world
        world.live()

        def on_status(run: FollowedRun, status: dict[str, Any]) -> None:
            if run.written >= 30 and world.resource["spec"]["image"] == "image:1":
                world.change(lambda spec: spec.update(image="image:2"))
            cluster.step(run, status)
            moves = status["moves"]
            is_stable = world.says("Progressing").startswith("False Stable")
            if moves and is_stable and run.written >= moves[0]["sequence"] + 20:
                run.end()

        run = FollowedRun(tmp_path, cluster.text(), on_status)
        status = run.run()
    (move,) = status["moves"]
    seen = versions(tmp_path)
    assert seen == [1] * move["sequence"] + [2] * (len(seen) - move["sequence"])
    assert sorted(world.pods()) == ["local", "server-b"]
    said = [f"{each.reason}: {each.message}" for each in world.events if each.reason in ("Moving", "Moved")]
    moved = "work moves from n-server-a to n-server-b: image changed"
    assert list(dict.fromkeys(said)) == [f"Moving: {moved}", f"Moved: {moved}"]
    assert world.says("Progressing").startswith("False Stable")


def test_a_host_of_a_lost_node_is_left_by_a_real_run(tmp_path: Path) -> None:
    code = 'def work(image):\n    return {"version": 1}\n'
    child, port = start_host(version(tmp_path, 1))
    with child, host(version(tmp_path, 2, code)) as new:
        cluster = LoopbackCluster({"a": port, "b": new.port})
        world = cluster.world
        world.live()

        def on_status(run: FollowedRun, status: dict[str, Any]) -> None:
            if run.written >= 30 and child.poll() is None:
                child.kill()
                child.wait()
                evict(world, "server-a")
            cluster.step(run, status)
            is_moved = any(each.reason == "Moved" for each in world.events)
            if is_moved and run.written >= 200:
                run.end()

        FollowedRun(tmp_path, cluster.text(), on_status).run()
    seen = versions(tmp_path)
    assert len(seen) >= 200
    assert world.addresses() == {"server": "server-b"}
