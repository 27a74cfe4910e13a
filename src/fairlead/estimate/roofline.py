"""Seconds for each amount of work from the data sheet alone: the roofline of every class of operators.

A model's time is the sum over its amounts, so a device is a row of coefficients and a thousand devices are a
matrix. The peak bounds the cost of multiply-adds: no efficiency is above one.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from fairlead.estimate.amounts import NAMES, Array, WorkAmounts
from fairlead.estimate.speeds import DeviceSpeed
from fairlead.estimate.target import Target
from fairlead.units import Ops

_STARTS: Final = np.array([name.startswith(("call", "kernels")) for name in NAMES])
_MACS: Final = np.array([name.startswith("macs") for name in NAMES])
_COMMON_PRECISIONS: Final = ("int8", "fp16", "bf16", "fp32")


def coefficients(
    targets: Sequence[Target], rates: Sequence[Ops], speeds: Sequence[DeviceSpeed] | None = None
) -> Array:
    """Return the seconds of each amount, targets x amounts, at these operations per second.

    `speeds` stand in for the figures of `speeds.toml`, one for each target.
    """
    known = [target.speed for target in targets] if speeds is None else speeds
    bandwidths = np.array([bandwidth(*pair) for pair in zip(targets, known, strict=True)])[:, None]
    units = np.where(_MACS, 2 / np.array(rates, dtype=np.float64)[:, None], 1 / bandwidths)
    shares = np.array([_shares(device_speed) for device_speed in known])
    return np.where(_STARTS, shares, units / shares)


def bandwidth(target: Target, device_speed: DeviceSpeed) -> float:
    """Return the bytes per second of a device's memory; where the catalog has none, derived from its peak."""
    if target.bandwidth:
        return float(target.bandwidth)
    rates = [target.rates[name] for name in _COMMON_PRECISIONS if name in target.rates]
    return max(rates, default=1e12) / device_speed.ops_per_byte


def link_seconds(target: Target, work: WorkAmounts, known: DeviceSpeed | None = None) -> float:
    """Return the seconds on the host link: inputs, outputs, and weights that do not stay on the device."""
    if not target.link:
        return 0.0
    device_speed = known or target.speed
    kept = work.weights if target.on_chip is None else target.on_chip * device_speed.on_chip
    return 8 * (work.carried + max(0.0, work.weights - kept)) / (target.link * device_speed.link)


@cache
def _shares(device_speed: DeviceSpeed) -> tuple[float, ...]:
    """Return, in the order of the amounts, the share of peak or bandwidth, or the seconds of a launch."""
    return (
        device_speed.call_us * 1e-6,
        device_speed.conv,
        device_speed.bytes,
        device_speed.weights,
        device_speed.depthwise,
        device_speed.product,
        device_speed.weights,
        device_speed.light,
        device_speed.smooth,
        device_speed.kernel_conv_us * 1e-6,
        device_speed.kernel_us * 1e-6,
    )
