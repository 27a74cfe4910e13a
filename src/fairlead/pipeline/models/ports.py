"""What an ONNX model takes and makes, and what is checked of its stage before a run."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead import ort
from fairlead.errors import FairleadError
from fairlead.pipeline.endpoints.options import OptionRule, is_count
from fairlead.pipeline.models.images import FILTERS, LAYOUTS, ImagePreparation, parse_scale
from fairlead.pipeline.ports import ANY, Image, PortKind, PortType, Record, tensor
from fairlead.pipeline.spec import StageKind, StageSpec

_DTYPES: Final = {
    "tensor(bool)": "bool",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(uint16)": "uint16",
    "tensor(int16)": "int16",
    "tensor(uint32)": "uint32",
    "tensor(int32)": "int32",
    "tensor(uint64)": "uint64",
    "tensor(int64)": "int64",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}
"""By ONNX Runtime's name of a type."""
_BY_DEFAULT: Final = ("cuda", "rocm", "migraphx", "openvino", "cpu")
"""TensorRT is used where a file names it: it compiles a model for minutes."""
_EXTRA: Final = "install it: pip install 'fairlead[onnx]'"


class ModelError(FairleadError):
    """A model cannot be the stage that a file makes of it; the message is one line."""


@dataclass(frozen=True, slots=True)
class ModelPort:
    """One input or output of a model."""

    name: str
    type: PortType

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The shape; None: any size."""
        return self.type.shape or ()


@dataclass(frozen=True, slots=True)
class ModelPorts:
    """The inputs and outputs of a model, in its order."""

    inputs: tuple[ModelPort, ...]
    outputs: tuple[ModelPort, ...]


def runtime_of(stage: StageSpec) -> Any:
    """Return ONNX Runtime; MissingPartError names the extra."""
    return ort.module(f"the model {stage.target}", _EXTRA)


def providers_of(stage: StageSpec, runtime: Any) -> tuple[str, ...]:
    """Return the providers of a stage, the preferred one first; ModelError for one that is not there."""
    there = ort.available(runtime)
    stated = tuple(stage.options.get("providers", ()))
    missing = [name for name in stated if name not in there]
    if missing:
        known = ", ".join(sorted(there))
        raise ModelError(f"ONNX Runtime has no provider {missing[0]} here", f"choose from {known}")
    return stated or tuple(name for name in _BY_DEFAULT if name in there)


def model_path(stage: StageSpec, folder: str) -> str:
    """Return the path of a model; ModelError if there is no file."""
    path = os.path.join(folder, stage.target)
    if not os.path.isfile(path):
        raise ModelError(
            f"the model {path} does not exist", "correct the path: it begins at the folder of the file"
        )
    return path


def ports_of(session: Any) -> ModelPorts:
    """Return what a loaded model takes and makes; ModelError for a type that frames do not carry."""
    return ModelPorts(
        tuple(map(_port, session.get_inputs())),
        tuple(map(_port, session.get_outputs())),
    )


def with_model_ports(stage: StageSpec, folder: str, edges: int) -> StageSpec:
    """Return a stage with the ports of its model; ModelError or MissingPartError if it cannot run."""
    runtime = runtime_of(stage)
    path = model_path(stage, folder)
    providers_of(stage, runtime)
    try:  # to read the ports needs neither an accelerator nor a fast graph
        session = ort.open_session(runtime, path, 1, ("cpu",), optimize=False)
    except Exception as error:  # ONNX Runtime has exceptions of its own, without a common class
        text = " ".join(str(error).split())
        raise ModelError(f"the model {path} cannot be loaded: {text}", "export it again") from error
    ports = ports_of(session)
    if stage.batch:
        _check_batch(ports)
    made = ports.outputs[0].type if len(ports.outputs) == 1 else Record
    return replace(stage, inputs=_input_type(stage, ports.inputs, edges), outputs=made)


def preparation_hint(made: PortType, end: StageSpec) -> str:
    """Return the options that let a model take images; empty: they do not help."""
    shape = end.inputs.shape or ()
    if end.kind is not StageKind.ONNX or not Image.accepts(made) or made.kind is PortKind.ANY:
        return ""
    if len(shape) != 4 or not end.inputs.dtype.startswith("float"):
        return ""
    layout = "nhwc" if shape[3] in (1, 3) and shape[1] not in (1, 3) else "nchw"
    height, width = shape[1:3] if layout == "nhwc" else shape[2:]
    resize = f"resize: [{height}, {width}], " if height and width else ""
    return f"add options: {{{resize}scale: 1/255, layout: {layout}}} to {end.name}"


def _port(described: Any) -> ModelPort:
    dtype = _DTYPES.get(described.type)
    if dtype is None:
        raise ModelError(
            f"{described.name} is {described.type}: a frame cannot carry it", "export another type"
        )
    shape = tuple(size if isinstance(size, int) else None for size in described.shape)
    return ModelPort(described.name, tensor(dtype, shape))


def _check_batch(ports: ModelPorts) -> None:
    for port in (*ports.inputs, *ports.outputs):
        if not port.sizes or port.sizes[0] is not None:
            raise ModelError(
                f"batch: {port.name} is {port.type}, and its first dimension is not symbolic",
                "export the model with a dynamic batch, or remove batch",
            )


def _input_type(stage: StageSpec, inputs: Sequence[ModelPort], edges: int) -> PortType:
    preparation = ImagePreparation.of(stage.options, "float32")
    if preparation is not None:
        return _image_type(preparation, inputs)
    if len(inputs) == 1 == edges:
        return inputs[0].type
    if edges == 1:
        return Record
    if edges != len(inputs):
        names = ", ".join(port.name for port in inputs)
        raise ModelError(
            f"the model has {len(inputs)} inputs ({names}), and {edges} edges end at its stage",
            "join one edge for each input, in their order, or send one record with these keys",
        )
    return inputs[0].type if len({port.type for port in inputs}) == 1 else ANY


def _image_type(preparation: ImagePreparation, inputs: Sequence[ModelPort]) -> PortType:
    """Return the type of the images that are prepared for a model."""
    sizes = inputs[0].sizes
    if len(inputs) != 1 or len(sizes) != 4 or not inputs[0].type.dtype.startswith("float"):
        taken = ", ".join(f"{port.name} {port.type}" for port in inputs)
        raise ModelError(
            f"the model takes {taken}: no image is prepared for it",
            "remove resize, scale, mean, std and layout",
        )
    channels = sizes[1] if preparation.layout == "nchw" else sizes[3]
    height, width = sizes[2:] if preparation.layout == "nchw" else sizes[1:3]
    if channels not in (None, 1, 3):
        raise ModelError(
            f"layout {preparation.layout}: the model takes {inputs[0].type}, {channels} channels then",
            f"try layout: {'nhwc' if preparation.layout == 'nchw' else 'nchw'}",
        )
    if preparation.size is None:
        return tensor("uint8", (height, width, channels))
    for stated, wanted in zip(preparation.size, (height, width), strict=True):
        if wanted not in (None, stated):
            raise ModelError(
                f"resize {list(preparation.size)}: the model takes {inputs[0].type}",
                f"write resize: [{height}, {width}]",
            )
    return tensor("uint8", (None, None, channels))


def _are_numbers(value: Any) -> bool:
    numbers = isinstance(value, list | tuple) and len(value) in (1, 3)
    return numbers and all(isinstance(each, int | float) and not isinstance(each, bool) for each in value)


def _are_providers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(name in ort.PROVIDERS for name in value)


ONNX_RULES: Final[dict[str, OptionRule]] = {
    "providers": OptionRule(f"a list of {', '.join(ort.PROVIDERS)}", _are_providers),
    "resize": OptionRule(
        "a height and a width, for example [224, 224]",
        lambda value: isinstance(value, list) and len(value) == 2 and all(map(is_count, value)),
    ),
    "filter": OptionRule(" or ".join(FILTERS), lambda value: value in FILTERS),
    "scale": OptionRule(
        "a number above 0 or a fraction such as 1/255", lambda value: parse_scale(value) is not None
    ),
    "mean": OptionRule("a list of 1 or 3 numbers", _are_numbers),
    "std": OptionRule(
        "a list of 1 or 3 numbers, none of them 0", lambda value: _are_numbers(value) and all(value)
    ),
    "layout": OptionRule(" or ".join(LAYOUTS), lambda value: value in LAYOUTS),
}
"""The options of a stage that is a model."""
