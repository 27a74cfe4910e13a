"""Pipelines over several hosts of the loopback: cut, stalled and slow links, and killed processes."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.hosts import LIMIT, ask, certificates, host, run_on_hosts, start_host
from tests.pipeline.pipelines import STAGES, lines, sequences
from tests.pipeline.relay import relay

CHAIN = """
pipeline: spread
hosts:
  a: {{address: "127.0.0.1:{a}", class: small}}
  b: {{address: "127.0.0.1:{b}", labels: {{room: lab}}}}
stages:
  - {{name: camera, source: numbers, options: {{count: {count}{rate}}}, on: a, on_error: restart}}
  - {{name: number, run: "$S:number", on: "room=lab", on_error: restart}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on_error: restart}}
"""


def test_links_that_are_cut_lose_and_repeat_nothing(tmp_path: Path) -> None:
    cuts: list[int] = []
    with (
        host(tmp_path) as first,
        host(tmp_path) as second,
        relay(first.port) as one,
        relay(second.port) as other,
    ):

        def cut(status: dict[str, Any]) -> None:
            written = status["stages"][-1]["out"]
            if len(cuts) < 2 and written > (cuts[-1] if cuts else 0):
                cuts.append(written)
                one.cut()
                other.cut()

        text = CHAIN.format(a=one.port, b=other.port, count=200, rate=", rate: 120")
        status = run_on_hosts(text, tmp_path, cut)
    assert len(cuts) == 2
    assert sequences(tmp_path) == list(range(200))
    assert [stage["restarts"] for stage in status["stages"]] == [0, 0, 0]
    assert [(edge["sent"], edge["taken"]) for edge in status["edges"]] == [(200, 200)] * 2


def test_a_worker_that_is_killed_on_another_host_is_started_again(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(status: dict[str, Any]) -> None:
        pid = status["hosts"]["b"]["processes"].get("number")
        if not killed and pid and status["stages"][-1]["out"]:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with host(tmp_path) as first, host(tmp_path) as second:
        text = CHAIN.format(a=first.port, b=second.port, count=160, rate=", rate: 120")
        status = run_on_hosts(text, tmp_path, kill)
        assert status["stages"][1]["restarts"] == 1
    assert sequences(tmp_path) == list(range(160))


def test_a_host_that_is_killed_goes_on_once_it_is_back(tmp_path: Path) -> None:
    children: list[subprocess.Popen[str]] = []
    child, port = start_host(tmp_path)
    children.append(child)

    def kill(status: dict[str, Any]) -> None:
        if len(children) == 1 and status["stages"][-1]["out"]:
            child.kill()
            child.wait()
            children.append(start_host(tmp_path, port)[0])

    try:
        with host(tmp_path) as first:
            text = CHAIN.format(a=first.port, b=port, count=160, rate=", rate: 120")
            status = run_on_hosts(text, tmp_path, kill)
    finally:
        for each in children:
            each.terminate()
            assert each.wait(LIMIT) in (0, -signal.SIGKILL)
            assert each.stderr is not None
            each.stderr.close()
    assert status["stages"][1]["restarts"] >= 1
    assert sequences(tmp_path) == list(range(160))


def test_a_live_edge_drops_before_a_stalled_link_and_counts_every_frame(tmp_path: Path) -> None:
    phases: list[str] = []
    with host(tmp_path) as only, relay(only.port) as between:

        def stall(status: dict[str, Any]) -> None:
            sent = status["edges"][0]["sent"]
            dropped = sum(status["edges"][0]["dropped"].values())
            if not phases and sent > 20:
                phases.append("stalled")
                between.stall()
            elif phases == ["stalled"] and dropped > 50:
                phases.append("flows")
                between.flow()

        text = f"""
pipeline: live
hosts: {{a: {{address: "127.0.0.1:{between.port}"}}}}
stages:
  - {{name: camera, source: numbers, options: {{count: 400, rate: 200}}}}
  - {{name: number, run: "$S:number", on: a}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on: a}}
edges:
  - {{from: camera, to: number, policy: drop_oldest, depth: 4}}
  - {{from: number, to: log}}
"""
        status = run_on_hosts(text, tmp_path, stall)
    assert phases == ["stalled", "flows"]
    edge = status["edges"][0]
    assert edge["sent"] == 400 == edge["taken"] + sum(edge["dropped"].values())
    written = sequences(tmp_path)
    assert written == sorted(set(written))
    assert len(written) == edge["taken"]


def test_a_host_ends_what_a_killed_coordinator_leaves(tmp_path: Path) -> None:
    with host(tmp_path, grace=0.2) as only:
        file = tmp_path / "p.yaml"
        file.write_text(
            f"""
pipeline: endless
hosts: {{a: {{address: "127.0.0.1:{only.port}"}}}}
stages:
  - {{name: camera, source: numbers, options: {{rate: 50}}}}
  - {{name: number, run: "{STAGES}:number", on: a}}
  - {{name: show, sink: stdout}}
"""
        )
        command = [sys.executable, "-m", "fairlead", "pipeline", "run", "--insecure", str(file)]
        before = _children_of_this_process()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert b'"sequence": 0' in child.stdout.readline()
            assert only.counters()["runs"] == 1
            workers = _children_of_this_process() - before - {child.pid}
            child.kill()
        assert len(workers) == 1
        for descriptor in [os.pidfd_open(pid) for pid in workers]:
            assert select.select([descriptor], [], [], LIMIT)[0]
            os.close(descriptor)
        _wait_for(lambda: only.counters()["runs"] == 0)


def test_tls_joins_hosts_and_images_travel_as_jpeg(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    keys = tmp_path / "keys"
    coordinator = certificates(keys, "coordinator")
    with host(tmp_path, certificates(keys, "a")) as only:
        text = f"""
pipeline: jpeg
hosts: {{a: {{address: "127.0.0.1:{only.port}"}}}}
stages:
  - {{name: camera, source: numbers, options: {{count: 12, shape: [1080, 1920, 3]}}, out: Image}}
  - {{name: number, run: "$S:number", on: a}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
edges:
  - {{from: camera, to: number, encode: jpeg}}
  - {{from: number, to: log}}
"""
        run_on_hosts(text, tmp_path, tls=coordinator)
    assert sequences(tmp_path) == list(range(12))
    assert all(abs(line["value"]["n"] - line["sequence"]) <= 3 for line in lines(tmp_path))


def test_problems_of_hosts_are_named_before_anything_starts(tmp_path: Path) -> None:
    with host(tmp_path) as only:
        text = CHAIN.format(a=only.port, b=only.port, count=1, rate="").replace("$S:number", "nowhere:gone")
        (problem,) = ask(text, tmp_path).problems
    assert "stage number on host b: nowhere cannot be imported" in problem.what
    assert problem.hint.startswith("code is not sent")
    (first, second) = ask(text, tmp_path).problems
    assert f"host a at 127.0.0.1:{only.port}" in first.what
    assert "host b" in second.what


def _children_of_this_process() -> set[int]:
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def _wait_for(condition: Any) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
