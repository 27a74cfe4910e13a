"""A network of the zoo in PyTorch, with deterministic algorithms: the same query has the same answer."""

import ctypes
from typing import Any, Final

from fairlead.calibrate.torch_calls import compile_calls
from fairlead.calibrate.torch_runner import module
from fairlead.units import Bytes
from fairlead.zoo import BUILDERS
from fairlead.zoo.fold import fold
from fairlead.zoo.graph import Weight
from fairlead.zoo.onnxfile import content

INPUTS: Final = 8
"""Different queries; they repeat."""
_DTYPES: Final = {"fp32": "float32", "int64": "int64"}
_DRIVER: Final = "libcuda.so.1"
_OUT_OF_MEMORY: Final = 2


class TorchNetwork:
    """A network that PyTorch runs operator by operator, as most services run it."""

    def __init__(self, network: str, device: str) -> None:
        self._torch = torch = module()
        self._network, self._device = network, device
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        self._held: list[object] = []

    def load(self) -> None:
        """Build the network and the queries."""
        torch = self._torch
        graph = fold(BUILDERS[self._network](1, "fp32"))
        self._fixed = {weight.name: self._constant(weight) for weight in graph.weights}
        self._program = compile_calls(torch, graph)
        self._outputs = [value.name for value in graph.outputs]
        noise = torch.Generator().manual_seed(5)
        self._queries = [
            {value.name: torch.randn(value.shape, generator=noise) for value in graph.inputs}
            for _ in range(INPUTS)
        ]

    def query(self, number: int) -> bytes:
        """Copy a query to the device, run the network, and return its answer."""
        values = dict(self._fixed)
        with self._torch.inference_mode():
            for name, value in self._queries[number % INPUTS].items():
                values[name] = value.to(self._device)
            for call in self._program:
                values[call.output] = call.function(*(values.get(name) for name in call.inputs))
                for name in call.last:
                    del values[name]
            answers = [values[name].contiguous().cpu().numpy() for name in self._outputs]
        return b"".join(answer.tobytes() for answer in answers)

    def hold(self, size: Bytes, by: str) -> None:
        """Hold memory; the driver gives it where a limit of PyTorch refuses it."""
        if size and by == "driver" and self._device == "cuda":
            _allocate(size)
        elif size:
            self._held.append(self._torch.zeros(size, dtype=self._torch.uint8, device=self._device))

    def _constant(self, weight: Weight) -> Any:
        data = bytearray(b"".join(content(weight)))
        dtype = getattr(self._torch, _DTYPES[weight.dtype])
        return self._torch.frombuffer(data, dtype=dtype).reshape(weight.dims).to(self._device)


def _allocate(size: int) -> None:
    """Allocate memory of the current CUDA context, past every framework."""
    driver, address = ctypes.CDLL(_DRIVER), ctypes.c_uint64()
    code = driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    if code == _OUT_OF_MEMORY:
        raise MemoryError(f"out of memory: the driver refused {size} bytes")
    if code:
        raise RuntimeError(f"cuMemAlloc: error {code}")
    driver.cuMemsetD8_v2(address, ctypes.c_ubyte(0), ctypes.c_size_t(size))
