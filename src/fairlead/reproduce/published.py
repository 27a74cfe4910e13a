"""The published figures of GPU sharing: Ferikoglou et al., PARMA-DITAM 2021, by their result files.

Thirty ssd-mobilenet engines on one V100 with 32 GiB; arrivals 20 to 40 s apart; requests 0 to 250 % above
what an engine holds. One run for each level and scheduler. Figures are aggregates of the authors' files:
`monitoring-files/EXPERIMENT_*_OVERPROV_*` of github.com/aferikoglou/ECE-Diploma.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SEED: Final = 2020
"""The seed of the authors' arrivals."""
STOCK, ALIBABA, CBP_PP, SAFE = "stock", "alibaba", "cbp+pp", "fairlead-safe"
SCHEDULERS: Final = (STOCK, ALIBABA, CBP_PP, SAFE)


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """What was measured in one run."""

    mean_pending_s: float
    worst_job_s: float
    makespan_s: float
    memory_mean_mib: float
    memory_max_mib: float | None
    """None: not in the series that are at hand."""
    utilisation_percent: float
    power_w: float
    restarts: int


def _runs(
    *rows: tuple[float, float, float, float, float | None, float, float, int],
) -> dict[str, PublishedRun]:
    return {name: PublishedRun(*row) for name, row in zip((STOCK, ALIBABA, CBP_PP), rows, strict=True)}


PUBLISHED: Final[Mapping[int, Mapping[str, PublishedRun]]] = {
    0: _runs(
        (1510, 3694, 4078, 5958, 6994, 4.3, 40, 0),
        (132, 535, 1335, 21567, 27943, 59.7, 52, 0),
        (40, 319, 1149, 22868, 32334, 68.9, 51, 3),
    ),
    50: _runs(
        (1627, 4002, 4352, 5842, None, 4.0, 40, 0),
        (205, 908, 1517, 16745, None, 49.9, 50, 0),
        (58, 393, 1194, 21375, None, 66.1, 51, 10),
    ),
    100: _runs(
        (1708, 4180, 4627, 5608, 6994, 3.6, 39, 0),
        (735, 2157, 2412, 11243, 13977, 26.8, 47, 0),
        (66, 426, 1200, 22114, 32446, 65.3, 51, 13),
    ),
    150: _runs(
        (1799, 4389, 4788, 5555, None, 3.2, 39, 0),
        (1848, 4587, 4797, 5475, None, 3.4, 39, 0),
        (77, 458, 1232, 20567, None, 61.9, 50, 20),
    ),
    200: _runs(
        (1909, 4437, 4905, 5439, 6994, 3.7, 39, 0),
        (1891, 4409, 4807, 5376, 6994, 3.3, 39, 0),
        (73, 516, 1181, 20989, 32462, 64.7, 51, 19),
    ),
    250: _runs(
        (1916, 4490, 4893, 5406, None, 3.5, 39, 0),
        (1717, 4093, 4598, 5439, None, 3.3, 39, 0),
        (122, 683, 1331, 19464, None, 57.5, 50, 6),
    ),
}
"""By over-provision in percent, and scheduler."""
LEVELS: Final = tuple(PUBLISHED)
