"""The cost model of many devices: from runs on the device, runs on similar devices, or its data sheet."""

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
from fairlead.estimate.target import Target

_OTHER_DEVICE_FACTOR: Final = 1.5
"""The spread measured on one device is larger, by this factor, on a similar device."""
_SIMILAR_FROM: Final = 0.45
"""From this trust on, the basis of an estimate is `similar`."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Coefficients of every target, one per row, and how far to trust them."""

    times: Array
    """Seconds of each amount."""
    memory: Array
    """Bytes of each amount of memory."""
    link: Array
    """Seconds that the host link adds."""
    spread: Array
    """Standard deviation of the logarithm of real times around predicted ones."""
    jitter: Array
    """How far, in logarithms, the ninth decile of runs of one model lies above the typical run."""
    basis: tuple[str, ...]
    own_fits: tuple[CalibratedFit | None, ...]
    """The calibration of each target itself; None where it has none."""


def build_cost_model(
    targets: Sequence[Target],
    plans: Sequence[ExecutionPlan],
    work: Sequence[WorkAmounts],
    knowledge: Knowledge,
) -> CostModel:
    """Return the best coefficients that are known for each target."""
    rates = [
        rate(plan.precision, knowledge.rates(target)) for target, plan in zip(targets, plans, strict=True)
    ]
    times = roofline.coefficients(targets, rates)
    spread = np.array([target.speed.spread for target in targets])
    basis = ["data sheet"] * len(targets)
    similar = corrections(targets, [plan.precision for plan in plans], np.array(rates), knowledge.fitted)
    if similar is not None:
        times = times * similar.factors
        spread = (1 - similar.trust) * spread + similar.trust * _OTHER_DEVICE_FACTOR * similar.spread
        basis = [
            "similar" if trust >= _SIMILAR_FROM else before
            for trust, before in zip(similar.trust, basis, strict=True)
        ]
    plain = CostModel(
        times=times,
        memory=np.array([plan.runtime.memory for plan in plans]),
        link=np.array([roofline.link_seconds(*pair) for pair in zip(targets, work, strict=True)]),
        spread=spread,
        jitter=np.zeros(len(targets)),
        basis=tuple(basis),
        own_fits=(None,) * len(targets),
    )
    return _with_own_fits(plain, targets, plans, knowledge) if knowledge.fitted else plain


def _with_own_fits(
    plain: CostModel, targets: Sequence[Target], plans: Sequence[ExecutionPlan], knowledge: Knowledge
) -> CostModel:
    """Replace the coefficients of each calibrated target by those measured on the target itself."""
    own_fits = tuple(
        knowledge.own_fit(target, plan.precision) if target.device in knowledge.by_device else None
        for target, plan in zip(targets, plans, strict=True)
    )
    times, memory, link = plain.times.copy(), plain.memory.copy(), plain.link.copy()
    spread, jitter, basis = plain.spread.copy(), plain.jitter.copy(), list(plain.basis)
    for row, fitted in enumerate(own_fits):
        if fitted is not None:
            times[row], memory[row], link[row] = fitted.times, fitted.memory, 0.0
            spread[row], jitter[row], basis[row] = fitted.spread, fitted.jitter, "calibrated"
    return CostModel(times, memory, link, spread, jitter, tuple(basis), own_fits)
