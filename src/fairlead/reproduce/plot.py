"""Draw the figures of the GPU-sharing experiment by level, with the published ones beside them."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.reproduce.engines import HOMOGENEOUS
from fairlead.reproduce.published import PUBLISHED, SCHEDULERS
from fairlead.simulate.report.plot import Panel, chart

_PANELS: Final = (
    ("Mean pending, s", "mean_pending_s"),
    ("Worst job, s", "worst_job_s"),
    ("Memory used on average, MiB", "memory_mean_mib"),
    ("Utilisation, %", "utilisation_percent"),
    ("Restarts", "restarts"),
)


def svg(answer: Mapping[str, Any], workload: str, seed: int) -> str:
    """Return one self-contained picture: a panel for each figure, a line for each scheduler."""
    levels = sorted(answer["levels"], key=lambda level: float(level["overprovision_percent"]))
    percents = [float(level["overprovision_percent"]) for level in levels]
    known = [level for level in PUBLISHED if workload == HOMOGENEOUS and percents[0] <= level <= percents[-1]]
    names = [*SCHEDULERS, *(f"{name}, published" for name in SCHEDULERS[:-1] if known)]
    panels = []
    for title, key in _PANELS:
        lines = [[float(level["schedulers"][name][key] or 0.0) for level in levels] for name in SCHEDULERS]
        times = [percents] * len(lines)
        if known:
            lines += [
                [float(getattr(PUBLISHED[level][name], key)) for level in known] for name in SCHEDULERS[:-1]
            ]
            times = [*times, *([[float(level) for level in known]] * (len(SCHEDULERS) - 1))]
        panels.append(Panel(title, times, lines))
    heading = f"{workload}, arrival seed {seed}, by over-provision"
    return chart(heading, names, panels, max(percents[-1], 1.0), "%")
