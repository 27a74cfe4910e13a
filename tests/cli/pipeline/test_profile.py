"""`fairlead pipeline profile` and `plan FILE`, as a user calls them, with a second host on the loopback."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.examples import Run
from tests.pipeline.hosts import certificates, host
from tests.pipeline.pipelines import STAGES
from tests.pipeline.test_models import model

FRAMES = 12


def pipeline(folder: Path, *stages: str, hosts: str = "{}") -> str:
    """Write a pipeline of some stages between images and a sink, and return its path."""
    lines = [
        f"{{name: camera, source: numbers, options: {{count: {FRAMES}, shape: [8, 8, 3]}}}}",
        *stages,
        "{name: log, sink: 'null'}",
    ]
    path = folder / "p.yaml"
    path.write_text(f"pipeline: p\nhosts: {hosts}\nstages:\n" + "".join(f"  - {line}\n" for line in lines))
    return str(path)


@pytest.fixture
def two_machines(tmp_path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a pipeline, and the options that reach its host; one stage is missing there."""
    pytest.importorskip("hpack")
    pytest.importorskip("cryptography")
    (tmp_path / "host").mkdir()
    (tmp_path / "mine.py").write_text("def same(value):\n    return value\n")
    keys = tmp_path / "keys"
    server, ours = certificates(keys, "a"), certificates(keys, "coordinator")
    with host(tmp_path / "host", server) as other:
        path = pipeline(
            tmp_path,
            f'{{name: odd, run: "{STAGES}:odd"}}',
            '{name: mine, run: "mine.py:same"}',
            f'{{name: number, run: "{STAGES}:number"}}',
            hosts=f'{{a: {{address: "127.0.0.1:{other.port}", class: small}}, far: {{class: t4}}}}',
        )
        yield path, ("--ca", ours.ca, "--cert", ours.cert, "--key", ours.key)


def test_two_machines_are_profiled_and_planned(
    run: Run, two_machines: tuple[str, tuple[str, ...]], tmp_path: Path
) -> None:
    path, tls = two_machines
    written = str(tmp_path / "profile.json")
    code, out, err = run("pipeline", "profile", path, *tls, "--out", written, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert json.loads(Path(written).read_text()) == document
    _check_profile(document)
    code, out, err = run("pipeline", "plan", path, "--profile", written, "-o", "json")
    assert (code, err) == (0, "")
    _check_plan(json.loads(out), document)
    code, out, _ = run("pipeline", "plan", path, "--profile", written)
    assert code == 0
    assert "Bottleneck: " in out
    assert "note: mine on a is not known: mine.py cannot be imported" in out
    code, out, _ = run("pipeline", "plan", path, "--profile", written, "--explore", "-o", "json")
    cuts = {(cut["cut"], cut["other"]): cut["possible"] for cut in json.loads(out)["cuts"]}
    assert cuts[("EEEE", None)]
    assert not cuts[("EESS", "a")]
    assert cuts[("EEES", "a")]
    assert ("SSSS", "a") not in cuts
    slow = ("--link", "local->a=1b/s", "--link", "a->local=1b/s,2s")
    code, out, _ = run("pipeline", "plan", path, "--profile", written, *slow, "-o", "json")
    assert set(json.loads(out)["assignment"]) == {"local"}


def _check_profile(document: dict[str, Any]) -> None:
    assert document["version"] == 1
    local, other, far = document["machines"]
    assert (local["name"], other["name"], other["machine_class"]) == ("local", "a", "small")
    assert (far["name"], far["machine_class"], far["basis"]) == ("far", "t4", "predicted")
    assert min(local["cores"], other["cores"]) >= 1
    assert min(local["memory_bytes"], other["memory_bytes"]) > 1 << 20
    ends = [(link["source"], link["target"]) for link in document["links"]]
    assert ends == [("local", "a"), ("a", "local")]
    assert all(link["bytes_per_s"] > 1000 and 0 < link["delay_s"] < 10 for link in document["links"])
    stages = {stage["name"]: stage for stage in document["stages"]}
    assert {name: stage["rate"] for name, stage in stages.items()} == {
        "camera": 1.0,
        "odd": 1.0,
        "mine": 0.5,
        "number": 0.5,
    }
    assert {name: sorted(stage["costs"]) for name, stage in stages.items()} == {
        "camera": ["local"],
        "odd": ["a", "local"],
        "mine": ["local"],
        "number": ["a", "local"],
    }
    for cost in (cost for stage in stages.values() for cost in stage["costs"].values()):
        assert 0 < cost["p10"] <= cost["p90"] < 10
        assert 0 < cost["seconds"] < 10, "a mean: one slow call may bring it above p90"
        assert cost["memory_bytes"] > 1 << 20
    assert stages["odd"]["costs"]["a"]["frames"] == FRAMES - 3
    assert stages["number"]["costs"]["a"]["frames"] == FRAMES // 2 - 3
    assert stages["mine"]["unknown"]["a"].startswith("mine.py cannot be imported")
    assert "only ONNX stages are predicted" in stages["odd"]["unknown"]["far"]
    edges = {(edge["source"], edge["target"]): edge for edge in document["edges"]}
    assert 8 * 8 * 3 + 96 < edges["camera", "odd"]["bytes"] < 8 * 8 * 3 + 200
    assert edges["odd", "mine"]["rate"] == 0.5
    assert edges["number", "log"]["bytes"] < 200


def _check_plan(plan: dict[str, Any], document: dict[str, Any]) -> None:
    assert list(plan)[:4] == ["assignment", "period_s", "latency_s", "bottleneck"]
    assert plan["stages"] == ["camera", "odd", "mine", "number", "log"]
    nodes = dict(zip(plan["stages"], plan["assignment"], strict=True))
    assert (nodes["camera"], nodes["mine"], nodes["log"]) == ("local", "local", "local")
    assert 0 < plan["period_s"] <= plan["latency_s"]
    assert plan["limit"]["cores"] == sum(machine["cores"] for machine in document["machines"])
    assert plan["one_process"]["node"] == "local"
    assert "the link local->far is not known" in plan["unknown"]
    assert plan["objective"] == "throughput"


def test_a_model_is_predicted_for_a_device_that_is_not_there(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model(tmp_path / "m.onnx", 1, 3, 8, 8)
    net = "{name: net, run: m.onnx, options: {resize: [8, 8], scale: 1/255, layout: nchw}}"
    path = pipeline(tmp_path, f'{{name: odd, run: "{STAGES}:odd"}}', net)
    written = str(tmp_path / "profile.json")
    code, out, _ = run("pipeline", "profile", path, "--class", "t4", "--out", written)
    assert code == 0
    assert "predicted, " in out
    stages = {stage["name"]: stage for stage in json.loads(Path(written).read_text())["stages"]}
    cost = stages["net"]["costs"]["t4"]
    assert cost["basis"] == "predicted"
    assert 0 < cost["seconds"] < cost["p90"]
    assert cost["confidence"] in ("low", "medium", "high")
    assert stages["net"]["costs"]["local"]["basis"] == "measured"
    assert "t4" not in stages["odd"]["costs"]
    code, out, _ = run("pipeline", "plan", path, "--profile", written, "-o", "json")
    assert code == 0
    assert set(json.loads(out)["assignment"]) == {"local"}
    assert "the link local->t4 is not known" in json.loads(out)["unknown"]


def test_one_machine_gets_replicas_in_its_file(run: Run, tmp_path: Path) -> None:
    stages = (f'{{name: slow, run: "{STAGES}:slow"}}', f'{{name: number, run: "{STAGES}:number"}}')
    path = pipeline(tmp_path, *stages)
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(_profile_of(slow=0.01, number=0.0001)))
    planned = str(tmp_path / "planned.yaml")
    words = ("pipeline", "plan", path, "--profile", str(profile), "--replicas", "--out", planned)
    code, out, _ = run(*words)
    assert code == 0
    assert (
        "Replicas: 4 of slow on 4 cores would have a period of 2.75 ms, 3.71x as fast as one process." in out
    )
    assert "One process" not in out
    text = Path(planned).read_text()
    assert text == Path(path).read_text().replace("{name: slow,", "{replicas: 4, name: slow,")
    assert run("pipeline", "check", planned)[0] == 0
    document = json.loads(run(*words[:5], "-o", "json")[1])
    assert document["replicas"] == {"stage": "slow", "number": 4, "period_s": pytest.approx(0.00275)}
    profile.write_text(json.dumps(_profile_of(slow=0.0001, number=0.0001)))
    out = run(*words[:5])[1]
    assert "Replicas: none; a second process of any stage gains less than its hops take" in out


def _profile_of(**seconds: float) -> dict[str, Any]:
    """Return a profile of a chain on one machine with four cores; camera takes 0.1 ms."""
    times = {"camera": 0.0001, **seconds}
    names = [*times, "log"]
    return {
        "version": 1,
        "pipeline": "p",
        "machines": [
            {"name": "local", "cores": 4, "memory_bytes": 1 << 34, "machine_class": "", "basis": "measured"}
        ],
        "links": [],
        "stages": [
            {
                "name": name,
                "rate": 1.0,
                "costs": {
                    "local": {
                        "seconds": each,
                        "p90": each,
                        "memory_bytes": 9,
                        "frames": 5,
                        "basis": "measured",
                    }
                },
                "unknown": {},
            }
            for name, each in times.items()
        ],
        "edges": [
            {"source": one, "target": two, "bytes": 100.0, "rate": 1.0, "encode": ""}
            for one, two in pairwise(names)
        ],
        "notes": [],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan",), "name a pipeline, or a problem with --problem: one of them"),
        (("plan", "p.yaml", "--problem", "x"), "name a pipeline, or a problem with --problem: one of them"),
        (("plan", "--problem", "x", "--max-latency", "1s"), "--max-latency goes with a pipeline"),
        (("plan", "p.yaml", "--max-latency", "100"), "--max-latency 100: a time needs a unit"),
        (("plan", "p.yaml", "--link", "a=5"), "--link a=5: not FROM->TO=RATE"),
        (
            ("plan", "p.yaml", "--link", "local->x=1Mb/s", "--profile", "one.json"),
            "--link: no machine is 'x'",
        ),
        (("plan", "p.yaml", "--replicas"), "--replicas says what --out writes"),
        (("plan", "p.yaml", "--out", "/elsewhere/p.yaml"), "--out /elsewhere/p.yaml: not in the folder of"),
        (("plan", "p.yaml", "--profile", "none.json"), "none.json: cannot be read"),
        (("plan", "p.yaml", "--profile", "p.yaml"), "p.yaml: no pipeline-profile"),
        (("plan", "p.yaml", "--profile", "other.json"), "other.json: a profile of pipeline q, not of p"),
        (
            ("plan", "p.yaml", "--profile", "bad.json"),
            "bad.json: no pipeline-profile: a number that is negative",
        ),
        (("profile", "p.yaml", "--frames", "0"), "--frames 0: not a number from 1 to 10000"),
        (("profile", "p.yaml", "--seconds", "0s"), "--seconds 0s: not a time up to an hour"),
        (("profile", "p.yaml", "--class", "no-such-device"), "no-such-device"),
    ],
)
def test_wrong_words_are_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline(tmp_path)
    (tmp_path / "one.json").write_text(json.dumps(_profile_of()))
    (tmp_path / "other.json").write_text(json.dumps({**_profile_of(), "pipeline": "q"}))
    (tmp_path / "bad.json").write_text(json.dumps(_profile_of(number=-1.0)))
    code, out, err = run("pipeline", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_latency_that_no_plan_keeps_is_an_answer(run: Run, tmp_path: Path) -> None:
    path = pipeline(tmp_path, f'{{name: slow, run: "{STAGES}:slow"}}')
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(_profile_of(slow=0.25)))
    words = ("pipeline", "plan", path, "--profile", str(profile))
    code, out, err = run(*words, "--max-latency", "100ms")
    assert (code, out) == (1, "")
    assert "its latency of 0.2501 s is above --max-latency, 0.1 s" in err
    assert run(*words, "--max-latency", "300ms")[0] == 0


def test_a_host_needs_an_address_or_a_class(run: Run, tmp_path: Path) -> None:
    path = pipeline(tmp_path, f'{{name: slow, run: "{STAGES}:slow", on: far}}', hosts="{far: {class: t4}}")
    code, out, _ = run("pipeline", "check", path)
    assert code == 2
    assert "stage slow: host far has no address, only a class" in out
    path = pipeline(tmp_path, hosts="{far: {labels: {room: lab}}}")
    assert "host far: address None is not HOST:PORT" in run("pipeline", "check", path)[2]
