"""Which stage limits a pipeline. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_BUSY: Final = 0.5
"""The share of time from which a stage can be what the others wait for."""


def bottleneck(stages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the name of the busiest stage; None where every stage mostly waits for frames."""
    busiest = max(stages, key=lambda stage: float(stage["busy"]), default=None)
    return str(busiest["name"]) if busiest is not None and busiest["busy"] >= _BUSY else None
