"""Run a model of the zoo in PyTorch, where ONNX Runtime is not installed; only this module imports PyTorch.

Norms are folded into the convolution before them and, on a GPU, a whole run is recorded once and replayed,
as compiled runtimes do.
"""

from collections.abc import Callable
from typing import Any, Final

from fairlead.calibrate.job import TrialJob
from fairlead.calibrate.torch_calls import TorchCall, compile_calls
from fairlead.errors import MissingPartError
from fairlead.zoo import BUILDERS
from fairlead.zoo.fold import fold
from fairlead.zoo.graph import Weight
from fairlead.zoo.onnxfile import content

_DTYPES: Final = {"fp32": "float32", "fp16": "float16", "int64": "int64"}
_BEFORE_RECORDING: Final = 3
"""Runs in which libraries choose their kernels."""


def module() -> Any:
    """Return PyTorch."""
    try:
        import torch  # noqa: PLC0415 - the error names it where it is missing
    except ImportError:
        raise MissingPartError("PyTorch is not installed", "install it as pytorch.org says") from None
    return torch


class TorchRunner:
    """PyTorch with one model."""

    def __init__(self, job: TrialJob) -> None:
        self._torch = torch = module()
        self._job = job
        self._device = job.runtime.rpartition("-")[2]
        self.version = str(torch.__version__)
        torch.set_num_threads(job.threads)
        torch.backends.cudnn.benchmark = True
        torch.zeros(1, device=self._device)

    def load(self) -> None:
        """Build the model, and record a run of it on a GPU."""
        graph = fold(BUILDERS[self._job.model](self._job.batch, self._job.precision))
        self.fixed = {weight.name: self._constant(weight) for weight in graph.weights}
        for value in graph.inputs:
            noise = self._torch.randn(value.shape, device=self._device)
            self.fixed[value.name] = noise.to(self._dtype(value.dtype))
        self._program = compile_calls(self._torch, graph)
        self._inputs = [value.name for value in graph.inputs]
        self._outputs = [value.name for value in graph.outputs]
        self._call: Callable[[], object] = self._record_graph() if self._device == "cuda" else self.values

    def step(self) -> None:
        """Run the model once, to its end."""
        self._call()
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def run_with(self, tensor: Any) -> list[Any]:
        """Copy an array to the only input, run the model, and return the outputs as arrays."""
        [name] = self._inputs
        self.fixed[name].copy_(self._torch.from_numpy(tensor))
        made: Any = self._call()
        outputs = self._kept if self._device == "cuda" else made
        return [each.cpu().numpy() for each in outputs]

    def values(self) -> list[Any]:
        """Run the calls one by one and return the outputs."""
        values = dict(self.fixed)
        with self._torch.inference_mode():
            for call in self._program:
                self._execute(call, values)
        return [values[name] for name in self._outputs]

    def _execute(self, call: TorchCall, values: dict[str, Any]) -> None:
        values[call.output] = call.function(*(values.get(name) for name in call.inputs))
        for name in call.last:
            del values[name]

    def _record_graph(self) -> Callable[[], object]:
        cuda = self._torch.cuda
        with cuda.stream(cuda.Stream()):
            for _ in range(_BEFORE_RECORDING):
                self.values()
        cuda.synchronize()
        recording = cuda.CUDAGraph()
        with cuda.graph(recording):
            self._kept = self.values()
        replay: Callable[[], object] = recording.replay
        return replay

    def _constant(self, weight: Weight) -> Any:
        data = bytearray(b"".join(content(weight)))
        tensor = self._torch.frombuffer(data, dtype=self._dtype(weight.dtype))
        return tensor.reshape(weight.dims).to(self._device)

    def _dtype(self, name: str) -> Any:
        return getattr(self._torch, _DTYPES[name])
