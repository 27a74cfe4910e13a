"""What predictions for many devices stand on: runs there, runs on devices like them, or data sheets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.estimate import roofline
from fairlead.estimate.amounts import Array, WorkAmounts
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.corrections import corrections
from fairlead.estimate.feasible import ExecutionPlan, rate
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.speeds import speed
from fairlead.estimate.target import Target

_OTHER_DEVICE_FACTOR: Final = 1.5
"""A spread that was found on one device is larger on another one like it."""
_SIMILAR_FROM: Final = 0.45
"""From this trust on, an estimate is said to rest on similar devices."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Targets in rows: coefficients, and how far to trust them."""

    times: Array
    """Seconds of each amount."""
    memory: Array
    """Bytes of each amount of memory."""
    link: Array
    """Seconds that the host link takes besides."""
    spread: Array
    """Of the logarithm of real times around predicted ones."""
    jitter: Array
    """How far, in logarithms, the ninth decile of runs of one model lies above the usual one."""
    basis: tuple[str, ...]
    own_fit: tuple[CalibratedFit | None, ...]


def build_cost_model(
    targets: Sequence[Target],
    ways: Sequence[ExecutionPlan],
    work: Sequence[WorkAmounts],
    knowledge: Knowledge,
) -> CostModel:
    """Return the best that is known of each target."""
    rates = [rate(way.precision, knowledge.rates(each)) for each, way in zip(targets, ways, strict=True)]
    times = roofline.coefficients(targets, rates)
    spread = np.array([speed(target.kind, target.vendor, target.family).spread for target in targets])
    basis = ["data sheet"] * len(targets)
    found = corrections(targets, [way.precision for way in ways], np.array(rates), knowledge.fitted)
    if found is not None:
        times = times * found.factors
        spread = (1 - found.trust) * spread + found.trust * _OTHER_DEVICE_FACTOR * found.spread
        basis = [
            "similar" if trust >= _SIMILAR_FROM else says
            for trust, says in zip(found.trust, basis, strict=True)
        ]
    plain = CostModel(
        times=times,
        memory=np.array([way.runtime.memory for way in ways]),
        link=np.array([roofline.link_seconds(*pair) for pair in zip(targets, work, strict=True)]),
        spread=spread,
        jitter=np.zeros(len(targets)),
        basis=tuple(basis),
        own_fit=(None,) * len(targets),
    )
    return _with_own_fits(plain, targets, ways, knowledge) if knowledge.fitted else plain


def _with_own_fits(
    plain: CostModel, targets: Sequence[Target], ways: Sequence[ExecutionPlan], knowledge: Knowledge
) -> CostModel:
    """Put what was measured on a target itself in the place of what others say of it."""
    own = tuple(
        knowledge.own_fit(each, way.precision) if each.device in knowledge.by_device else None
        for each, way in zip(targets, ways, strict=True)
    )
    times, memory, link = plain.times.copy(), plain.memory.copy(), plain.link.copy()
    spread, jitter, basis = plain.spread.copy(), plain.jitter.copy(), list(plain.basis)
    for row, fitted in enumerate(own):
        if fitted is not None:
            times[row], memory[row], link[row] = fitted.times, fitted.memory, 0.0
            spread[row], jitter[row], basis[row] = fitted.spread, fitted.jitter, "calibrated"
    return CostModel(times, memory, link, spread, jitter, tuple(basis), own)
