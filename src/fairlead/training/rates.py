"""The rates at which a device trains: which of its peaks a framework uses for what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.units import Ops

_CONV_WIDE: Final = ("tf32", "fp32")
_PRODUCT_WIDE: Final = ("fp32",)
_HALVES: Final = ("fp16", "bf16")
_BRAIN: Final = ("bf16",)


@dataclass(frozen=True, slots=True)
class TrainingRates:
    """Operations per second by kind of work."""

    conv: Ops
    product: Ops
    half: bool
    """Whether products are of 16 bits."""


def training_rates(rates: Mapping[str, Ops], precision: str) -> TrainingRates | str | None:
    """Return the rates of a device in a training precision, why it does not train in it, or None: not known.

    Processors and GPUs compute in 32 bits, whether or not their data sheet says how fast; mixed precision on
    a device without 16 bits computes in 32.
    """
    conv, product = _best(rates, _CONV_WIDE), _best(rates, _PRODUCT_WIDE)
    if precision == "fp32":
        return TrainingRates(conv or product, product or conv, half=False) if product or conv else None
    half = _best(rates, _BRAIN if precision == "bf16" else _HALVES)
    if half:
        return TrainingRates(half, half, half=True)
    if not rates or precision == "amp":
        return TrainingRates(conv or product, product or conv, half=False) if product or conv else None
    return f"precision: it computes in {', '.join(rates)}, not in bf16"


def _best(rates: Mapping[str, Ops], names: tuple[str, ...]) -> Ops:
    return max((rates[name] for name in names if name in rates), default=Ops(0.0))
