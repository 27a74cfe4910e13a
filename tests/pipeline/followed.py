"""Runs that follow their file, for tests: a host for each version of a stage, and the file between them."""

import hashlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.hosts.ask import ask_hosts
from fairlead.pipeline.hosts.followed import judge_change
from fairlead.pipeline.hosts.remote import RemoteHosts
from fairlead.pipeline.replan.follower import FileFollower, FollowedFile, digest_of
from fairlead.pipeline.replan.following import inner_stages
from fairlead.pipeline.replan.scaling import RunScaling
from fairlead.pipeline.yaml_file import parse_pipeline, read_text
from tests.pipeline.pipelines import STAGES, lines

CHAIN = """
pipeline: follows
hosts:
  b: {{address: "127.0.0.1:{port}"}}
stages:
  - {{name: camera, source: numbers, options: {{count: 20000, rate: {rate}}}, on_error: restart}}
  - {{name: slow, run: "$S:slow", on_error: restart}}
  - {{name: work, run: "work.py:work", on: b, on_error: restart{more}}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on_error: restart}}
"""
OnStatus = Callable[[dict[str, Any]], None]


def chain(port: int, rate: int = 100, more: str = "") -> str:
    """Return the pipeline with the host at a port; `more` are further keys of the stage `work`."""
    return CHAIN.format(port=port, rate=rate, more=more).replace("$S", STAGES)


def version(folder: Path, number: int, body: str = "") -> Path:
    """Return the folder of a host whose stage `work` says which version it is."""
    place = folder / f"version-{number}"
    place.mkdir()
    code = body or f'def work(image):\n    return {{"version": {number}}}\n'
    (place / "work.py").write_text(code)
    return place


class FollowedRun:
    """A run in this process that follows `p.yaml` of a folder; `change` is called with each status."""

    def __init__(
        self, folder: Path, text: str, change: Callable[["FollowedRun", dict[str, Any]], None]
    ) -> None:
        self.folder = folder
        self.file = folder / "p.yaml"
        self.lines: list[str] = []
        self.status: dict[str, Any] = {}
        self.scaling = RunScaling(lambda stage, status: None, pause=0.5)
        """However few cores this machine has."""
        self._change = change
        self._stop, self._stopped = socket.socketpair()
        self._ends = False
        self._texts = 0
        self._first = text.encode()
        self.write(text)

    def write(self, text: str) -> None:
        """Replace the file as a volume of a ConfigMap does: a link to the folder of all files is swapped."""
        self._texts += 1
        place = self.folder / f"..{self._texts}"
        place.mkdir()
        (place / "p.yaml").write_text(text)
        fresh = self.folder / "..fresh"
        fresh.symlink_to(place.name)
        fresh.rename(self.folder / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to("..data/p.yaml")

    def end(self) -> None:
        """Let the run be drained."""
        if not self._ends:
            self._ends = True
            self._stop.send(b"x")

    @property
    def written(self) -> int:
        """How many frames the sink has taken."""
        return int(self.status["stages"][-1]["out"])

    @property
    def is_followed(self) -> bool:
        """Whether the run is what its file says."""
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        return bool(self.status["follow"]["digest"] == digest)

    @property
    def is_as_begun(self) -> bool:
        """Whether the file is that with which the run began."""
        return self.file.read_bytes() == self._first

    def run(self) -> dict[str, Any]:
        """Run to the end, and return the last status."""
        text = read_text(str(self.file))
        spec = parse_pipeline(text, str(self.file))
        answers = ask_hosts(require_sound(spec), None)
        assert answers.problems == ()
        movable = inner_stages(spec) if spec.is_chain else frozenset[str]()
        plan = plan_workers(answers.spec, movable)
        first = FollowedFile(digest_of(text), spec, answers.spec)
        follower = FileFollower(
            first,
            lambda: read_text(str(self.file)),
            lambda file, data: judge_change(file, data, None, lambda new: None),
            self.lines.append,
        )
        hosts = RemoteHosts(plan, None, answers.replayable)
        with self._stop, self._stopped:
            driver = PipelineDriver(plan, self.lines.append, self._watch, None, hosts, planner=follower)
            driver.scaling = self.scaling
            return driver.run(self._stopped)

    def _watch(self, status: dict[str, Any]) -> None:
        self.status = status
        self._change(self, status)


def versions(folder: Path) -> list[int]:
    """Return which version made each frame that the sink has: all of them, each once and in order."""
    written = lines(folder)
    assert [line["sequence"] for line in written] == list(range(len(written)))
    return [line["value"]["version"] for line in written]
