"""Run a model in ONNX Runtime."""

import random
from array import array
from math import prod
from typing import Any

from fairlead import ort
from fairlead.calibrate.job import TrialJob


def module() -> Any:
    """Return ONNX Runtime."""
    return ort.module("measuring")


def available() -> frozenset[str]:
    """Return the providers that this installation has, as `fairlead.ort.PROVIDERS` calls them."""
    return ort.available(module())


class OrtRunner:
    """ONNX Runtime with one model."""

    def __init__(self, job: TrialJob) -> None:
        self._job = job
        self._runtime = module()
        self.version = str(self._runtime.__version__)

    def load(self) -> None:
        """Load the model; raises RuntimeError where it would run on another device than the job's."""
        job, runtime = self._job, self._runtime
        provider = job.runtime.rpartition("-")[2]
        self._session = ort.open_session(runtime, job.file, job.threads, (provider,))
        self._inputs = {described.name: _noise(described) for described in self._session.get_inputs()}

    def step(self) -> None:
        """Run the model once."""
        self.values()

    def values(self) -> list[Any]:
        """Run the model once and return the outputs."""
        return list(self._session.run(None, self._inputs))


def _noise(described: Any) -> Any:
    """Return random values for an input: zeros would let a device skip work."""
    import numpy as np  # noqa: PLC0415 - it comes with ONNX Runtime

    draw = random.Random(5)  # noqa: S311 - activations, not secrets
    row = np.frombuffer(array("f", (draw.gauss(0.0, 1.0) for _ in range(4099))), dtype=np.float32)
    kind = np.float16 if described.type == "tensor(float16)" else np.float32
    return np.resize(row, prod(described.shape)).reshape(described.shape).astype(kind)
