"""The peak memory of a training step, as the framework's allocator counts it.

Weights, gradients and the optimiser's states; the values that the forward pass keeps for the backward pass;
and what exists for a moment: gradients of activations, copies, the workspace of convolutions. The step is
played forward and backward, layer by layer, and the most at one time is the peak.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from typing import Any, Final

from fairlead.training.layers import HALF, Layer, Layers
from fairlead.training.setup import TrainingSetup
from fairlead.training.widths import ValuePlaces, storage
from fairlead.units import Bytes

_ADDS: Final = ("Add", "ADD", "Sub", "SUB")
_HALF_WIDTH: Final = 2
_WORKSPACE: Final = {"fp32": 0.0, "amp": 0.0, "bf16": 0.0}


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """The parts of the memory of a training step."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    activations: Bytes
    """Kept from the forward to the backward pass, with inputs."""
    workspace: Bytes
    """Beyond the others at the peak: gradients of activations, copies, and workspace of kernels."""
    peak: Bytes

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "weights_bytes": self.weights,
            "gradients_bytes": self.gradients,
            "optimizer_bytes": self.optimizer,
            "activations_bytes": self.activations,
            "workspace_bytes": self.workspace,
            "peak_bytes": self.peak,
        }


@dataclass(frozen=True, slots=True)
class Kept:
    """What one layer keeps: bytes by the memory that holds them."""

    by_place: Mapping[str, int]


def kept_by_layer(layers: Layers, setup: TrainingSetup, places: ValuePlaces, scale: float) -> list[Kept]:
    """Return what each layer keeps of its inputs and outputs, for `scale` times the file's batch."""
    return [
        Kept(dict(_kept(index, layer, layers, setup, places, scale)))
        for index, layer in enumerate(layers.layers)
    ]


def _kept(
    index: int, layer: Layer, layers: Layers, setup: TrainingSetup, places: ValuePlaces, scale: float
) -> Iterator[tuple[str, int]]:
    for name in layer.saves:
        value, base = layers.values[name], places.base.get(name, name)
        width = places.width.get(name, 4)
        if setup.precision == "amp" and layer.compute == HALF and value.is_float and width > _HALF_WIDTH:
            yield f"{base}\0{index}", int(value.elements * _HALF_WIDTH * scale)
        elif setup.precision == "amp" and layer.kind == "norm" and layer.compute == "wide" and width < 4:
            yield f"{base}\0{index}", int(value.elements * 4 * scale)
        elif layer.copies and name in places.cut:
            yield name, int(value.elements * width * scale)
        else:
            yield base, int(places.size(layers, base) * scale)
    if layer.extra:
        yield f"extra\0{index}", int(layer.extra * scale)
    if setup.precision == "amp" and layer.compute == HALF and layer.weights:
        yield f"weights\0{index}", layer.weights * _HALF_WIDTH


def peak_memory(layers: Layers, setup: TrainingSetup, file_batch: int) -> TrainingMemory:
    """Return the memory of a step in the long run: the optimiser has its states, gradients start empty."""
    scale = setup.batch / max(1, file_batch)
    places = storage(layers, setup.precision)
    kept = kept_by_layer(layers, setup, places, scale)
    total = _union(kept)
    weights = layers.weights * setup.weight_width
    states = int(weights * setup.rule.states)
    inputs = sum(int(places.size(layers, name) * scale) for name in layers.inputs)
    loss = _loss_bytes(layers, setup, places, scale)
    activations = sum(size for place, size in total.items() if place not in layers.inputs) + inputs
    run = _Play(layers, setup, places, scale, kept)
    highest = max(run.forward(), run.backward(loss))
    if setup.checkpointing:
        moment = max(0, highest - sum(size for place, size in total.items() if place not in layers.inputs))
        kept_bytes = checkpointed(layers, kept, places, scale)
        activations, highest = kept_bytes + inputs, kept_bytes + moment
    fixed = weights + states
    update = fixed + weights + int(weights * setup.rule.temporary) + inputs
    peak = max(fixed + inputs + highest, update)
    return TrainingMemory(
        Bytes(weights),
        Bytes(weights),
        Bytes(states),
        Bytes(activations + loss),
        Bytes(max(0, peak - fixed - activations - loss)),
        Bytes(peak),
    )


def checkpointed(layers: Layers, kept: Sequence[Kept], places: ValuePlaces, scale: float) -> int:
    """Return the bytes kept with checkpoints: what crosses between segments, and one segment's own.

    As many segments as the square root of the layers, each with as many bytes as the next: the fewest for a
    chain.
    """
    count = max(1, round(sqrt(len(layers.layers))))
    bounds = _bounds(kept, count)
    made, crossing = dict.fromkeys(layers.inputs, 0), dict[str, int]()
    segments = [set[str]() for _ in range(count)]
    for segment in range(count):
        for index in range(bounds[segment], bounds[segment + 1]):
            layer = layers.layers[index]
            for name in (places.base.get(name, name) for name in layer.inputs):
                if made.get(name, segment) < segment and name not in layers.inputs:
                    crossing[name] = int(places.size(layers, name) * scale)
            for name in (places.base.get(name, name) for name in layer.outputs):
                made.setdefault(name, segment)
            segments[segment].update(kept[index].by_place)
    sizes = _union(kept)
    own = [sum(sizes[place] for place in one if place not in layers.inputs) for one in segments]
    return sum(crossing.values()) + max(own, default=0)


def _bounds(kept: Sequence[Kept], count: int) -> list[int]:
    """Return where segments begin, and the end of the last."""
    sums = list(accumulate(sum(one.by_place.values()) for one in kept))
    total = max(1, sums[-1] if sums else 1)
    starts = [bisect_left(sums, total * index / count) for index in range(count)]
    return [0, *starts[1:], len(kept)]


def _union(kept: Sequence[Kept]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in kept:
        for place, size in one.by_place.items():
            total[place] = max(total.get(place, 0), size)
    return total


def _loss_bytes(layers: Layers, setup: TrainingSetup, places: ValuePlaces, scale: float) -> int:
    """Return what the loss keeps: the logarithms of probabilities, in 32 bits."""
    width = 2 if setup.precision == "bf16" else 4
    return sum(int(layers.values[name].elements * width * scale) for name in layers.outputs)


class _Play:
    """A step, played layer by layer; sizes are bytes beyond weights, states and inputs."""

    def __init__(
        self, layers: Layers, setup: TrainingSetup, places: ValuePlaces, scale: float, kept: Sequence[Kept]
    ) -> None:
        self._layers, self._setup, self._places, self._scale, self._kept = layers, setup, places, scale, kept
        self._held_at: dict[str, int] = {}
        self._first_use: dict[str, int] = {}
        for index, one in enumerate(kept):
            for place, size in one.by_place.items():
                self._held_at[place] = max(self._held_at.get(place, 0), size)
                self._first_use.setdefault(place, index)
        self._own = set(layers.inputs)

    def _size(self, name: str) -> int:
        return int(self._places.size(self._layers, name) * self._scale)

    def _base(self, name: str) -> str:
        return self._places.base.get(name, name)

    def forward(self) -> int:
        """Return the most bytes at one time in the forward pass."""
        last: dict[str, int] = {}
        for index, layer in enumerate(self._layers.layers):
            for name in layer.inputs:
                last[self._base(name)] = index
        live: dict[str, int] = {}
        now = highest = 0
        for index, layer in enumerate(self._layers.layers):
            for place, size in self._kept[index].by_place.items():
                if place not in live and place not in self._own:
                    live[place] = size
                    now += size
            for name in map(self._base, layer.outputs):
                if name not in live and name not in self._own:
                    live[name] = self._size(name)
                    now += live[name]
            highest = max(highest, now + self._workspace(layer))
            for name in {*map(self._base, layer.inputs), *map(self._base, layer.outputs)}:
                if name in live and name not in self._held_at and last.get(name, -1) <= index:
                    now -= live.pop(name)
        return highest

    def backward(self, loss: int) -> int:
        """Return the most bytes at one time in the backward pass."""
        held = {place: size for place, size in self._held_at.items() if place not in self._own}
        now = sum(held.values()) + loss
        gradients: dict[str, str] = {}
        sizes: dict[str, int] = {}
        uses: dict[str, int] = defaultdict(int)
        for name in map(self._base, self._layers.outputs):
            gradients[name], sizes[name], uses[name] = name, self._size(name), 1
            now += self._size(name)
        highest = now + loss
        now -= loss
        for index in range(len(self._layers.layers) - 1, -1, -1):
            layer = self._layers.layers[index]
            outs = [name for name in dict.fromkeys(map(self._base, layer.outputs)) if name in gradients]
            if outs and not (layer.shares and layer.calls == 0):
                made, now = self._gradients(index, layer, outs[0], gradients, sizes, uses, now)
                highest = max(highest, now + self._workspace(layer))
                now -= made
            for place in self._kept[index].by_place:
                if place in held and self._first_use[place] == index:
                    now -= held.pop(place)
        return highest

    def _gradients(
        self,
        index: int,
        layer: Layer,
        out: str,
        gradients: dict[str, str],
        sizes: dict[str, int],
        uses: dict[str, int],
        now: int,
    ) -> tuple[int, int]:
        """Add the gradients of a layer's inputs; return what is freed after it, and the bytes before that."""
        width = self._setup.weight_width
        now += layer.weights * width
        targets = [name for name in dict.fromkeys(map(self._base, layer.inputs)) if name not in self._own]
        targets = [name for name in targets if self._layers.values[name].is_float]
        source = gradients[out]
        freed = 0
        for name in targets:
            passes = layer.op in _ADDS and self._size(name) == sizes[source]
            if name in gradients and name != out:
                now += 0 if passes else self._size(name)
                freed += 0 if passes else self._size(name)
            elif passes:
                gradients[name] = source
                uses[source] += 1
            else:
                fresh = f"{name}\0{index}"
                gradients[name], sizes[fresh] = fresh, self._size(name)
                uses[fresh] = 1
                now += self._size(name)
        if out not in targets or gradients.get(out) != source:
            if out not in targets:
                gradients.pop(out, None)
            uses[source] -= 1
            freed += sizes[source] if uses[source] == 0 else 0
        return freed, now

    def _workspace(self, layer: Layer) -> int:
        """Return the bytes that a layer's kernels take for themselves."""
        if layer.kind not in ("conv", "depthwise"):
            return 0
        share = _WORKSPACE[self._setup.precision]
        moved = sum(map(self._size, (*layer.inputs, *layer.outputs)))
        return int(share * moved)
