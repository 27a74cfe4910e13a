"""Training jobs as pods: from files and from the profiles of a cluster, with memory, deadline and share."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead import keys
from fairlead.analyze import analyze
from fairlead.catalog import Catalog
from fairlead.cluster.meta import Metadata
from fairlead.errors import ManifestError
from fairlead.expect.profiles import KnownModels
from fairlead.expect.workloads import read_workloads
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.types.kubernetes import Pod
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.placement import DeviceState, NodeState
from fairlead.request import Request
from fairlead.schedule import EngineCluster, decide
from fairlead.units import Bytes
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.manifest.worlds import CATALOG

GIB = 1 << 30
SETUP = "batch=64 optimizer=adam precision=amp samples=64000 epochs=10"


def node(name: str, model: str, memory: int) -> NodeState:
    device = DeviceState(f"{model}-0", model, "NVIDIA", Bytes(memory * GIB))
    return NodeState(name, 8000, Bytes(64 * GIB), devices=(device,))


CLUSTER = Snapshot((node("small", "t4", 16), node("large", "a100", 40)))


def workload(folder: Path, **words: Any) -> Request:
    """Return the request of one workload of the short form."""
    write(KNOWN["resnet50"](1, "fp32"), str(folder / "m.onnx"))
    (folder / "w.yaml").write_text(yaml.safe_dump({"workloads": [{"name": "w", "model": "m.onnx", **words}]}))
    [request] = read_workloads([str(folder / "w.yaml")], CLUSTER, CATALOG)
    return request


def test_a_training_job_is_expected_to_take_its_whole_time_and_memory(tmp_path: Path) -> None:
    trained, runs = workload(tmp_path, training=SETUP), workload(tmp_path)
    for model in ("t4", "a100"):
        job, inference = trained.estimates[model], runs.estimates[model]
        assert job.memory is not None
        assert inference.memory is not None
        assert 3 * GIB < job.memory < 5 * GIB
        assert inference.memory < GIB
        assert job.seconds is not None
        assert job.seconds > 10_000 * 0.02
        assert job.joules is not None


def test_the_deadline_chooses_the_device(tmp_path: Path) -> None:
    request = workload(tmp_path, training=SETUP)
    slow, fast = (request.estimates[model].seconds for model in ("t4", "a100"))
    assert slow is not None
    assert fast is not None
    within = workload(tmp_path, training=SETUP, slo=f"{int((slow + fast) / 2)}s")
    decision = decide(EngineCluster(CLUSTER.nodes), within)
    assert decision.placement is not None
    assert decision.placement.node == "large"
    never = decide(EngineCluster(CLUSTER.nodes), workload(tmp_path, training=SETUP, slo="1s"))
    assert never.placement is None


def test_a_job_that_is_too_large_for_a_device_goes_elsewhere(tmp_path: Path) -> None:
    request = workload(tmp_path, training="batch=384 optimizer=adam")
    decision = decide(EngineCluster(CLUSTER.nodes), request)
    assert decision.placement is not None
    assert decision.placement.node == "large"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch=many", "batch=many is not a number"),
        ("optimiser=adam", "'optimiser=adam' is not known"),
        ("batch=0", "a batch of 0"),
        ("epochs=3", "--epochs needs --samples"),
    ],
)
def test_a_setup_that_cannot_be_read_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=message):
        workload(tmp_path, training=text)


def test_a_profile_of_the_cluster_serves_without_the_file(tmp_path: Path, catalog: Catalog) -> None:
    exact = workload(tmp_path, training=SETUP).estimates["a100"]
    profile = analysed_profile(analyze(str(tmp_path / "m.onnx")), "2026-11-16T04:00:00+00:00", "n")
    models = KnownModels.of([profile], catalog)
    pod = Pod(metadata=Metadata(name="web", annotations={keys.MODEL: "m", keys.TRAINING: SETUP}))
    request = models.with_expectations("here", pod, Request("web"), ("a100", "t4"))
    near = request.estimates["a100"]
    assert near.memory == pytest.approx(exact.memory, rel=0.4)
    assert near.seconds == pytest.approx(exact.seconds, rel=0.5)
    wrong = Pod(metadata=Metadata(name="web", annotations={keys.MODEL: "m", keys.TRAINING: "batch=x"}))
    with pytest.raises(ManifestError, match=keys.TRAINING):
        models.with_expectations("here", wrong, Request("web"), ("a100",))
