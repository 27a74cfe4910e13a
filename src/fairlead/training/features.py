"""A training job from a model's work by kind, where its graph is not at hand: the profiles of a cluster.

The same figures as from the graph, with shares in place of lifetimes: what operators of a kind write is kept
as often as networks of every kind keep it on the mean.
"""

from typing import Final

import numpy as np

from fairlead.calibration import Features, OperatorWork
from fairlead.estimate.amounts import NAMES, amounts
from fairlead.training.layers import Layers
from fairlead.training.memory import TrainingMemory
from fairlead.training.predict import TrainingJob
from fairlead.training.setup import TrainingSetup
from fairlead.training.work import StepWork, update_work
from fairlead.units import Bytes
from fairlead.workload import BITS, Profile

_KEPT: Final = {
    "conv": 2.0,
    "depthwise": 2.0,
    "matmul": 1.0,
    "attention": 1.0,
    "recurrent": 6.0,
    "norm": 1.0,
    "pool": 1.0,
    "activation": 0.3,
    "elementwise": 0.1,
}
"""How often what operators of a kind write is kept: a convolution's norm keeps its input and its result."""
_HALVED: Final = {"fp32": 1.0, "amp": 0.55, "bf16": 0.5}
"""Bytes of kept values, over those of 32 bits."""
_HALF_COPY: Final = 2
"""Bytes of the 16-bit copy of a weight under automatic mixed precision."""
_MOMENT: Final = 0.06
"""Bytes of the moment, over kept ones."""
_LIGHT: Final = 5.0
"""Passes over what convolutions and products write: norms, activations and sums, forward and backward."""
_CALLS: Final = 3.0
"""Kernels of a step for each operator of the file."""
_PLACE: Final = {name: place for place, name in enumerate(NAMES)}
_NOTHING: Final = OperatorWork()


def job_of_features(profile: Profile, features: Features, setup: TrainingSetup) -> TrainingJob:
    """Return the training job of a model whose work by kind is known."""
    width = BITS.get(profile.precision, 32) / 8
    weights = int(sum(work.weight_bytes for work in features.work.values()) / width)
    layers = Layers((), {}, (), (), weights)
    return TrainingJob(
        profile,
        setup,
        layers,
        _memory(features, setup, weights, width),
        _work(features, setup, weights, width),
    )


def _memory(features: Features, setup: TrainingSetup, weights: int, width: float) -> TrainingMemory:
    scale = setup.batch / max(1, features.batch) * 4 / width * _HALVED[setup.precision]
    kept = scale * sum(share * _written(features, kind) for kind, share in _KEPT.items())
    kept -= scale * _norms_in_file(features)
    if setup.checkpointing:
        kept /= max(1.0, len(_KEPT) ** 0.5)
    kept += _HALF_COPY * weights if setup.precision == "amp" else 0
    size = weights * setup.weight_width
    states = int(size * setup.rule.states)
    peak = size + states + max(int(kept * (1 + _MOMENT)), int(size * (1 + setup.rule.temporary)))
    return TrainingMemory(
        Bytes(size), Bytes(size), Bytes(states), Bytes(int(kept)), Bytes(int(kept * _MOMENT)), Bytes(peak)
    )


def _work(features: Features, setup: TrainingSetup, weights: int, width: float) -> StepWork:
    scale = setup.batch / max(1, features.batch)
    narrow = (4 if setup.precision == "fp32" else 2) / width
    forward = amounts(features).scaled(scale, narrow).time
    written = sum(features.work.get(kind, _NOTHING).written_bytes for kind in ("conv", "depthwise", "matmul"))
    forward[_PLACE["bytes.light"]] += written * scale * narrow
    backward = 2 * forward
    backward[_PLACE["call"]] = 0.0
    backward[_PLACE["bytes.light"]] += (_LIGHT - 1) * written * scale * narrow
    operators = sum(work.operators for work in features.work.values())
    again = np.where([name != "call" for name in NAMES], 1.0, 0.0) * forward
    backward = backward + again if setup.checkpointing else backward
    return StepWork(forward, backward, update_work(weights, setup), _CALLS * operators)


def _written(features: Features, kind: str) -> int:
    return features.work.get(kind, _NOTHING).written_bytes


def _norms_in_file(features: Features) -> int:
    """Return what norms of convolutions write where the file has them: they are counted with both."""
    convolved = _written(features, "conv") + _written(features, "depthwise")
    return min(convolved, _written(features, "norm"))
