"""What probes of a cluster ask, and a run that waits for its hosts."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hpack")

from fairlead.cli.pipeline.pages import RunPages
from tests.pipeline.hosts import host, run_on_hosts, start_host
from tests.pipeline.pipelines import STAGES, sequences

CHAIN = """
pipeline: waits
hosts:
  a: {address: "127.0.0.1:$P"}
stages:
  - {name: camera, source: numbers, options: {count: 20}}
  - {name: number, run: "$S:number", on: a}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
"""


@contextmanager
def started(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a program of ours; it is ended at the end."""
    command = [sys.executable, "-m", "fairlead", "pipeline", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def line_with(child: "subprocess.Popen[str]", text: str) -> str:
    """Return the next line with a text that a program writes."""
    assert child.stderr is not None
    seen = []
    for line in child.stderr:
        seen.append(line)
        if text in line:
            return line.strip()
    raise AssertionError(f"no line has {text}: {seen}")


def page(address: str, path: str) -> tuple[int, str]:
    """Return the status and the text of a page."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def chain(folder: Path, port: int) -> str:
    """Write the file of a pipeline with a host, and return its path."""
    path = folder / "p.yaml"
    path.write_text(CHAIN.replace("$S", STAGES).replace("$P", str(port)))
    return str(path)


def test_a_worker_answers_probes(tmp_path: Path) -> None:
    words = ("--listen", "127.0.0.1:0", "--insecure", "--folder", str(tmp_path), "--health", "0")
    with started("worker", *words) as child:
        address = line_with(child, "health on").partition("http://")[2].partition("/")[0]
        line_with(child, "listens on")
        assert page(address, "/readyz") == page(address, "/healthz") == (200, "ok\n")
        assert page(address, "/metrics")[0] == 404
        child.send_signal(signal.SIGTERM)
        line_with(child, "ended; 0 peers refused")


def test_a_host_that_has_stopped_is_not_ready(tmp_path: Path) -> None:
    with host(tmp_path) as server:
        assert server.is_serving
        assert server.has_free_stream()
    assert not server.is_serving
    assert not server.has_free_stream()


def test_a_run_is_ready_once_every_stage_is_open(tmp_path: Path) -> None:
    seen: list[bool] = []
    with host(tmp_path) as server:
        text = CHAIN.replace("$P", str(server.port)).replace("count: 20", "count: 20, rate: 20")
        status = run_on_hosts(text, tmp_path, lambda status: seen.append(status["open"]))
    assert status["open"]
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def test_a_run_without_a_status_is_not_alive() -> None:
    now, latest = [0.0], {"open": False}
    pages = RunPages(lambda: latest, lambda: now[0])
    assert (pages("/healthz").status, pages("/readyz").status) == (200, 503)
    now[0], latest["open"] = 29.0, True
    assert (pages("/healthz").status, pages("/readyz").status) == (200, 200)
    now[0] = 31.0
    assert pages("/healthz").body == b"the run has had no status for 31 s\n"
    pages.on_status()
    assert pages("/healthz").status == 200


def test_the_status_is_a_page_once_there_is_one() -> None:
    latest: dict[str, Any] = {}
    pages = RunPages(lambda: latest)
    assert pages("/status").status == 503
    latest |= {"stages": [], "edges": [], "bounds": [1.0], "follow": {"moving": False}}
    assert json.loads(pages("/status").body) == {"stages": [], "edges": [], "follow": {"moving": False}}
    assert b"/status" in pages("/").body


def test_a_run_waits_for_its_hosts(tmp_path: Path) -> None:
    port = free_port()
    with started("run", chain(tmp_path, port), "--insecure", "--hosts-within", "120s") as child:
        assert "waits for a: host a at 127.0.0.1" in line_with(child, "waits for")
        late, _ = start_host(tmp_path, port)
        try:
            assert child.wait(120) == 0
        finally:
            late.kill()
            late.communicate()
    assert sequences(tmp_path) == list(range(20))


def test_a_run_that_is_stopped_while_it_waits_is_not_done(tmp_path: Path) -> None:
    with started("run", chain(tmp_path, free_port()), "--insecure", "--hosts-within", "120s") as child:
        line_with(child, "waits for")
        child.send_signal(signal.SIGTERM)
        assert "stopped before a had answered" in line_with(child, "stopped")
        assert child.wait(60) == 1


def test_a_run_does_not_wait_longer_than_it_may(tmp_path: Path) -> None:
    with started("run", chain(tmp_path, free_port()), "--insecure", "--hosts-within", "100ms") as child:
        line_with(child, "host a at 127.0.0.1")
        assert child.wait(60) == 2
