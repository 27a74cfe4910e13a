"""An ONNX model that takes files and makes files: pictures or arrays in, arrays or JSON out."""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fairlead import ort
from fairlead.cores import usable_cores
from fairlead.outfile import atomic_write
from fairlead.pipeline.endpoints.images import read_image
from fairlead.pipeline.endpoints.options import OptionRule, objections
from fairlead.pipeline.models.images import PREPARING
from fairlead.pipeline.models.ports import (
    ONNX_RULES,
    ModelError,
    ModelPort,
    ports_of,
    providers_of,
    runtime_of,
)
from fairlead.pipeline.models.session import OnnxModel
from fairlead.pipeline.spec import StageRole, StageSpec

PICTURES: Final = (".jpg", ".jpeg", ".png", ".pgm", ".ppm")
ARRAYS: Final = (".npy", ".npz")
OUTPUTS: Final = ("npz", "json")
FILE_RULES: Final[dict[str, OptionRule]] = {
    **ONNX_RULES,
    "output": OptionRule(" or ".join(OUTPUTS), lambda value: value in OUTPUTS),
}
"""The options of a model that takes files."""


class FileModel:
    """A loaded model. ValueError says why a file is no input of it."""

    def __init__(self, path: str, options: Mapping[str, Any]) -> None:
        """Load a model; ModelError or MissingPartError where that fails."""
        for fault, hint in objections(options, FILE_RULES):
            raise ModelError(fault, hint)
        if not os.path.isfile(path):
            raise ModelError(f"the model {path} does not exist", "correct the path")
        plain = {name: value for name, value in options.items() if name == "providers"}
        stage = StageSpec("model", StageRole.RUN, path, plain)
        runtime = runtime_of(stage)
        self.providers = providers_of(stage, runtime)
        session = _open(runtime, path, self.providers)
        self._output = str(options.get("output", OUTPUTS[0]))
        self._names = [port.name for port in ports_of(session).outputs]
        self._arrays = OnnxModel(stage, session)
        stated = {name: value for name, value in options.items() if name in PREPARING}
        prepared = {**picture_options(ports_of(session).inputs[0]), **stated}
        self._pictures = OnnxModel(StageSpec("model", StageRole.RUN, path, prepared), session)

    def run(self, source: str, target: str) -> None:
        """Write what the model makes of one file into another."""
        made = self._run(source)
        arrays = made if isinstance(made, Mapping) else {self._names[0]: made}
        with atomic_write(target) as out:
            if self._output == "json":
                text = json.dumps({name: array.tolist() for name, array in arrays.items()})
                out.write(f"{text}\n".encode())
            else:
                np.savez(out, **arrays)

    def _run(self, source: str) -> Any:
        kind = os.path.splitext(source)[1].lower()
        if kind in PICTURES:
            return self._pictures.run(read_image(source))
        if kind not in ARRAYS:
            known = ", ".join((*PICTURES, *ARRAYS))
            raise ValueError(
                f"a model takes files that end with {known}: this one ends with {kind or 'none'}"
            )
        loaded = np.load(source, allow_pickle=False)
        return self._arrays.run(dict(loaded) if kind == ".npz" else loaded)


def picture_options(port: ModelPort) -> dict[str, Any]:
    """Return how a picture becomes the input of a model, by its shape: its size, layout and scale."""
    sizes = port.sizes
    if len(sizes) != 4:
        return {}
    layout = "nhwc" if sizes[3] in (1, 3) and sizes[1] not in (1, 3) else "nchw"
    height, width = sizes[1:3] if layout == "nhwc" else sizes[2:]
    options: dict[str, Any] = {
        "layout": layout,
        "scale": "1/255" if port.type.dtype.startswith("float") else 1,
    }
    return options | ({"resize": [height, width]} if height and width else {})


def _open(runtime: Any, path: str, providers: tuple[str, ...]) -> Any:
    try:
        return ort.open_session(runtime, path, usable_cores(), providers)
    except Exception as error:  # ONNX Runtime has exceptions of its own, without a common class
        text = " ".join(str(error).split())
        raise ModelError(f"the model {path} cannot be loaded: {text}", "export it again") from error
