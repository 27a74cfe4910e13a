"""How wide values are in a training precision, and which memory they share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.dataflow import VIEWS
from fairlead.training.layers import HALF, SAME, WIDE, Layer, Layers

_BYTES: Final = {"fp32": 4, "bf16": 2, "amp": 4}


@dataclass(frozen=True, slots=True)
class ValuePlaces:
    """Where every value is, and how wide its elements are."""

    base: Mapping[str, str]
    """The value whose memory a value uses."""
    width: Mapping[str, int]
    cut: frozenset[str]
    """Values that are parts or reorderings of their base: some operators copy them first."""

    def size(self, layers: Layers, name: str) -> int:
        """Return the bytes of a value by itself."""
        return layers.values[name].elements * self.width.get(name, 4)


def storage(layers: Layers, precision: str) -> ValuePlaces:
    """Return the memory of every value under a precision."""
    base: dict[str, str] = {}
    cut: set[str] = set()
    width = {name: _own_width(layers, name, _BYTES[precision]) for name in layers.inputs}
    for layer in layers.layers:
        wide = _output_width(layer, layers, width, precision)
        for name in layer.outputs:
            width[name] = wide if layers.values[name].is_float else max(1, layers.values[name].bits // 8)
            if layer.shares and layer.inputs:
                base[name] = base.get(layer.inputs[0], layer.inputs[0])
                if layer.calls == 0 and (layer.op not in VIEWS or layer.inputs[0] in cut):
                    cut.add(name)
    return ValuePlaces(base, width, frozenset(cut))


def _own_width(layers: Layers, name: str, usual: int) -> int:
    value = layers.values[name]
    return usual if value.is_float else max(1, value.bits // 8)


def _output_width(layer: Layer, layers: Layers, width: Mapping[str, int], precision: str) -> int:
    if precision != "amp":
        return _BYTES[precision]
    if layer.compute == HALF:
        return 2
    if layer.compute == WIDE or layer.weighted or layer.kind == "embedding":
        return 4
    assert layer.compute == SAME, layer.compute
    floats = [width.get(name, 4) for name in layer.inputs if layers.values[name].is_float]
    return max(floats, default=4)
