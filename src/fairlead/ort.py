"""The door to ONNX Runtime: only this module imports it."""

import os
from collections.abc import Sequence
from typing import Any, Final

from fairlead.errors import MissingPartError

PROVIDERS: Final = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
"""By the name that files and runtimes (`onnxruntime-cuda`) use."""
_QUIET: Final = 3
"""Only errors are printed."""


def module(what: str, hint: str = "") -> Any:
    """Return ONNX Runtime; MissingPartError says what needs it."""
    try:
        import onnxruntime  # noqa: PLC0415 - the error names it where it is missing
    except ImportError:
        raise MissingPartError(f"{what} needs ONNX Runtime (onnxruntime)", hint) from None
    return onnxruntime


def available(runtime: Any) -> frozenset[str]:
    """Return the providers that an installation has, as `PROVIDERS` calls them."""
    installed = runtime.get_available_providers()
    return frozenset(name for name, provider in PROVIDERS.items() if provider in installed)


def open_session(
    runtime: Any, path: str, threads: int, providers: Sequence[str], *, optimize: bool = True
) -> Any:
    """Load a model; RuntimeError where the first provider does not start, or the model cannot be loaded."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _QUIET
    if not optimize:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [PROVIDERS[name] for name in providers]
    session = runtime.InferenceSession(os.fspath(path), options, providers=names)
    if session.get_providers()[0] != names[0]:
        raise RuntimeError(f"{names[0]} did not start: ONNX Runtime does not find all its libraries")
    return session
