"""An RTSP camera that goes away and comes back, with GStreamer's RTSP server from Debian."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import PipelineFailedError
from fairlead.pipeline.driver import PipelineDriver
from tests.pipeline import gstreamer
from tests.pipeline.clips import pyav
from tests.pipeline.pipelines import plan, sequences

SERVER = Path(__file__).with_name("rtsp_server.py")
PIPELINE = """
pipeline: camera
stages:
  - {name: camera, source: rtsp, options: {url: "rtsp://viewer:$P@127.0.0.1:$N/test", timeout: 5s$MORE}}
  - {name: number, run: "$S:number"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
edges:
  - {from: camera, to: number, policy: drop_oldest, depth: 4}
  - {from: number, to: log}
"""


class Server:
    """A server that can be killed and started again on the same port."""

    def __init__(self) -> None:
        self.port = "0"
        self._child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start, or skip the test where a part is missing."""
        python = "/usr/bin/python3"  # the bindings of GStreamer belong to the system's Python
        if not shutil.which(python):
            pytest.skip("no Python of the system for GStreamer's RTSP server")
        line = self._started(python, {})
        if not line.isdigit():
            try:
                line = self._started(python, gstreamer.variables())
            except gstreamer.NotThereError as error:
                line = f"{line}; {error}"
        if not line.isdigit():
            self.kill()
            pytest.skip(f"{line or 'the RTSP server did not start'}: see CONTRIBUTING.md")
        self.port = line

    def _started(self, python: str, more: dict[str, str]) -> str:
        """Return the port of a new server, or what it lacks."""
        self.kill()
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        self._child = subprocess.Popen(
            [python, str(SERVER), self.port], stdout=subprocess.PIPE, text=True, env={**environment, **more}
        )
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def kill(self) -> None:
        """End the server at once."""
        child, self._child = self._child, None
        if child is not None and child.stdout is not None:
            child.kill()
            child.wait()
            child.stdout.close()


@contextmanager
def running() -> Iterator[Server]:
    """Yield a server that runs."""
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def stop_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield the end that stops a run, and the one that the run reads."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def text(server: Server, password: str, more: str = "") -> str:
    """Return a pipeline with the server as its camera."""
    return PIPELINE.replace("$P", password).replace("$N", server.port).replace("$MORE", more)


def test_a_run_goes_on_when_its_camera_comes_back(tmp_path: Path) -> None:
    pyav()
    said: list[str] = []
    counts: list[int] = []
    with running() as server, stop_pair() as (ours, theirs):

        def restart_the_camera(status: dict[str, Any]) -> None:
            """Restart the server after some frames, and end the run after some more."""
            written = status["stages"][-1]["out"]
            if not counts and written >= 10:
                server.kill()
                server.start()
                counts.append(written)
            elif (
                len(counts) == 1 and any("frames again" in line for line in said) and written > counts[0] + 10
            ):
                counts.append(written)
                ours.send(b"x")

        driver = PipelineDriver(plan(text(server, "secret"), tmp_path), said.append, restart_the_camera)
        status = driver.run(theirs)
    assert len(counts) == 2
    name = f"stage camera: rtsp://viewer:***@127.0.0.1:{server.port}/test"
    assert said[0].startswith(f"{name}: ")
    assert said[0].endswith("; connecting again")
    assert said[1].startswith(f"{name}: frames again after ")
    written = sequences(tmp_path)
    assert written == sorted(set(written))
    edge = status["edges"][0]
    assert edge["sent"] == status["stages"][0]["out"] == edge["taken"] + sum(edge["dropped"].values())


def test_a_wrong_password_is_named_and_not_shown(tmp_path: Path) -> None:
    pyav()
    with running() as server:
        described = plan(text(server, "wrong", ", give_up: 1ms"), tmp_path)
        with pytest.raises(PipelineFailedError, match="401 Unauthorized") as caught:
            PipelineDriver(described, lambda line: None, lambda status: None).run()
    assert str(caught.value).startswith("stage camera, frame 0: raised ConnectionError: rtsp://viewer:***@")
    assert "wrong" not in str(caught.value)
