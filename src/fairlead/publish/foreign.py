"""Memory that processes outside pods use: it is not handed out, in coarse steps that follow it slowly down.

Every change is written to the API server and to the kubelet, so a small or short change must cause none.
A request for the whole of an accelerator is not affected: the desktop of a workstation would make it
impossible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.offer import Form, Holder, Holding
from fairlead.units import Bytes

FOREIGN: Final = Holder("", "processes outside pods")
STEP: Final = 256
"""MiB."""
CALM: Final = 6
"""Samples in a row that must be lower before less is withheld."""


@dataclass(frozen=True, slots=True)
class ForeignReserve:
    """What is withheld of each accelerator."""

    mebibytes: Mapping[str, int] = field(default_factory=dict)
    lower: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The last needs in a row that were lower than what is withheld, in MiB."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return what is withheld, as holdings."""
        return tuple(
            Holding(accelerator, Form.MEMORY, FOREIGN, amount)
            for accelerator, amount in sorted(self.mebibytes.items())
            if amount
        )


def follow(before: ForeignReserve, foreign: Mapping[str, Bytes]) -> ForeignReserve:
    """Return the reserve after a sample; an accelerator that was not measured keeps its own."""
    mebibytes, lower = dict(before.mebibytes), dict(before.lower)
    for accelerator, used in foreign.items():
        need = -(-used // (STEP << 20)) * STEP
        recent = (*lower.get(accelerator, ()), need) if need < mebibytes.get(accelerator, 0) else ()
        if not recent:
            mebibytes[accelerator] = need
        elif len(recent) == CALM:
            mebibytes[accelerator], recent = max(recent), ()
        lower[accelerator] = recent
    return ForeignReserve(mebibytes, lower)
