"""The controller beside real runs: a canary that all frames follow, or none; replicas that stay."""

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hpack")

from tests.pipeline.followed import FollowedRun, version, versions
from tests.pipeline.hosts import host
from tests.pipeline.pipelines import lines
from tests.pipelineobjects.test_followed_run import SPEC, LoopbackCluster

pytestmark = pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="half a minute each; FAIRLEAD_CHAOS=long"
)
UPDATE = "update: {observe: 5s, canary: {percent: 20, duration: 6s}}"
CODE = """
import time


def work(image):
    time.sleep(SECONDS)
    return {"version": NUMBER}
"""


def code(number: int, seconds: float) -> str:
    """Return the code of a version whose calls take some time."""
    return CODE.replace("SECONDS", str(seconds)).replace("NUMBER", str(number))


@pytest.mark.parametrize(("seconds", "passes"), [(0.005, True), (0.03, False)])
def test_a_new_version_is_followed_or_refused_by_what_its_share_shows(
    tmp_path: Path, seconds: float, passes: bool
) -> None:
    spec = SPEC.replace("host: server,", "host: server, replicas: 2,").replace(
        "update: {rollback: false}", UPDATE
    )
    first, second = version(tmp_path, 1, code(1, 0.005)), version(tmp_path, 2, code(2, seconds))
    with host(first) as old, host(second) as new:
        cluster = LoopbackCluster({"a": old.port, "b": new.port}, spec)
        world = cluster.world
        world.live()

        def on_status(run: FollowedRun, status: dict[str, Any]) -> None:
            if run.written >= 30 and world.resource["spec"]["image"] == "image:1":
                world.change(lambda spec: spec.update(image="image:2"))
            cluster.step(run, status)
            servers = [name for name in world.pods() if name.startswith("server")]
            ends = "Updated" if passes else "RolledBack"
            if any(each.reason == ends for each in world.events) and len(servers) == 1:
                run.end()

        FollowedRun(tmp_path, cluster.text(), on_status).run()
    written = lines(tmp_path)
    assert [line["sequence"] for line in written] == list(range(len(written)))
    said = list(dict.fromkeys(each.reason for each in world.events))
    expected = (
        ["Canary", "CanaryPassed", "Moving", "Moved", "Updated"] if passes else ["Canary", "RolledBack"]
    )
    assert [
        each
        for each in said
        if each in ("Canary", "CanaryPassed", "RolledBack", "Moving", "Updated", "Moved")
    ] == (expected)
    seen = [line["value"]["version"] for line in written]
    both = seen[seen.index(2) :] if passes else seen[seen.index(2) : len(seen) - seen[::-1].index(2)]
    assert both.count(2) > 20
    if passes:
        assert seen[-20:] == [2] * 20
    else:
        assert seen[-20:] == [1] * 20
        assert both.count(2) <= len(both) // 5 + 2


def test_replicas_follow_the_load_of_a_real_run_and_stay_through_an_update(tmp_path: Path) -> None:
    code = "import time\n\ndef work(image):\n    time.sleep(0.02)\n    return {'version': NUMBER}\n"
    bounds = "scale: {max: 2, up_after: 500ms, down_after: 1h}"
    first, second = (version(tmp_path, number, code.replace("NUMBER", str(number))) for number in (1, 2))
    with host(first) as old, host(second) as new:
        cluster = LoopbackCluster(
            {"a": old.port, "b": new.port}, SPEC.replace("host: server,", f"host: server, {bounds},")
        )
        world = cluster.world
        world.live()

        def on_status(run: FollowedRun, status: dict[str, Any]) -> None:
            is_scaled = any(each.reason == "Scaled" for each in world.events)
            if is_scaled and world.resource["spec"]["image"] == "image:1":
                world.change(lambda spec: spec.update(image="image:2"))
            cluster.step(run, status)
            moves = status["moves"]
            if (
                len(moves) == 2
                and "server-a" not in world.pods()
                and run.written >= moves[1]["sequence"] + 20
            ):
                run.end()

        status = FollowedRun(tmp_path, cluster.text(), on_status).run()
    up, update = status["moves"]
    assert [(each["name"], each["replicas"]) for each in up["stages"]] == [("work", [1, 2])]
    seen = versions(tmp_path)
    assert seen == [1] * update["sequence"] + [2] * (len(seen) - update["sequence"])
    assert len(status["stages"][1]["workers"]) == 2, "an update keeps the number of now"
    (event,) = {each.message for each in world.events if each.reason == "Scaled"}
    assert event == f"work scaled from 1 to 2: {up['reason']}"
    (entry,) = world.resource["status"]["scaling"]
    assert (entry["replicas"], entry["max"], entry["reason"]) == (2, 2, up["reason"])
