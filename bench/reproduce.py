"""Compare the simulated GPU-sharing experiment with the published one, and `fairlead-safe` with both.

    python bench/reproduce.py [--seeds N] [--first SEED] [--unseen N] [--held-solo]

Part one prints every published figure (six levels, three schedulers) beside the median and the band of
nine tenths over arrival seeds. A figure agrees where the median is within 15 %, or the published run lies in
the band; restarts where their mean is within a factor of 2. Constants of sharing were fitted at 0 % only.
The makespan and the mean memory of stock Kubernetes agree by construction: the solo times are theirs.
`--held-solo` takes the solo times of 0 % at every level instead.

Part two plays `fairlead-safe` on seeds from 1000 on, which no constant was chosen by: restarts, pending and
worst job at every level beside CBP+PP, and the factors against stock and Alibaba.
"""

import argparse
import os
import platform
import time
from statistics import mean

from fairlead.reproduce.compare import CLAIMS, compared, gains, worse_than_published_policy
from fairlead.reproduce.gpu_sharing import Experiment, play_level
from fairlead.reproduce.published import CBP_PP, LEVELS, SAFE, SCHEDULERS, SEED

UNSEEN = 1000
Figures = dict[str, dict[str, float]]


def played(
    level: int, seed: int, schedulers: tuple[str, ...] = SCHEDULERS, solo: float | None = None
) -> Figures:
    """Return the figures of each scheduler; `solo`: the level whose solo run gives the times."""
    experiment = Experiment(arrival_seed=seed, solo_level=solo)
    return {name: play_level(experiment, level, name) for name in schedulers}


def published(first: int, seeds: int, solo: float | None) -> None:
    """Print the comparison with the published runs."""
    rows = []
    print(f"{'level':>6} {'scheduler':10} {'figure':20} {'published':>9} {'simulated':>9} {'band':>17}  ok")
    for level in LEVELS:
        runs = [played(level, first + at, SCHEDULERS[:3], solo) for at in range(seeds)]
        for row in compared(level, runs):
            rows.append(row)
            span = f"{row.low:.1f} - {row.high:.1f}"
            mark = "yes" if row.ok else "in band" if row.in_band else "NO"
            print(
                f"{level:5} % {row.scheduler:10} {row.figure:20} {row.published:9g} {row.simulated:9.1f} "
                f"{span:>17}  {mark}"
            )
    counted = [row for row in rows if row.figure != "restarts"]
    good = sum(row.ok for row in counted)
    restarts = [row for row in rows if row.figure == "restarts" and row.scheduler == CBP_PP]
    print(f"{good} of {len(counted)} figures agree; restarts of {CBP_PP} at {sum(r.ok for r in restarts)} of "
          f"{len(restarts)} levels, {sum(r.simulated for r in restarts):.0f} in all where "
          f"{sum(r.published for r in restarts):.0f} were published")  # fmt: skip


def unseen(seeds: int) -> None:
    """Print `fairlead-safe` on seeds that no constant was chosen by."""
    levels, restarts, worse = [], 0, 0
    for level in LEVELS:
        runs = [played(level, UNSEEN + at) for at in range(seeds)]
        restarts += sum(int(run[SAFE]["restarts"]) for run in runs)
        worse += sum(bool(worse_than_published_policy(run)) for run in runs)
        means = {
            name: {key: mean(run[name][key] for run in runs) for key in runs[0][name]} for name in runs[0]
        }
        levels.append(means)
        ours, theirs = means[SAFE], means[CBP_PP]
        print(f"{level:5} %: pending {ours['mean_pending_s']:.1f} s "
              f"({CBP_PP}: {theirs['mean_pending_s']:.1f}), "
              f"worst job {ours['worst_job_s']:.0f} s ({theirs['worst_job_s']:.0f}), "
              f"restarts {ours['restarts']:g} ({theirs['restarts']:.1f})")  # fmt: skip
    print(
        f"{restarts} restarts in {len(LEVELS) * seeds} runs; {worse} runs with a longer pending or worst job"
    )
    for figure, factors in gains(levels).items():
        stock, alibaba, _ = CLAIMS[figure]
        print(f"{figure}: {factors[0]:.1f}x (bar {stock}x) against stock, {factors[1]:.1f}x ({alibaba}x) "
              f"against Alibaba")  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=SEED, help="the first seed of part one")
    parser.add_argument("--unseen", type=int, default=20, help="seeds of part two")
    parser.add_argument("--held-solo", action="store_true", help="the solo times of 0 %% at every level")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    began = time.perf_counter()
    published(options.first, options.seeds, 0.0 if options.held_solo else None)
    unseen(options.unseen)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
