"""Runs that follow their file over hosts of the loopback: each frame once and in order."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hpack")

from tests.pipeline.followed import FollowedRun, chain, version, versions
from tests.pipeline.hosts import host


def test_a_host_at_a_new_address_gets_the_stage_and_the_old_one_is_left(tmp_path: Path) -> None:
    during: list[Any] = []

    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2)) as new:

        def change(run: FollowedRun, status: dict[str, Any]) -> None:
            if run.written >= 30 and not status["moves"] and status["follow"]["seen"] == begun:
                run.write(chain(new.port))
            if status["follow"]["moving"]:
                during.append(status["hosts"].keys())
            is_done = status["follow"]["digest"] == run.digest and [*status["hosts"]] == ["b"]
            is_left = old.counters()["runs"] == 0
            if status["moves"] and is_done and is_left and run.written >= status["moves"][0]["sequence"] + 20:
                run.end()

        run = FollowedRun(tmp_path, chain(old.port), change)
        begun = run.digest
        status = run.run()
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
