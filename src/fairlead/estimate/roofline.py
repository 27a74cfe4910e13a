"""Seconds for each amount of work by the data sheet alone: the roofline of every class of operators.

A model's time is the sum over its amounts, so that a device is a row of coefficients and a thousand devices
are a matrix. What multiply-adds cost is bounded by the peak: no efficiency is above one.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from fairlead.estimate.amounts import NAMES, Array, WorkAmounts
from fairlead.estimate.speeds import DeviceSpeed, speed
from fairlead.estimate.target import Target
from fairlead.units import Ops

_STARTS: Final = np.array([name.startswith(("call", "kernels")) for name in NAMES])
_MACS: Final = np.array([name.startswith("macs") for name in NAMES])
_COMMON_PRECISIONS: Final = ("int8", "fp16", "bf16", "fp32")


def coefficients(targets: Sequence[Target], rates: Sequence[Ops]) -> Array:
    """Return targets x amounts: seconds of each amount, at so many operations per second."""
    given = [speed(target.kind, target.vendor, target.family) for target in targets]
    moved = np.array([bandwidth(*pair) for pair in zip(targets, given, strict=True)])[:, None]
    units = np.where(_MACS, 2 / np.array(rates, dtype=np.float64)[:, None], 1 / moved)
    shares = np.array([_shares(target.kind, target.vendor, target.family) for target in targets])
    return np.where(_STARTS, shares, units / shares)


def bandwidth(target: Target, given: DeviceSpeed) -> float:
    """Return bytes per second of its memory; where the catalog has none, what suits its peak."""
    if target.bandwidth:
        return float(target.bandwidth)
    rates = [target.rates[name] for name in _COMMON_PRECISIONS if name in target.rates]
    return max(rates, default=1e12) / given.ops_per_byte


def link_seconds(target: Target, work: WorkAmounts) -> float:
    """Return what the host link costs: inputs, outputs, and weights that do not stay on the device."""
    if not target.link:
        return 0.0
    given = speed(target.kind, target.vendor, target.family)
    kept = work.weights if target.on_chip is None else target.on_chip * given.on_chip
    return 8 * (work.carried + max(0.0, work.weights - kept)) / (target.link * given.link)


@cache
def _shares(kind: str, vendor: str, family: str) -> tuple[float, ...]:
    """Return, in the order of the amounts, the share of peak or bandwidth, or the seconds to begin."""
    given = speed(kind, vendor, family)
    return (
        given.call_us * 1e-6,
        given.conv,
        given.bytes,
        given.weights,
        given.depthwise,
        given.product,
        given.weights,
        given.light,
        given.smooth,
        given.kernel_conv_us * 1e-6,
        given.kernel_us * 1e-6,
    )
