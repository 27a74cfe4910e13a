"""A network of the zoo in ONNX Runtime."""

import os
import tempfile

from fairlead.calibrate.job import TrialJob
from fairlead.calibrate.ort_runner import OrtRunner
from fairlead.units import Bytes
from fairlead.zoo import BUILDERS
from fairlead.zoo.onnxfile import write


class OrtNetwork:
    """A network that ONNX Runtime runs from its file."""

    def __init__(self, network: str, device: str) -> None:
        self._network, self._device = network, device
        self._held: list[bytearray] = []

    def load(self) -> None:
        """Write the network's file, and load it."""
        with tempfile.TemporaryDirectory(prefix="fairlead-engine-") as folder:
            path = os.path.join(folder, f"{self._network}.onnx")
            write(BUILDERS[self._network](1, "fp32"), path)
            self._runner = OrtRunner(TrialJob(self._network, path, f"onnxruntime-{self._device}"))
            self._runner.load()

    def query(self, number: int) -> bytes:
        """Run the network, and return its answer."""
        return b"".join(answer.tobytes() for answer in self._runner.values())

    def hold(self, size: Bytes, by: str) -> None:
        """Hold RAM; on a GPU ONNX Runtime has no way to hold memory that no network needs."""
        if size and self._device == "cpu":
            self._held.append(bytearray(size))
