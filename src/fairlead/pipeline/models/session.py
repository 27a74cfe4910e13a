"""An ONNX model as a worker calls it: one value, the values of a join, or a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fairlead import ort
from fairlead.pipeline.frame import Array
from fairlead.pipeline.models.images import ImagePreparation
from fairlead.pipeline.models.ports import model_path, ports_of, providers_of, runtime_of
from fairlead.pipeline.spec import StageSpec


def open_model(stage: StageSpec, folder: str) -> Callable[..., Any]:
    """Return what a worker calls with each value or batch of a stage."""
    runtime = runtime_of(stage)
    providers = providers_of(stage, runtime)
    threads = len(stage.cores) or 1
    model = OnnxModel(stage, ort.open_session(runtime, model_path(stage, folder), threads, providers))
    return model.run_batch if stage.batch else model.run


class OnnxModel:
    """A loaded model. ValueError names the input that a value does not fit."""

    def __init__(self, stage: StageSpec, session: Any) -> None:
        self._session = session
        self._ports = ports_of(session)
        self._preparation = ImagePreparation.of(stage.options, self._ports.inputs[0].type.dtype)

    def run(self, *values: Any) -> Any:
        """Return what the model makes of one frame: an array, or a record of arrays by name."""
        outputs = self._session.run(None, self._feed(values))
        return self._value(outputs)

    def run_batch(self, values: Sequence[Any]) -> list[Any]:
        """Return what the model makes of several frames, one result for each."""
        feeds = [self._feed((value,)) for value in values]
        joined = {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
        outputs = self._session.run(None, joined)
        rows = [len(next(iter(feed.values()))) for feed in feeds]
        for port, output in zip(self._ports.outputs, outputs, strict=True):
            if len(output) != sum(rows):
                raise ValueError(
                    f"{port.name} has {len(output)} rows for a batch with {sum(rows)}: remove batch"
                )
        ends = np.cumsum(rows)[:-1]
        parts = [np.split(output, ends) for output in outputs]
        return [self._value(each) for each in zip(*parts, strict=True)]

    def _feed(self, values: Sequence[Any]) -> dict[str, Array]:
        """Return the inputs of the model by name."""
        ports = self._ports.inputs
        if self._preparation is not None:
            values = (self._preparation.apply(values[0]),)
        elif len(values) == 1 and isinstance(values[0], Mapping):
            missing = [port.name for port in ports if port.name not in values[0]]
            if missing:
                raise ValueError(f"the record has no array {missing[0]!r}, which is an input of the model")
            values = [values[0][port.name] for port in ports]
        feed = dict(zip((port.name for port in ports), values, strict=True))
        for port in ports:
            if fault := port.type.objection(feed[port.name]):
                raise ValueError(f"input {port.name} got {fault}: it takes {port.type}")
        return feed

    def _value(self, outputs: Sequence[Any]) -> Any:
        if len(outputs) == 1:
            return outputs[0]
        return {port.name: output for port, output in zip(self._ports.outputs, outputs, strict=True)}
