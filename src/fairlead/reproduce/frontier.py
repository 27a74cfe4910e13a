"""The frontier of `fairlead-safe`: restarts against pending time, by what it knows and by its bound."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from fairlead.need import DEFAULT_BOUND
from fairlead.reproduce.gpu_sharing import Experiment, play_level
from fairlead.reproduce.published import CBP_PP, SAFE

SIZES: Final = (0.5, 0.9, 1.0, 1.5, 3.5, 8.31)
"""What a profile states as the least size, relative to the true one; the last is the full size."""
BOUNDS: Final = (0.1, 0.01, DEFAULT_BOUND, 0.0001)


def frontier(
    experiment: Experiment,
    levels: tuple[float, ...],
    progress: Callable[[int], None] = lambda _: None,
    sizes: tuple[float, ...] = SIZES,
    bounds: tuple[float, ...] = BOUNDS,
) -> dict[str, Any]:
    """Return the points of the frontier at each level; `progress` gets the number of levels done."""
    points = []
    for at, level in enumerate(levels):
        points.append(_point(experiment, level, CBP_PP, "device series"))
        for size in sizes:
            points.append(_point(replace(experiment, least=size), level, SAFE, "profile"))
        for bound in bounds:
            points.append(
                _point(replace(experiment, profiles=False, bound=bound), level, SAFE, "own history")
            )
        progress(at + 1)
    return {"frontier": points}


def _point(experiment: Experiment, level: float, scheduler: str, knows: str) -> dict[str, Any]:
    figures = play_level(experiment, level, scheduler)
    return {
        "overprovision_percent": level,
        "scheduler": scheduler,
        "knows": knows,
        "stated_least": experiment.least if knows == "profile" else None,
        "bound": experiment.bound if scheduler == SAFE else None,
        "restarts": figures["restarts"],
        "mean_pending_s": figures["mean_pending_s"],
        "worst_job_s": figures["worst_job_s"],
    }
