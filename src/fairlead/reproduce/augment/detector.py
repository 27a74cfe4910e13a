"""A detector of the zoo, SSD on MobileNet v1 at 300 pixels: in ONNX Runtime, on a GPU also in PyTorch.

Its weights are made up, so that its boxes mean nothing; its work is that of the network.
"""

import json
import os
from typing import Any, Final, Protocol

import numpy as np

from fairlead import ort
from fairlead.calibrate.job import TrialJob
from fairlead.errors import MissingPartError
from fairlead.reproduce.augment.images import as_input, read_image
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write

NETWORK: Final = "ssd_mobilenet_v1"
SIDE: Final = 300
CPU, CUDA, TORCH = "cpu", "cuda", "torch-cuda"
_BEST: Final = 10


class DetectorRuntime(Protocol):
    """Runs the network over one input."""

    def outputs(self, tensor: Any) -> list[Any]:
        """Return boxes and scores."""
        ...


class OrtDetector:
    """ONNX Runtime."""

    def __init__(self, path: str, provider: str, threads: int) -> None:
        runtime = ort.module("the image job")
        self._session = ort.open_session(runtime, path, threads, [provider])
        self._input = self._session.get_inputs()[0].name

    def outputs(self, tensor: Any) -> list[Any]:
        """Return boxes and scores."""
        return list(self._session.run(None, {self._input: tensor}))


class TorchDetector:
    """PyTorch on a GPU, with the whole network recorded once and replayed."""

    def __init__(self) -> None:
        from fairlead.calibrate.torch_runner import TorchRunner  # noqa: PLC0415 - only where it is installed

        self._runner = TorchRunner(TrialJob(NETWORK, "", "torch-cuda"))
        self._runner.load()

    def outputs(self, tensor: Any) -> list[Any]:
        """Return boxes and scores."""
        return self._runner.run_with(tensor)


def write_model(folder: str) -> str:
    """Write the network's file if it does not exist, and return its path."""
    path = os.path.join(folder, f"{NETWORK}.onnx")
    if not os.path.exists(path):
        write(KNOWN[NETWORK](1, "fp32"), path)
    return path


def open_detector(path: str, provider: str = CPU, threads: int = 1) -> DetectorRuntime:
    """Load the network."""
    return TorchDetector() if provider == TORCH else OrtDetector(path, provider, threads)


def accelerator() -> str:
    """Return what can run the network on a GPU here; empty: nothing."""
    try:
        if CUDA in ort.available(ort.module("the image job")):
            return CUDA
    except MissingPartError:
        pass
    try:
        from fairlead.calibrate.torch_runner import module  # noqa: PLC0415 - only where it is installed

        return TORCH if module().cuda.is_available() else ""
    except MissingPartError:
        return ""


def detect(runtime: DetectorRuntime, path: str) -> bytes:
    """Return the best boxes of an image, as JSON."""
    boxes, scores = runtime.outputs(as_input(read_image(path), SIDE))
    best = scores[0].max(axis=1)
    order = np.argsort(best)[::-1][:_BEST]
    found = [
        {
            "box": [round(float(value), 4) for value in boxes[0][index]],
            "class": int(scores[0][index].argmax()),
            "score": round(float(best[index]), 4),
        }
        for index in order
    ]
    return f"{json.dumps(found)}\n".encode()
