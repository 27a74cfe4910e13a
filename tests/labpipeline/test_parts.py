"""What is decided about pipelines as pods without a lab: objects, rules of the link, figures, the answer."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import LabError
from fairlead.lab.node.namespaces import link_ends
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import NodeNamespaces
from fairlead.labpipeline.cuts import with_pods
from fairlead.labpipeline.deployed import combined, means_between, places, stage_calls
from fairlead.labpipeline.images import find_images
from fairlead.labpipeline.link import redirect_rules
from fairlead.labpipeline.objects import TAINT, claims, namespaces, pods
from fairlead.pipeline.yaml_file import parse_pipeline
from fairlead.pipelineobjects.from_file import resource_of
from fairlead.reproduce.thesis.application import FREE, StageArrangement, ThesisWorkload, cut
from fairlead.reproduce.thesis.in_pods import MeasuredFrames, pods_text
from fairlead.yamltext import parse_documents

FRAMES = MeasuredFrames(40, 12)
WORKLOAD = ThesisWorkload("slow", 240, 320)


def resource(arrangement: StageArrangement) -> dict[str, Any]:
    text = pods_text(WORKLOAD, arrangement, FRAMES, pods()).encode()
    (document,) = parse_documents(text)
    return resource_of(parse_pipeline(text, "thesis.yaml"), document, "thesis-slow", "cuts", {})


@pytest.mark.parametrize("letters", ["SSSS", "EESS", "EEEE"])
def test_a_cut_is_a_pipeline_whose_stages_state_their_hosts(letters: str) -> None:
    spec = resource(cut(letters, ""))["spec"]
    hosts = {stage["name"]: stage.get("host") for stage in spec["stages"]}
    wanted = {"E": "edge", "S": "local"}
    assert [hosts[name] for name in FREE] == [wanted[letter] for letter in letters + letters[-1]]
    assert (hosts["camera"], hosts["log"]) == ("edge", None)
    (edge,) = spec["hosts"]
    assert edge["nodeSelector"] == {"kubernetes.io/hostname": "node-2"}
    assert edge["tolerations"] == [{"key": TAINT, "operator": "Exists"}]
    assert (edge["dataClaim"], spec["local"]["dataClaim"]) == ("edge", "local")
    assert spec["local"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}


def test_without_pins_every_stage_is_free_for_a_plan() -> None:
    spec = resource(StageArrangement())["spec"]
    assert [stage["name"] for stage in spec["stages"] if "host" in stage] == ["camera"]


def test_a_claim_of_each_host_is_a_folder_of_this_machine() -> None:
    items = json.loads(claims("cuts", {"edge": Path("/claims/edge"), "local": Path("/claims/local")}))[
        "items"
    ]
    volumes = {each["metadata"]["name"]: each["spec"] for each in items if each["kind"] == "PersistentVolume"}
    assert volumes["cuts-edge"]["hostPath"] == {"path": "/claims/edge"}
    for item in items:
        if item["kind"] == "PersistentVolumeClaim":
            spec = volumes[item["spec"]["volumeName"]]
            assert spec["claimRef"] == {key: item["metadata"][key] for key in ("namespace", "name")}
    names = [each["metadata"]["name"] for each in json.loads(namespaces("one", "two"))["items"]]
    assert names == ["one", "two"]


def test_frames_for_the_pods_of_a_node_go_to_the_relay() -> None:
    assert "ip daddr 10.88.2.0/24 tcp dport 7070 redirect to :7071\n" in redirect_rules("10.88.2.0/24")


def test_the_link_of_a_node_has_two_ends() -> None:
    nodes = [
        NodeNamespaces(f"node-{number}", f"10.89.0.{number}", Process(number, 1)) for number in (1, 2, 3)
    ]
    assert link_ends(nodes, 3) == ((nodes[0], "n3"), (nodes[2], "lan"))
    for number in (1, 4):
        with pytest.raises(LabError, match=f"node {number} has no link of its own"):
            link_ends(nodes, number)


def test_the_host_of_each_stage_is_read_from_a_status() -> None:
    hosts = [
        {"name": "edge", "stages": ["camera", "grey"]},
        {"name": "local", "stages": ["convolve", "relu", "pool", "mark", "log"]},
    ]
    assert [*places({"hosts": hosts}).values()] == ["edge", "local", "local", "local", "local"]


def test_the_means_of_stages_count_the_calls_between_two_moments() -> None:
    def status(seconds: float, count: int) -> dict[str, Any]:
        stages = [{"name": "grey", "times": {"process": {"sum": seconds, "count": count}}}]
        return {"stages": [*stages, {"name": "camera", "times": {"process": {"sum": 9.0, "count": 9}}}]}

    before, after = stage_calls(status(4.0, 40)), stage_calls(status(4.6, 52))
    assert means_between(before, after) == {"grey": pytest.approx(0.05)}
    assert means_between(before, before) == {"grey": 0.0}


def test_the_rate_is_that_of_fast_frames_and_the_latency_that_of_calm_ones() -> None:
    begins = [number * 0.1 for number in range(40)] + [10.0 + number * 0.2 for number in range(12)]
    ages = [0.5] * 40 + [0.03] * 12
    found = combined(FRAMES, begins, [begin + age for begin, age in zip(begins, ages, strict=True)])
    assert found.rate == pytest.approx(10.0)
    assert found.latency == pytest.approx(0.03)


def row(letters: str, **more: Any) -> dict[str, Any]:
    figures = {"frames_per_s": 10.0, "latency_s": 0.1, "ccr": None}
    return {"cut": letters, "kernel": "slow", "width": 320, "height": 240, **figures, **more}


def test_figures_of_pods_stand_beside_those_of_the_same_cut() -> None:
    answer = {"cuts": [row("SSSS", bytes=5), row("ESSS", bytes=4)], "missing": []}
    both = with_pods(answer, {"how": {"edge": "node-2"}, "rows": [row("ESSS", frames_per_s=9.0)]})
    assert [each["pods"] for each in both["cuts"]] == [
        None,
        {"frames_per_s": 9.0, "latency_s": 0.1, "ccr": None},
    ]
    assert both["lab"] == {"edge": "node-2"}
    without = with_pods(answer, None)
    assert without["lab"] is None
    assert without["cuts"][0] == row("SSSS", bytes=5, pods=None)


def test_missing_images_are_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"operator-image\.tar: no such image") as error:
        find_images(tmp_path)
    assert "fairlead docs image" in str(error.value.hint)
    for name in ("operator", "pipeline"):
        with tarfile.open(tmp_path / f"fairlead-{name}-image.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("manifest.json"))
    assert find_images(tmp_path).pipeline == tmp_path / "fairlead-pipeline-image.tar"
