"""Analyse a model without running it: its work and bytes, operator by operator.

    file -> onnx | tflite -> Model -> bind, infer -> Program -> prune, fold quantisation, group -> Profile

The analysis needs only the standard library, and never reads a weight.
"""

import os
from collections.abc import Mapping

from fairlead.analyze import cost, onnx, tflite
from fairlead.analyze.bind import bind, parse_shapes
from fairlead.analyze.control import CONTROL
from fairlead.analyze.digest import digest
from fairlead.analyze.flow import dataflow
from fairlead.analyze.graph import Model
from fairlead.analyze.group import group
from fairlead.analyze.infer import ShapeInference
from fairlead.analyze.language import scope_of
from fairlead.analyze.liveness import peak
from fairlead.analyze.names import printable
from fairlead.analyze.program import Notes, Program
from fairlead.analyze.prune import prune
from fairlead.analyze.quantised import fold_quantisation
from fairlead.analyze.source import ModelSource, open_source
from fairlead.analyze.support import unsupported
from fairlead.errors import AnalysisError
from fairlead.units import Bytes, pluralize
from fairlead.workload import Profile, Tensor

__all__ = ["analyze", "parse_shapes"]

_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, such as PyTorch or Keras writes",
    b"\x89HDF": "an HDF5 file, such as Keras writes",
    b"\x1f\x8b": "compressed",
    b"GGUF": "a GGUF file",
    b"<?xm": "XML, such as OpenVINO writes",
    b"RKNN": "a compiled RKNN model",
    b"version https://git-lfs": "a pointer to a file in Git LFS, not the file",
}


def analyze(path: str, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Profile:
    """Return the profile of a model file; `shapes` binds open dimensions, by input or by dimension name."""
    with open_source(path) as source:
        model = _read(source)
    try:
        return profile_model(model, os.path.basename(path), shapes or {})
    except AnalysisError as error:
        raise AnalysisError(f"{path}: {error}", error.hint) from None


def profile_model(model: Model, name: str, shapes: Mapping[str, tuple[int, ...]]) -> Profile:
    """Return the profile of a model."""
    bound = bind(model.graph, shapes)
    notes = Notes(model.notes)
    program = fold_quantisation(prune(ShapeInference(model, bound, notes, CONTROL).run()))
    program, groups = group(program)
    return _profile(name, model, digest(model, bound), program, groups, notes)


def _read(source: ModelSource) -> Model:
    start = source.read(0, min(source.size, 64))
    if start[4:8] == b"TFL3":
        return tflite.read(source)
    hint = "export or convert the model to ONNX or TFLite"
    if start[4:8] == b"ORTM":
        raise AnalysisError(
            f"{source.path}: ONNX Runtime's own format", "analyse the ONNX file that it was made from"
        )
    for magic, description in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise AnalysisError(f"{source.path}: {description}", hint)
    if not start or start[0] not in (0x08, 0x12, 0x3A, 0x42):
        raise AnalysisError(f"{source.path}: neither an ONNX nor a TFLite file", hint)
    return onnx.read(source)


def _profile(name: str, model: Model, key: str, program: Program, groups: list[int], notes: Notes) -> Profile:
    records = cost.operators(program, groups)
    if any(record.op == "custom.edgetpu-custom-op" for record in records):
        notes.add("compiled for the Edge TPU: its work is hidden; analyse the model before compilation")
    inexact = sum(not record.exact for record in records)
    if inexact:
        some = f"{inexact} of {pluralize(len(records), 'operator')} {'is' if inexact == 1 else 'are'}"
        notes.add(f"{some} not exact: the figures are lower bounds")
    total = cost.totals(records)
    inputs = tuple(_tensor(program, input_, input_) for input_ in program.inputs)
    outputs = tuple(
        _tensor(program, output, program.output_names.get(output, output)) for output in program.outputs
    )
    scope = scope_of(inputs, outputs, records)
    return Profile(
        name=printable(name),
        format=model.format,
        digest=key,
        precision=cost.precision_of(records),
        inputs=inputs,
        outputs=outputs,
        operators=records,
        macs=total["macs"],
        params=total["params"],
        weight_bytes=Bytes(total["weight_bytes"]),
        activations=cost.activations_of(program),
        peak_bytes=Bytes(peak(program)),
        unsupported=unsupported(model.format, records),
        notes=(*([scope] if scope else []), *notes.all()),
        scope=scope,
        flow=dataflow(program, records),
    )


def _tensor(program: Program, name: str, label: str) -> Tensor:
    fact = program.fact(name)
    return Tensor(printable(label), fact.dims or (), fact.dtype)
