"""A Pipeline whose results say which frames were lost, repeated or computed twice, and its claim."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.api import CORE, Api, Document
from tests.labs import RealNode
from tests.pipelineobjects.deployed import DeployedPipeline, complete_lines

USER = 10001
NAME = "counted"
END = "end"
"""A file of the claim: how many frames there are. Without it there is no last one."""
_FILE = """
pipeline: counted
stages:
  - {name: numbers, source: generator, options: {function: "counted.py:numbers", arguments: {end: /data/end}},
     on_error: restart}
  - {name: double, run: "counted.py:double", on: edge, on_error: restart,
     replicas: {max: 2, up_after: 2s, down_after: 1h}}
  - {name: sum, run: "counted.py:Sum", on: server, on_error: restart}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}, on_error: restart}
hosts:
  edge: {pod: EDGE}
  server: {pod: SERVER}
cluster: {schedulerName: SCHEDULER, imagePullPolicy: Never, stateClaim: kept, local: LOCAL}
"""
_CODE = '''
import os
import time


def numbers(end, start=0):
    """Yield 200 numbers a second at most, until there are as many as a file says."""
    number = start
    while not os.path.exists(end) or number < int(open(end).read()):
        yield {"number": number, "heavy": os.path.exists("/data/heavy")}
        number += 1
        time.sleep(0.005)


def double(record):
    if record["heavy"]:
        time.sleep(0.02)
    return {"double": 2 * record["number"]}


class Sum:
    """The sum of all frames so far: one that is computed twice shows in all later ones."""

    def open(self, state):
        self.sum = state or 0

    def process(self, record):
        self.sum += record["double"]
        return {"sum": self.sum}

    def checkpoint(self):
        return self.sum
'''


def write_files(folder: Path, scheduler: str, places: Mapping[str, Document] | None = None) -> Path:
    """Write the pipeline and its code, with further keys of its pods by host; return its file."""
    (folder / "counted.py").write_text(_CODE)
    text = _FILE.replace("SCHEDULER", scheduler)
    pods = {"local": {"dataClaim": "kept"}} | {host: dict(pod) for host, pod in (places or {}).items()}
    for host in ("edge", "server", "local"):
        text = text.replace(host.upper(), json.dumps(pods.get(host, {})))
    (folder / "counted.yaml").write_text(text)
    return folder / "counted.yaml"


class KeptFolder:
    """A folder of this machine that is a claim of a namespace: progress and results outlive every pod."""

    def __init__(self, node: RealNode, namespace: str) -> None:
        self.path = node.folder / f"kept-{namespace}"
        self._api, self._namespace = Api(node.config), namespace

    def __enter__(self) -> "KeptFolder":
        self.path.mkdir()
        os.chown(self.path, USER, USER)
        size = {"storage": "1Gi"}
        common: Document = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
        claim = {"namespace": self._namespace, "name": "kept"}
        volume = {**common, "capacity": size, "hostPath": {"path": str(self.path)}, "claimRef": claim}
        wanted = {**common, "volumeName": self.path.name, "resources": {"requests": size}}
        self._api.create(
            f"{CORE}/persistentvolumes", [{"metadata": {"name": self.path.name}, "spec": volume}]
        )
        claims = f"{CORE}/namespaces/{self._namespace}/persistentvolumeclaims"
        self._api.create(claims, [{"metadata": {"name": "kept"}, "spec": wanted}])
        return self

    def __exit__(self, *_: object) -> None:
        self._api.delete([f"{CORE}/persistentvolumes/{self.path.name}"])
        self._api.close()

    def written(self) -> list[dict[str, Any]]:
        """Return what the sink has written."""
        return complete_lines(self.path / "out.jsonl")

    def wait_for_frames(self, pipeline: DeployedPipeline, more: int = 20) -> None:
        """Wait until the sink has taken further frames."""
        wanted = len(self.written()) + more
        pipeline.wait_for(f"{wanted} frames", lambda: len(self.written()) >= wanted)

    @contextmanager
    def heavy(self) -> Iterator[None]:
        """Let each frame take 20 ms of the stage `double` during the block."""
        (self.path / "heavy").touch()
        yield
        (self.path / "heavy").unlink()

    def end_source(self, more: int = 200) -> int:
        """Let the source end after some further frames; return how many there are then."""
        count = len(self.written()) + more
        (self.path / "new").write_text(str(count))
        (self.path / "new").rename(self.path / END)
        return count


def expected(count: int) -> list[dict[str, Any]]:
    """Return what the sink has written when each frame was taken once and in order."""
    return [
        {"stream": 0, "sequence": number, "value": {"sum": number * (number + 1)}} for number in range(count)
    ]
