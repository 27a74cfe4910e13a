"""What a profile says of machines that answer as a table says, and of hosts on the loopback."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from fairlead.errors import PipelineError, SettingsError
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.link.jpeg import available
from fairlead.pipeline.profile.facts import MachineFacts, PipelineProfile, StageCost
from fairlead.pipeline.profile.machine import MeasureRequest, ProfiledMachine, ReachedMachines, StageSample
from fairlead.pipeline.profile.profiler import ProfileSettings, profile_pipeline
from fairlead.pipeline.profile.record import FrameRecorder
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.hosts import host

TEXT = """pipeline: p
hosts: {a: {address: "127.0.0.1:1"}, b: {address: "127.0.0.1:2"}}
stages:
  - {name: camera, source: numbers}
  - {name: twice, run: "m:twice"}
  - {name: fixed, run: "m:fixed", on: a}
  - {name: log, sink: stdout}
edges:
  - {from: camera, to: twice, encode: jpeg}
  - {from: twice, to: fixed}
  - {from: fixed, to: log}
"""


@dataclass
class TableMachine:
    """A machine on which stages fail, or make some values of ten frames."""

    facts: MachineFacts
    made: dict[str, int]
    asked: list[tuple[str, int, bool]] = field(default_factory=list)

    def measure(self, order: MeasureRequest, inputs: Sequence[str], output: str) -> StageSample:
        """Record images that are easy to compress."""
        name = order.stage.name
        self.asked.append((name, len(inputs), bool(output)))
        if name not in self.made:
            raise SettingsError("it is away")
        if output:
            with open(output, "wb") as file:
                recorder = FrameRecorder(file, order.output_bytes)
                for number in range(self.made[name]):
                    recorder.write(FrameHeader(0, number, 1.0), np.zeros((64, 64, 3), np.uint8))
        return StageSample(StageCost(0.01, 0.02, 5, 7), 10, self.made[name])


def profiled(folder: Path, text: str, **made: dict[str, int]) -> tuple[PipelineProfile, list[TableMachine]]:
    """Profile a pipeline on machines that answer as a table says."""
    fakes = [TableMachine(MachineFacts(name, 2, 100), table) for name, table in made.items()]
    machines: dict[str, ProfiledMachine] = {fake.facts.name: fake for fake in fakes}
    reached = ReachedMachines(machines, notes=("host c is left out: no answer",))
    spec = parse_pipeline(text.encode(), "p.yaml")
    return profile_pipeline(spec, reached, str(folder), ProfileSettings(7, 1.0)), fakes


def test_stages_are_measured_where_they_may_be_and_recorded_once(tmp_path: Path) -> None:
    local, other = {"camera": 10, "fixed": 10}, {"twice": 20, "fixed": 5}
    profile, (here, there) = profiled(tmp_path, TEXT.replace(", encode: jpeg", ""), local=local, a=other)
    assert here.asked == [("camera", 0, True), ("twice", 1, True)]
    assert there.asked == [("twice", 1, True), ("fixed", 1, True)]
    assert [(stage.name, stage.rate, sorted(stage.costs)) for stage in profile.stages] == [
        ("camera", 1.0, ["local"]),
        ("twice", 1.0, ["a"]),
        ("fixed", 2.0, ["a"]),
    ]
    assert profile.stages[1].unknown == {"local": "it is away"}
    assert [(edge.source, edge.rate) for edge in profile.edges] == [
        ("camera", 1.0),
        ("twice", 2.0),
        ("fixed", 1.0),
    ]
    assert {edge.bytes for edge in profile.edges} == {64 * 64 * 3 + 96 + 22}
    assert profile.notes == ("host c is left out: no answer",)


def test_an_edge_with_jpeg_is_as_small_as_that(tmp_path: Path) -> None:
    if not available():
        pytest.skip("no library for JPEG is installed")
    table = {"camera": 10, "twice": 10, "fixed": 10}
    profile, _ = profiled(tmp_path, TEXT, local=table, a=table)
    assert profile.edges[0].encode == "jpeg"
    assert 200 < profile.edges[0].bytes < profile.edges[1].bytes / 4


def test_a_stage_behind_one_that_makes_nothing_is_not_known(tmp_path: Path) -> None:
    profile, _ = profiled(tmp_path, TEXT, local={"camera": 10, "twice": 0}, a={"twice": 0, "fixed": 1})
    assert profile.stages[2].unknown == {"a": "no frame reached the stage"}
    profile, _ = profiled(tmp_path, TEXT, local={"camera": 10, "twice": 10})
    assert profile.stages[2].unknown == {"a": "the host was not reached"}


def test_without_a_source_there_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="source camera on local: it is away"):
        profiled(tmp_path, TEXT, local={}, a={})


def test_hosts_measure_their_links_with_each_other(tmp_path: Path) -> None:
    pytest.importorskip("hpack")
    from fairlead.pipeline.profile.reach import reach_hosts  # noqa: PLC0415 - it needs hpack

    with host(tmp_path) as a, host(tmp_path) as b:
        hosts = {"a": a.port, "b": b.port, "away": 1}
        table = ", ".join(f'{name}: {{address: "127.0.0.1:{port}"}}' for name, port in hosts.items())
        text = TEXT.replace(TEXT.splitlines()[1], f"hosts: {{{table}}}")
        reached = reach_hosts(parse_pipeline(text.encode(), "p.yaml"), None, 1.0)
    assert list(reached.machines) == ["local", "a", "b"]
    pairs = [("local", "a"), ("a", "local"), ("a", "b"), ("b", "a"), ("local", "b"), ("b", "local")]
    assert [(link.source, link.target) for link in reached.links] == pairs
    assert all(link.bytes_per_s > 1000 and 0 < link.delay_s < 10 for link in reached.links)
    assert [note.partition(":")[0] for note in reached.notes] == ["host away is left out"]
