"""Nonsense in a Pipeline: each is refused by a condition that says what, and how to fix it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.pipelineobjects.worlds import Cluster, Json, pipeline

Edit = Callable[[Json], Any]


def add_stage(**stage: Any) -> Edit:
    return lambda spec: spec["stages"].append(stage)


def set_stage(index: int, **fields: Any) -> Edit:
    return lambda spec: spec["stages"][index].update(fields)


def add_edge(source: str, target: str, **more: Any) -> Edit:
    return lambda spec: spec["edges"].append({"from": source, "to": target, **more})


def set_spec(**fields: Any) -> Edit:
    return lambda spec: spec.update(fields)


def make_cycle(spec: Json) -> None:
    spec["stages"].append({"name": "again", "run": "code.py:again"})
    spec["edges"] += [{"from": "blur", "to": "again"}, {"from": "again", "to": "blur"}]
    del spec["stages"][1]["replicas"]


PROBLEMS: dict[str, tuple[Edit, str]] = {
    "a cycle": (make_cycle, "a cycle: again -> blur -> again: remove one of its edges"),
    "an edge to nothing": (
        add_edge("blur", "lgo"),
        "edge blur->lgo: no stage lgo: did you mean log?",
    ),
    "a stage behind itself": (add_edge("blur", "blur"), "a cycle: blur -> blur: remove one of its edges"),
    "an edge twice": (add_edge("blur", "log"), "edge blur->log is there twice: remove one of them"),
    "a stage twice": (
        add_stage(name="log", sink="null"),
        "two stages are named log: rename one of them",
    ),
    "two roles": (
        set_stage(0, sink="null"),
        "stages[0]: stage camera must have one of source, run, exec and sink: keep one of them",
    ),
    "a second source that feeds a source": (
        lambda spec: (add_stage(name="second", source="numbers")(spec), add_edge("second", "camera")(spec)),
        "source camera has an input: remove the edge second->camera",
    ),
    "a source that leads nowhere": (
        add_stage(name="second", source="numbers"),
        "stage second has no output: add an edge with from: second",
    ),
    "an unknown source": (
        set_stage(0, source="number"),
        "stage camera: no source 'number': did you mean numbers?",
    ),
    "an unknown type of port": (
        set_stage(1, **{"in": "Imago"}),
        "stages[1]: in: 'Imago' is not a type of port",
    ),
    "two ports that do not fit": (
        set_stage(2, **{"in": "Record"}),
        "edge blur->log: blur makes Image, and log takes Record: change one of the two ports",
    ),
    "an unknown option": (
        set_stage(0, options={"rat": 3}),
        "stage camera: unknown option 'rat': did you mean rate?",
    ),
    "a time without a unit": (
        set_stage(1, timeout="5"),
        "stages[1]: timeout: 5: a time needs a unit: write 5ms or 5s",
    ),
    "a key that stages do not have": (
        set_stage(1, replica=2),
        "stages[1]: a stage has no key 'replica': did you mean replicas?",
    ),
    "a host that is not there": (
        set_stage(1, host="sever"),
        "stage blur: no host is 'sever': did you mean server?",
    ),
    "JPEG of no image": (
        lambda spec: spec["edges"][0].update(encode="jpeg"),
        "edge camera->blur: Any cannot travel as JPEG: state out: Image on stage camera, or remove encode",
    ),
    "two hosts of one name": (
        lambda spec: spec["hosts"].append({"name": "edge"}),
        "two hosts are named edge: rename one of them",
    ),
    "a host named local": (
        lambda spec: spec["hosts"].append({"name": "local"}),
        "hosts: host 'local' is not a name: use letters, digits, '-', '_' and '.'; local is the",
    ),
    "code of another namespace": (
        set_spec(files={"configMap": "other/code"}),
        "files.configMap: 'other/code' is no name of an object: a Pipeline can name nothing outside",
    ),
    "a claim of another namespace": (
        set_spec(stateClaim="other/state"),
        "stateClaim: 'other/state' is no name of an object: a Pipeline can name nothing outside",
    ),
    "a certificate of another namespace": (
        lambda spec: spec["hosts"][0].update(tlsSecret="kube-system:admin"),
        "hosts[edge].tlsSecret: 'kube-system:admin' is no name of an object: a Pipeline can name nothing",
    ),
    "certificates of two authorities": (
        lambda spec: spec["hosts"][0].update(tlsSecret="mine"),
        "tlsSecret is not stated for local, server: state it for every host with a stage",
    ),
    "a share without a size": (
        lambda spec: spec["hosts"][1].update(accelerator={"memory": "lots"}),
        "host server: accelerator.memory: 'lots': ",
    ),
    "a path that no pod can write to": (
        set_stage(2, options={"path": "out.jsonl"}),
        "stage log: path 'out.jsonl' is not in a folder that a pod can write to: write /data/out.jsonl",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_problem_is_a_condition_and_no_object_is_made(case: str) -> None:
    edit, message = PROBLEMS[case]
    cluster = Cluster(pipeline())
    edit(cluster.resource["spec"])
    cluster.live()
    assert cluster.objects == {}
    assert cluster.says("Accepted").startswith(f"False Invalid: {message}")
    assert cluster.says("Planned") == "False Invalid: the spec is not accepted"
    (event,) = {each.reason: each for each in cluster.events if each.type == "Warning"}.values()
    assert event.message.startswith(message)


def test_further_problems_are_named_as_well() -> None:
    cluster = Cluster(pipeline())
    for edit in (set_stage(1, host="x"), lambda spec: spec["hosts"].append({"name": "edge"})):
        edit(cluster.resource["spec"])
    cluster.live()
    assert "two hosts are named edge: rename one of them; also: stage blur: no host is 'x'" in cluster.says(
        "Accepted"
    )


def test_a_name_that_cannot_be_a_service_is_refused() -> None:
    cluster = Cluster(pipeline(name="9-" + "a" * 60))
    cluster.live()
    assert "cannot be the name of a Service: use at most 40 of a-z, 0-9 and '-'" in cluster.says("Accepted")


def test_a_problem_that_is_mended_is_forgotten() -> None:
    cluster = Cluster(pipeline())
    set_stage(1, host="sever")(cluster.resource["spec"])
    cluster.live()
    cluster.change(set_stage(1, host="server"))
    cluster.live()
    assert cluster.says("Accepted").startswith("True Valid")
    assert cluster.says("Ready").startswith("True Running")
