"""A canary of a stage: one more process at another place, which gets its share of the frames, in order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hpack")

from fairlead.errors import PipelineError
from fairlead.pipeline.check import check_structure
from fairlead.pipeline.control import stage_from_json, stage_to_json
from fairlead.pipeline.fuse import plan_workers, replace_spec
from fairlead.pipeline.replan.following import LiveChange, live_change
from fairlead.pipeline.ring.pair import RingReceiver, RingSender, ring_pair
from fairlead.pipeline.spec import CanarySpec
from fairlead.pipeline.work.canary_share import CanaryShare
from fairlead.pipeline.work.outlet import Outlet
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.followed import FollowedRun, chain, version
from tests.pipeline.hosts import host
from tests.pipeline.pipelines import lines
from tests.pipeline.rings import SOON, header

CANARY = ", replicas: 2, canary: {host: c, percent: 20}"


def with_canary(port: int, other: int, more: str = CANARY) -> str:
    """Return the pipeline with a second host at another port."""
    text = chain(port, 150, more)
    return text.replace("\nstages:", f'\n  c: {{address: "127.0.0.1:{other}"}}\nstages:')


@pytest.mark.parametrize("percent", [1, 10, 33, 50])
def test_a_share_is_given_evenly_and_never_more(percent: int) -> None:
    share = CanaryShare()
    share.set(2, percent)
    given = 0
    for sent in range(1, 1001):
        if share.is_due:
            given += 1
            share.count(2)
        else:
            share.count(0)
        assert 100 * given <= percent * sent
    assert given == 10 * percent


def test_a_canary_that_takes_no_frames_holds_up_none() -> None:
    share = CanaryShare()
    share.set(1, 50)
    for _ in range(100):
        share.count(0)
    assert share.is_due


def test_a_canary_that_is_not_due_is_not_waited_for() -> None:
    """Its ring has room all the time: to wait for that would be no wait."""
    waits: list[list[int]] = []
    pairs = [ring_pair(2), ring_pair(2)]
    senders = [RingSender(ours, 2) for ours, _ in pairs]
    receivers = [RingReceiver(theirs) for _, theirs in pairs]

    def wait(descriptors: Sequence[int]) -> None:
        waits.append([*descriptors])
        frame = receivers[0].receive(SOON)
        assert frame is not None
        frame.release()

    outlet = Outlet("edge", 2, marked=False, wait=wait, is_stale=lambda epoch: False)
    outlet.attach(0, senders[0])
    outlet.attach(1, senders[1], share=20)
    array = np.zeros((2, 2), np.uint8)
    for sequence in range(6):
        outlet.send(header(sequence, array), (array,))
    assert waits == [[senders[0].fileno()]] * 3
    assert receivers[1].receive(SOON) is not None, "the fifth frame"
    for sender, receiver in zip(senders, receivers, strict=True):
        sender.close()
        receiver.close()


def test_a_plan_has_one_more_process_and_its_share() -> None:
    old = parse_pipeline(chain(7070, 150, ", replicas: 2").encode(), "p.yaml")
    new = parse_pipeline(with_canary(7070, 7071).encode(), "p.yaml")
    assert check_structure(new) == []
    assert live_change(old, new) == live_change(new, old) == LiveChange(("work",))
    plan = replace_spec(plan_workers(old), new, 1)
    assert [(each.name, each.host, each.share) for each in plan.workers if "work" in each.name] == [
        ("work/0@1", "b", 0),
        ("work/1@1", "b", 0),
        ("work/2@1", "c", 20),
    ]
    assert [link.share for link in plan.links if link.edge.target == "work"] == [0, 0, 20]
    assert [link.share for link in plan.links if link.edge.source == "work"] == [0, 0, 0]
    stage = new.stage("work")
    assert stage.canary == CanarySpec("c", 20)
    assert stage_from_json(stage_to_json(stage)) == stage
    assert len([each for each in replace_spec(plan, old, 2).workers if "work" in each.name]) == 2


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (", canary: {host: c, percent: 20}", "a canary is one more of several replicas"),
        (CANARY.replace("host: c", "host: d"), "canary: no host is named 'd'"),
    ],
)
def test_where_no_canary_can_be(more: str, text: str) -> None:
    problems = check_structure(parse_pipeline(with_canary(7070, 7071, more).encode(), "p.yaml"))
    assert any(text in each.what for each in problems)


@pytest.mark.parametrize(
    ("canary", "text"),
    [
        ("c", "canary: 'c' is not a mapping"),
        ("{host: c}", "a canary needs a host and a percent"),
        ("{host: c, percent: 51}", "percent: 51 is not a whole number from 1 to 50"),
        ("{host: c, percent: 5, for: 1m}", "a canary has no key 'for'"),
    ],
)
def test_nonsense_is_refused(canary: str, text: str) -> None:
    with pytest.raises(PipelineError) as error:
        parse_pipeline(with_canary(7070, 7071, f", replicas: 2, canary: {canary}").encode(), "p.yaml")
    assert text in str(error.value)


def test_a_run_gives_a_canary_its_share_and_takes_it_back(tmp_path: Path) -> None:
    """The old version alone, both of them, and the old one again: each frame once, in order."""
    with host(version(tmp_path, 1)) as old, host(version(tmp_path, 2)) as new:
        texts = [with_canary(old.port, new.port), chain(old.port, 150, ", replicas: 2")]
        shares: list[Any] = []

        def change(run: FollowedRun, status: dict[str, Any]) -> None:
            last = status["moves"][-1]["sequence"] if status["moves"] else 0
            shares.append(status["stages"][2].get("versions"))
            if not run.is_followed or run.written < last + 100 or len(status["moves"]) + len(texts) > 2:
                return
            if texts:
                run.write(texts.pop(0))
            else:
                run.end()

        status = FollowedRun(tmp_path, chain(old.port, 150, ", replicas: 2"), change).run()
    written = lines(tmp_path)
    assert [line["sequence"] for line in written] == list(range(len(written)))
    begin, end = (move["sequence"] for move in status["moves"])
    seen = [line["value"]["version"] for line in written]
    assert {*seen[:begin], *seen[end:]} == {1}
    assert (end - begin) // 10 <= seen[begin:end].count(2) <= (end - begin) // 5 + 1
    stable, canary = next(each for each in reversed(shares) if each)
    assert [stable["version"], canary["version"]] == ["stable", "canary"]
    assert (stable["percent"], canary["percent"]) == (80, 20)
    assert canary["places"] == [{"host": "c", "address": f"127.0.0.1:{new.port}"}]
    assert 0 < canary["in"] < stable["in"]
    assert (canary["failed"], canary["restarts"]) == (0, 0)
