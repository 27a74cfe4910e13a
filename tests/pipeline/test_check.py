"""A pipeline is checked before anything of it starts: each message names the line and what to do."""

import json
from pathlib import Path

import pytest

from fairlead.errors import PipelineError
from fairlead.pipeline import Image, Pipeline, call, sink, source, tensor
from fairlead.pipeline.check import check_pipeline
from fairlead.pipeline.control import stage_from_json, stage_to_json
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.ports import ANY, Record, parse_port
from fairlead.pipeline.spec import BatchSpec, OnError
from fairlead.pipeline.yaml_file import parse_pipeline
from fairlead.units import Seconds
from fairlead.yamltext import parse_documents
from tests.pipeline import stages
from tests.pipeline.pipelines import STAGES, plan

CAMERA = "  - {name: camera, source: numbers, options: {count: 9}}\n"
LOG = "  - {name: log, sink: 'null'}\n"
HEAD = "pipeline: p\nstages:\n"


def problems(text: str) -> list[str]:
    """Return the problems of a pipeline, as they are printed."""
    _, found = check_pipeline(parse_pipeline(text.replace("$S", STAGES).encode(), "p.yaml"))
    return [f"{each.where}: {each.what} ({each.hint})" for each in found]


def test_a_sound_pipeline_has_no_problem() -> None:
    assert problems(HEAD + CAMERA + "  - {name: number, run: '$S:number'}\n" + LOG) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "  - {name: a, sorce: numbers}\n", "p.yaml:3: a stage has no key 'sorce'"),
        (HEAD + "  - {name: a}\n", "p.yaml:3: stage a must have one of source, run, exec and sink"),
        (HEAD + "  - {name: a b, sink: stdout}\n", "p.yaml:3: name: 'a b' is not a name"),
        (
            HEAD + "  - {name: a, sink: stdout, on_error: ignore}\n",
            "p.yaml:3: on_error 'ignore' is not known",
        ),
        (HEAD + "  - {name: a, sink: stdout, timeout: 5}\n", "p.yaml:3: timeout: 5: a time needs a unit"),
        (HEAD + "  - {name: a, run: 'm:f', in: Imago}\n", "p.yaml:3: in: 'Imago' is not a type of port"),
        (HEAD + "  - {name: a, run: 'm:f', replicas: 0}\n", "p.yaml:3: replicas: 0 is not a whole number"),
        (
            HEAD + CAMERA + LOG + "edges:\n  - {from: camera, to: log, policy: drop}\n",
            "p.yaml:6: edge camera->log",
        ),
        ("pipeline: p\n", "p.yaml:1: a pipeline without stages"),
        ("- 1\n", "p.yaml: not a pipeline"),
        ("a: [\n", "p.yaml: not YAML"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_line(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text.encode(), "p.yaml")
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CAMERA + CAMERA, "p.yaml:4: two stages are named camera (rename one of them)"),
        (
            CAMERA + LOG + "edges:\n  - {from: camera, to: lgo}\n",
            "p.yaml:6: edge camera->lgo: no stage lgo (did you mean log?)",
        ),
        (CAMERA, "p.yaml:3: stage camera has no output (add an edge with from: camera)"),
        (LOG, "p.yaml:1: no stage is a source (add a stage with source: numbers or another one)"),
        (
            "  - {name: a, source: numbrs}\n" + LOG,
            "p.yaml:3: stage a: no source 'numbrs' (did you mean numbers?)",
        ),
        (
            "  - {name: a, source: numbers, options: {cont: 1}}\n" + LOG,
            "p.yaml:3: stage a: unknown option 'cont' (did you mean count?)",
        ),
        (
            "  - {name: a, source: images}\n" + LOG,
            "p.yaml:3: stage a: option path is missing (add path: a path)",
        ),
        (
            CAMERA + "  - {name: b, run: 'no.module:f'}\n" + LOG,
            "p.yaml:4: stage b: no.module cannot be imported: ModuleNotFoundError: No module "
            "named 'no' (correct the name, or the module)",
        ),
        (
            CAMERA + "  - {name: b, run: '$S:nothing'}\n" + LOG,
            "p.yaml:4: stage b: tests.pipeline.stages has no function or class 'nothing' (correct "
            "the name, or the module)",
        ),
        (
            CAMERA + "  - {name: b, run: '$S:number'}\n  - {name: c, run: '$S:slow'}\n" + LOG,
            "p.yaml:5: edge b->c: b makes Record, and c takes Image (change one of the two ports, "
            "or add a stage between them)",
        ),
        (
            CAMERA + "  - {name: b, run: '$S:twice', replicas: 2}\n" + LOG,
            "p.yaml:4: stage b: tests.pipeline.stages:twice is a generator: it has neither "
            "batches nor ordered replicas (correct its options)",
        ),
    ],
)
def test_every_problem_says_where_it_is_and_what_to_do(text: str, problem: str) -> None:
    assert problem in problems(HEAD + text)


def test_a_cycle_is_named() -> None:
    loop = "  - {name: a, run: '$S:slow'}\n  - {name: b, run: '$S:slow'}\n"
    edges = (
        "edges:\n  - {from: a, to: b}\n"
        "  - {from: b, to: a}\n  - {from: camera, to: a}\n  - {from: b, to: log}\n"
    )
    found = problems(HEAD + CAMERA + loop + LOG + edges)
    assert [each for each in found if "cycle" in each] == [
        "p.yaml:4: a cycle: a -> b -> a (remove one of its edges)"
    ]


def test_types_of_ports_are_compared_as_far_as_they_say() -> None:
    assert parse_port("Tensor(float32, 1x3x?x224)") == tensor("float32", (1, 3, None, 224))
    assert str(parse_port("Tensor(float32, 1x3x?x224)")) == "Tensor(float32, 1x3x?x224)"
    assert Image.accepts(tensor("uint8", (4, 4, 3)))
    assert Image.accepts(tensor())
    assert not Image.accepts(tensor("float32"))
    assert not Image.accepts(tensor("uint8", (4, 4)))
    assert not Image.accepts(Record)
    assert ANY.accepts(Record)


def test_neighbours_share_a_process_unless_something_queues_between_them(tmp_path: Path) -> None:
    text = HEAD + CAMERA + "  - {name: slow, run: '$S:slow'%s}\n" + LOG
    assert [each.name for each in plan(text % "", tmp_path).workers] == ["camera+slow+log"]
    assert len(plan(text % ", batch: {most: 2, wait: 1ms}", tmp_path).workers) == 3
    names = [each.name for each in plan(text % ", replicas: 2", tmp_path).workers]
    assert names == ["camera", "slow/0", "slow/1", "log"]
    dropping = "edges:\n  - {from: camera, to: slow, policy: latest_only}\n  - {from: slow, to: log}\n"
    assert [each.name for each in plan(text % "" + dropping, tmp_path).workers] == ["camera", "slow+log"]


def test_a_pipeline_in_python_is_the_same_as_in_yaml(tmp_path: Path) -> None:
    chain = source("camera", "numbers", count=9) >> stages.slow >> sink("log", "null")
    made = Pipeline("p", chain).connect("camera", "slow", "drop_oldest", 4, "200ms").spec()
    text = HEAD + CAMERA + "  - {name: slow, run: '$S:slow'}\n" + LOG
    edges = (
        "edges:\n  - {from: camera, to: slow, policy: drop_oldest, depth: 4, max_age: 200ms}\n"
        "  - {from: slow, to: log}\n"
    )
    read = plan(text + edges, tmp_path).spec
    checked, found = check_pipeline(made)
    assert found == []
    assert [each.contract for each in checked.edges] == [each.contract for each in read.edges]
    assert [(each.name, each.inputs, each.outputs) for each in checked.stages] == [
        (each.name, each.inputs, each.outputs) for each in read.stages
    ]
    assert len(plan_workers(checked).workers) == 2


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ("auto", BatchSpec(32, Seconds(0.0), Seconds(0.1))),
        ("{auto: true}", BatchSpec(32, Seconds(0.0), Seconds(0.1))),
        ("{auto: true, most: 4, latency: 250ms}", BatchSpec(4, Seconds(0.0), Seconds(0.25))),
        ("{auto: false, most: 4, wait: 20ms}", BatchSpec(4, Seconds(0.02))),
        ("{most: 4}", BatchSpec(4, Seconds(0.0))),
    ],
)
def test_batches_in_python_are_those_of_a_file(tmp_path: Path, batch: str, expected: BatchSpec) -> None:
    text = HEAD + CAMERA + f"  - {{name: sizes, run: '$S:sizes', batch: {batch}}}\n" + LOG
    assert plan(text, tmp_path).spec.stage("sizes").batch == expected
    (value,) = parse_documents(batch.encode())
    (made,) = call(stages.sizes, batch=value).stages
    assert made.batch == expected
    assert stage_from_json(json.loads(json.dumps(stage_to_json(made)))).batch == expected


@pytest.mark.parametrize(
    ("batch", "problem", "hint"),
    [
        ("often", "batch: 'often' is neither auto nor a mapping", "batch: auto"),
        ("{auto: true, wait: 10ms}", "wait beside auto: true, which chooses it", "latency: 100ms"),
        ("{latency: 10ms}", "latency belongs to batches with auto: true", "add auto: true"),
        ("{auto: 3}", "auto: 3 is neither true nor false", ""),
        ("{auto: true, latency: 0s}", "latency: a batch takes some time", "100ms"),
        ("{auto: true, latency: 20}", "latency: 20: a time needs a unit", "20ms"),
        ("{auto: true, most: 257}", "most: 257 is not a whole number from 1 to 256", ""),
        ("{most: 2, lateny: 10ms}", "a batch has no key 'lateny'", "did you mean latency?"),
    ],
)
def test_batches_that_are_not_understood_are_refused(batch: str, problem: str, hint: str) -> None:
    text = HEAD + CAMERA + f"  - {{name: sizes, run: '$S:sizes', batch: {batch}}}\n" + LOG
    (value,) = parse_documents(batch.encode())
    with pytest.raises(PipelineError) as read:
        parse_pipeline(text.encode(), "p.yaml")
    with pytest.raises(PipelineError) as called:
        call(stages.sizes, batch=value)
    assert str(read.value) == f"p.yaml:4: {problem}"
    assert str(called.value) == f"stage sizes: {problem}"
    assert hint in read.value.hint


def test_the_next_batch_fills_while_one_of_auto_is_in_its_call(tmp_path: Path) -> None:
    text = HEAD + CAMERA + "  - {name: sizes, run: '$S:sizes', batch: {%s}}\n" + LOG
    slots = [plan(text % each, tmp_path).links[0].slots for each in ("most: 8", "auto: true, most: 8")]
    assert slots == [8 + 2 + 8, 8 + 2 + 16]
    assert plan(text % "auto: true, most: 200", tmp_path).links[0].slots == 256


def test_a_policy_in_python_is_the_policy_of_a_file() -> None:
    (made,) = call(stages.slow, on_error="skip", replicas=3).stages
    assert made.on_error is OnError.SKIP
    assert made.replicas == 3
    with pytest.raises(ValueError, match="ignore"):
        call(stages.slow, on_error="ignore")
