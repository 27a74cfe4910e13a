"""PyTorch and ONNX Runtime give the same outputs for every model of the zoo."""

from pathlib import Path
from typing import Any

import pytest

from fairlead.calibrate.job import TrialJob
from fairlead.calibrate.torch_calls import OPERATORS
from fairlead.calibrate.torch_runner import TorchRunner
from fairlead.zoo import BUILDERS
from fairlead.zoo.onnxfile import write


def test_every_operator_of_the_zoo_is_known() -> None:
    used = {node.op for build in BUILDERS.values() for node in build(1, "fp32").nodes}
    assert used == set(OPERATORS)


@pytest.mark.parametrize("name", BUILDERS)
def test_both_runtimes_agree(name: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    runtime: Any = pytest.importorskip("onnxruntime")
    eager = TorchRunner(TrialJob(name, "", "torch-cpu"))
    eager.load()
    outputs = eager.values()
    file = str(tmp_path / "model.onnx")
    write(BUILDERS[name](1, "fp32"), file)
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    inputs = {described.name: eager.fixed[described.name].numpy() for described in session.get_inputs()}
    for ours, theirs in zip(outputs, session.run(None, inputs), strict=True):
        torch.testing.assert_close(
            ours, torch.from_numpy(theirs), rtol=1e-3, atol=1e-3 * float(abs(theirs).max())
        )
