"""Run a model in ONNX Runtime; only this module imports it."""

import random
from array import array
from math import prod
from typing import Any, Final

from fairlead.calibrate.job import TrialJob
from fairlead.errors import MissingPartError

PROVIDERS: Final = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
"""By the last word of the runtime's name, `onnxruntime-cuda`."""
_QUIET: Final = 3
"""Only errors are printed."""


def module() -> Any:
    """Return ONNX Runtime."""
    try:
        import onnxruntime  # noqa: PLC0415 - the error names it where it is missing
    except ImportError:
        raise MissingPartError("measuring needs ONNX Runtime (onnxruntime)") from None
    return onnxruntime


def available() -> frozenset[str]:
    """Return the providers that this installation has, as `PROVIDERS` calls them."""
    installed = module().get_available_providers()
    return frozenset(name for name, provider in PROVIDERS.items() if provider in installed)


class OrtRunner:
    """ONNX Runtime with one model."""

    def __init__(self, job: TrialJob) -> None:
        self._job = job
        self._runtime = module()
        self.version = str(self._runtime.__version__)

    def load(self) -> None:
        """Load the model; raises RuntimeError where it would run on another device than the job's."""
        job, runtime = self._job, self._runtime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.log_severity_level = _QUIET
        provider = PROVIDERS[job.runtime.rpartition("-")[2]]
        self._session = runtime.InferenceSession(job.file, options, providers=[provider])
        if self._session.get_providers()[0] != provider:
            raise RuntimeError(f"{provider} did not start: ONNX Runtime does not find all its libraries")
        self._inputs = {described.name: _noise(described) for described in self._session.get_inputs()}

    def step(self) -> None:
        """Run the model once."""
        self._session.run(None, self._inputs)


def _noise(described: Any) -> Any:
    """Return random values for an input: zeros would let a device skip work."""
    import numpy as np  # noqa: PLC0415 - it comes with ONNX Runtime

    draw = random.Random(5)  # noqa: S311 - activations, not secrets
    row = np.frombuffer(array("f", (draw.gauss(0.0, 1.0) for _ in range(4099))), dtype=np.float32)
    kind = np.float16 if described.type == "tensor(float16)" else np.float32
    return np.resize(row, prod(described.shape)).reshape(described.shape).astype(kind)
