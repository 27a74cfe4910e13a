"""Runs that follow their file over hosts of the loopback: each frame once and in order."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hpack")

from tests.pipeline.followed import FollowedRun, chain, version, versions
from tests.pipeline.hosts import LIMIT, host, start_host
from tests.pipeline.test_probes import line_with, page, started

WAITS = """
import os, time


class work:
    def open(self):
        open("{folder}/opening", "w").close()
        while not os.path.exists("{folder}/gate"):
            time.sleep(0.01)
        if open("{folder}/gate").read():
            raise RuntimeError("this version is broken")

    def process(self, image):
        return {{"version": 2}}
"""


def test_a_host_at_a_new_address_gets_the_stage_and_the_old_one_is_left(tmp_path: Path) -> None:
    during: list[Any] = []

    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2)) as new:

        def change(run: FollowedRun, status: dict[str, Any]) -> None:
            if run.written >= 30 and run.is_as_begun:
                run.write(chain(new.port))
            if status["follow"]["moving"]:
                during.append(status["hosts"].keys())
            is_left = run.is_followed and [*status["hosts"]] == ["b"] and old.counters()["runs"] == 0
            if is_left and status["moves"] and run.written >= status["moves"][0]["sequence"] + 20:
                run.end()

        status = FollowedRun(tmp_path, chain(old.port), change).run()
    (move,) = status["moves"]
    switch = move["sequence"]
    seen = versions(tmp_path)
    assert seen == [1] * switch + [2] * (len(seen) - switch)
    assert 30 <= switch < len(seen)
    assert move["replayed"] == "", "the old path was drained"
    assert {"b", f"b@127.0.0.1:{new.port}"} in during, "both hosts are connected before the switch"
    assert status["stages"][2]["places"] == [{"host": "b", "address": f"127.0.0.1:{new.port}"}]
    assert status["stages"][2]["in"] == len(seen), "no frame was computed twice"
    assert [stage["restarts"] for stage in status["stages"]] == [0, 0, 0, 0]


def test_a_broken_version_is_given_up_and_tried_again(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.write_text("broken")
    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2, WAITS.format(folder=tmp_path))) as new:

        def change(run: FollowedRun, status: dict[str, Any]) -> None:
            if run.written >= 20 and run.is_as_begun:
                run.write(chain(new.port))
            if "this version is broken" in status["follow"]["failed"]:
                assert status["follow"]["digest"] != status["follow"]["seen"]
                gate.write_text("")
            if run.is_followed and status["moves"] and run.written >= status["moves"][0]["sequence"] + 20:
                run.end()

        run = FollowedRun(tmp_path, chain(old.port), change)
        status = run.run()
    assert len(status["moves"]) == 1
    assert status["follow"]["failed"] == ""
    seen = versions(tmp_path)
    assert seen == sorted(seen)
    assert {*seen} == {1, 2}
    (given_up,) = [line for line in run.lines if "was given up" in line]
    assert given_up.startswith("the move of work was given up: stage work on b: ")
    assert given_up.endswith("RuntimeError: this version is broken")


def test_replicas_change_their_number_and_their_host(tmp_path: Path) -> None:
    """From two to three on one host, then to a host that the file did not have."""
    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2)) as new:
        texts = [
            chain(old.port, 150, ", replicas: 3"),
            chain(old.port, 150, ", replicas: 3")
            .replace("\nstages:", f'\n  c: {{address: "127.0.0.1:{new.port}"}}\nstages:')
            .replace("on: b", "on: c"),
        ]

        def change(run: FollowedRun, status: dict[str, Any]) -> None:
            last = status["moves"][-1]["sequence"] if status["moves"] else 0
            if not run.is_followed or run.written < last + 30 or len(status["moves"]) + len(texts) > 2:
                return
            if texts:
                run.write(texts.pop(0))
            elif [*status["hosts"]] == ["c"]:
                run.end()

        status = FollowedRun(tmp_path, chain(old.port, 150, ", replicas: 2"), change).run()
    assert [
        [(each["name"], each["from"], each["to"]) for each in move["stages"]] for move in status["moves"]
    ] == [
        [("work", "b", "b")],
        [("work", "b", "c")],
    ]
    seen = versions(tmp_path)
    assert seen == sorted(seen)
    assert status["stages"][2]["in"] == len(seen)
    assert len(status["stages"][2]["workers"]) == 3


@contextlib.contextmanager
def host_process(folder: Path) -> Iterator[Any]:
    """Yield the process of a host, and its port."""
    child, port = start_host(folder)
    with child:
        try:
            yield child, port
        finally:
            child.kill()


def test_hosts_that_are_killed_before_and_after_a_move(tmp_path: Path) -> None:
    """The second host dies while it opens the stage, the third one with the stage on it."""
    steps: list[str] = []
    waits = version(tmp_path, 2, WAITS.format(folder=tmp_path))
    with (
        host(version(tmp_path, 1)) as first,
        host_process(waits) as (second, at_second),
        host_process(version(tmp_path, 3)) as (third, at_third),
        host(version(tmp_path, 4)) as fourth,
    ):

        def change(run: FollowedRun, status: dict[str, Any]) -> None:
            moves, follow = status["moves"], status["follow"]
            if not steps and run.written >= 20:
                run.write(chain(at_second, 50))
                steps.append("begun")
            elif steps == ["begun"] and (tmp_path / "opening").exists():
                second.kill()
                steps.append("second killed")
            elif len(steps) == 2 and "was lost" in follow["failed"]:
                run.write(chain(at_third, 50))
                steps.append("to the third")
            elif len(steps) == 3 and run.is_followed and run.written >= moves[0]["sequence"] + 20:
                third.kill()
                steps.append("third killed")
            elif len(steps) == 4 and status["stages"][2]["restarts"]:
                run.write(chain(fourth.port, 50))
                steps.append("to the fourth")
            elif len(steps) == 5 and run.is_followed and run.written >= moves[1]["sequence"] + 20:
                run.end()

        status = FollowedRun(tmp_path, chain(first.port, 50), change).run()
    assert len(steps) == 5
    assert [move["replayed"] for move in status["moves"]] == ["", "the old processes were lost"]
    seen = versions(tmp_path)
    assert seen == sorted(seen)
    assert {*seen} == {1, 3, 4}


def test_a_coordinator_that_is_killed_during_a_move_goes_on_with_the_new_file(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2, WAITS.format(folder=tmp_path))) as new:
        file.write_text(chain(old.port))
        words = ["run", str(file), "--insecure", "--follow", "-q", "--metrics", "0"]
        words += ["--state", str(tmp_path / "state")]
        with started(*words) as child:
            address = metrics_of(child)
            wait_until(child, lambda: taken_at(address) >= 20)
            file.write_text(chain(new.port))
            wait_until(child, (tmp_path / "opening").exists)
            assert status_at(address)["follow"]["moving"] is True
            assert page(address, "/readyz") == (200, "ok\n"), "frames flow on the old path"
            child.kill()
        before = len(versions(tmp_path))
        (tmp_path / "gate").touch()
        with started(*words, "--resume") as child:
            address = metrics_of(child)
            wait_until(child, lambda: taken_at(address) >= 20)
            child.terminate()
            _, said = child.communicate(timeout=LIMIT)
        assert child.returncode == 0, said
    seen = versions(tmp_path)
    assert seen == sorted(seen)
    assert before <= seen.count(1) < len(seen)


def metrics_of(child: "subprocess.Popen[str]") -> str:
    """Return the address of the pages of a run."""
    return line_with(child, "metrics on").partition("http://")[2].partition("/")[0]


def wait_until(child: "subprocess.Popen[str]", condition: Callable[[], bool]) -> None:
    """Wait for what a run leads to."""
    until = time.monotonic() + LIMIT
    while not condition():
        assert child.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def taken_at(address: str) -> int:
    """Return how many frames the sink of a run has taken."""
    return int(status_at(address).get("stages", [{"out": 0}])[-1]["out"])


def status_at(address: str) -> dict[str, Any]:
    """Return what a run says at `/status`; empty before it has said anything."""
    code, text = page(address, "/status")
    return dict(json.loads(text)) if code == 200 else {}
