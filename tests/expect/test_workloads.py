"""Workloads from files: controllers, the short form, models that are analysed, and invalid files."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.errors import ManifestError
from fairlead.expect.workloads import read_workloads
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Demand, Gang, Request
from fairlead.units import Bytes
from fairlead.whatif.answer import answer
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.analyze.models import graph, node, saved, value, weight
from tests.manifest.worlds import CATALOG, pod

GIB = 1 << 30
CLUSTER = Snapshot(
    (
        NodeState(
            "a", 8000, Bytes(16 * GIB), devices=(DeviceState("t4-0", "t4", "NVIDIA", Bytes(16 * GIB)),)
        ),
        NodeState("b", 8000, Bytes(16 * GIB), devices=(DeviceState("coral-usb-0", "coral-usb", "Google"),)),
    ),
    (Placement(Request("taken"), "a"),),
)


def read(folder: Path, *documents: Any) -> list[Request]:
    path = folder / "work.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return read_workloads([str(path)], CLUSTER, CATALOG)


def short(folder: Path, **keys: Any) -> list[Request]:
    return read(
        folder, {"workloads": [{"name": "w", **{key.replace("_", "-"): item for key, item in keys.items()}}]}
    )


def test_a_model_is_predicted_for_a_mig_instance_by_its_own_share(tmp_path: Path) -> None:
    names = ("h200", "h200-mig-1g.18gb", "h200-mig-nonsense")
    found = tuple(DeviceState(f"{name}-0", name, "NVIDIA", Bytes(16 * GIB)) for name in names)
    cluster = Snapshot((NodeState("a", 8000, Bytes(16 * GIB), devices=found),))
    write(KNOWN["mobilenet_v1"](64, "fp32"), str(tmp_path / "m.onnx"))
    (tmp_path / "work.yaml").write_text("workloads: [{name: w, model: m.onnx}]")
    (request,) = read_workloads([str(tmp_path / "work.yaml")], cluster, CATALOG)
    assert request.estimates["h200-mig-nonsense"].unknown == "not known: no row in the catalog; add one"
    part, whole = (request.estimates[name].seconds for name in ("h200-mig-1g.18gb", "h200"))
    assert part is not None
    assert whole is not None
    assert part > 2 * whole


def controller(kind: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    return {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": {"name": "c"},
        "spec": {"template": template, **spec},
    }


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        (pod(), ["web"]),
        (controller("Deployment"), ["c-0"]),
        (controller("StatefulSet", replicas=2), ["c-0", "c-1"]),
        (controller("ReplicaSet", replicas=0), []),
        (controller("Job", parallelism=3, completions=2), ["c-0", "c-1"]),
        (controller("Job", completions=5), ["c-0"]),
        (controller("DaemonSet"), ["c-a", "c-b"]),
        (
            {
                **controller("CronJob"),
                "spec": {"jobTemplate": {"spec": controller("Job", parallelism=2)["spec"]}},
            },
            ["c-0", "c-1"],
        ),
        (pod(nodeName="a"), []),
    ],
)
def test_a_controller_is_read_as_its_pods(tmp_path: Path, manifest: dict[str, Any], names: list[str]) -> None:
    requests = read(tmp_path, manifest, pod(name="always"))
    assert [each.name for each in requests] == [*names, "always"]


def test_a_workload_names_the_gang_of_a_job(tmp_path: Path) -> None:
    workload = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {
            "controllerRef": {"kind": "Job", "name": "c"},
            "podGroupTemplates": [{"name": "g", "schedulingPolicy": {"gang": {"minCount": 2}}}],
        },
    }
    requests = read(tmp_path, workload, controller("Job", parallelism=3))
    assert {each.gang for each in requests} == {Gang("default/c", 2)}


def test_the_size_of_a_gang_defaults_to_the_number_of_its_pods(tmp_path: Path) -> None:
    assert {each.gang for each in short(tmp_path, replicas=3, gang="g")} == {Gang("default/g", 3)}


def test_the_short_form(tmp_path: Path) -> None:
    (request,) = short(
        tmp_path, cpu="500m", memory="1GiB", gpu_memory="2GiB", compute=0.25, models="t4", slo="20ms"
    )
    assert (request.cpu, request.memory, request.slo) == (500, GIB, 0.02)
    assert request.demand == Demand(1, Bytes(2 * GIB), 250, models=("t4",))


def test_a_model_is_estimated_on_every_accelerator_of_the_cluster(tmp_path: Path) -> None:
    write(KNOWN["mobilenet_v1"](1, "fp32"), str(tmp_path / "mobilenet.onnx"))
    annotations = {"fairlead.dev/model": "mobilenet.onnx", "fairlead.dev/slo-latency": "1s"}
    by_pod, by_name = read(
        tmp_path,
        pod(annotations=annotations),
        {"workloads": [{"name": "w", "model": "mobilenet.onnx", "slo": 1}]},
    )
    assert by_pod.estimates == by_name.estimates
    assert (by_pod.slo, by_pod.demand) == (by_name.slo, by_name.demand)
    gpu, tpu = by_pod.estimates["t4"], by_pod.estimates["coral-usb"]
    assert gpu.seconds is not None
    assert gpu.memory
    assert tpu.memory is None, "weights stream through it"


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [({}, {"gpu-fraction": "0.25"}), ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 25}, {})],
)
def test_a_fraction_is_of_the_memory_of_each_model(
    tmp_path: Path, limits: dict[str, int], annotations: dict[str, str]
) -> None:
    (request,) = read(tmp_path, pod(limits, annotations))
    assert (request.whole, request.sized_by_estimate) == (False, True)
    assert request.estimates["t4"].memory == 4 * GIB


def test_a_fraction_takes_precedence_over_the_estimated_memory(tmp_path: Path) -> None:
    write(KNOWN["mobilenet_v1"](1, "fp32"), str(tmp_path / "m.onnx"))
    (request,) = read(tmp_path, pod(annotations={"gpu-fraction": "0.5", "fairlead.dev/model": "m.onnx"}))
    assert request.estimates["t4"].memory == 8 * GIB
    assert request.estimates["t4"].seconds is not None


def test_a_device_without_the_precision_has_a_reason(tmp_path: Path) -> None:
    write(KNOWN["mobilenet_v1"](1, "fp32"), str(tmp_path / "m.onnx"))
    (request,) = short(tmp_path, model="m.onnx", precision="fp16")
    assert "int8" in request.estimates["coral-usb"].reason
    assert not request.estimates["t4"].reason


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"gpu_memory": "-1GiB"}, "workloads[0].gpu-memory: -1GiB is negative"),
        ({"gpu_memory": float("nan")}, "workloads[0].gpu-memory: nan is not an amount"),
        ({"gpu_memory": 0}, "workloads[0].gpu-memory: 0 is less than 1 MiB"),
        ({"gpu_memory": 1.5}, "workloads[0].gpu-memory: 1.5 is less than 1 MiB"),
        ({"gpu_memory": "0.3MiB"}, "workloads[0].gpu-memory: 0.3MiB is less than 1 MiB"),
        ({"gang": {"name": "g", "size": 0}}, "workloads[0].gang.size: 0 is less than 1"),
        (
            {"topology_spread": {"topology": "zone", "skew": 0}},
            "workloads[0].topology-spread[0].skew: 0 is less than 1",
        ),
        ({"compute": "130%"}, "workloads[0].compute: 130% is more than"),
        ({"accelerators": 1.5}, "workloads[0].accelerators: '1.5' is not a whole number"),
        ({"replicas": 10**9}, "workloads[0].replicas: 1000000000 is more than"),
        ({"models": ["t5"]}, "workloads[0].models: no device 't5'"),
        ({"model": "none.onnx"}, "none.onnx: no such file or directory"),
        ({"model": 3}, "workloads[0].model: 3 is not a string"),
        ({"slo": "soon"}, "workloads[0].slo: 'soon'"),
        ({"priority": "high"}, "workloads[0].priority: 'high'"),
        ({"ports": [99999]}, "workloads[0].ports[0]: 99999 is more than"),
        ({"gpus": 1}, "workloads[0]: unknown key 'gpus'"),
        ({"name": ""}, "workloads[0].name: missing"),
        ({"name": "taken"}, "default/taken is defined twice, first in the cluster"),
        ({"topology_spread": [{"skew": 1}]}, "topology-spread[0].topology: missing"),
    ],
)
def test_an_invalid_workload_names_its_field(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        short(tmp_path, **keys)
    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([pod(), pod()], "Pod default/web: defined twice"),
        ([{"workloads": [{"name": "web"}]}, pod()], "default/web is defined twice"),
        ([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}], "no workloads in it"),
        ([controller("Deployment", replicas=-1)], "spec.replicas: -1"),
        ([controller("Deployment", replicas="two")], "spec.replicas: expected `int | null`, got `str`"),
        ([{"workloads": 3}], "neither manifests nor workloads"),
        ([{"workloads": [3]}], "workloads[0]: not a mapping"),
        ([{"work": []}], "neither manifests nor workloads"),
        ([], "no workloads in it"),
    ],
)
def test_invalid_workload_files(tmp_path: Path, documents: list[Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, *documents)
    assert message in str(caught.value)


def test_a_decision_about_a_language_model_says_that_it_is_one_forward_pass(tmp_path: Path) -> None:
    nodes = [node("Gather", "table ids", "x"), node("MatMul", "x head", "y")]
    weights = [weight("table", 2000, 8), weight("head", 8, 2000)]
    saved(tmp_path, graph(nodes, [value("ids", 1, 16, dtype="int64")], weights), name="lm.onnx")
    (tmp_path / "work.yaml").write_text("workloads: [{name: w, model: lm.onnx, models: [t4]}]")
    document = answer(CLUSTER, read_workloads([str(tmp_path / "work.yaml")], CLUSTER, CATALOG), "fairlead")
    [decision] = document.to_json()["decisions"]
    scope = "one forward pass of a language model (16 tokens): tokens per second and the growing KV cache"
    assert decision["unknown"] == [f"its latency is of {scope} are not predicted"]
    assert scope in decision["sentence"]
    assert decision["predicted_seconds"]
