"""Pack synthetic clusters of every kind: `make bench-pack`. The mean and the worst seed beside peers.

    python -m bench.pack [--seeds N] [--first S] [--kinds K,K] [--policies P,P] [--processes N] [--short]

Each kind of cluster (`fairlead simulate --generate KIND`) is drawn with the same seeds for every policy. All
policies expect the mix that the trace has; `blind` is `fairlead` without it: it learns from what arrives.
The figure is the allocation of accelerators when 130 % of them were requested; where jobs end, its mean over
time. The bars: never more than 0.3 points behind the best of fgd, bestfit and spread on the mean of a kind,
and never more than 1 point behind the best of them on one seed. Exits 1 if a bar is missed.
"""

import argparse
import os
import platform
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from fairlead.schedule import POLICIES, typical_demand
from fairlead.simulate.play.packing import PackResult, pack
from fairlead.simulate.trace.synthetic import KINDS, synthetic_trace

PEERS: Final = ("fgd", "bestfit", "spread")
BLIND: Final = "blind"
SEEDS: Final = 200
FIRST: Final = 1000
"""The seeds of the figures; those below are for development."""
SHORT: Final = 20
ON_MEAN: Final = 0.3
"""The most points behind the best peer on the mean of a kind."""
ON_SEED: Final = 1.0
"""The most points behind the best peer on one seed."""

Row = dict[str, PackResult]


@dataclass(frozen=True)
class Gaps:
    """Points by which a policy is behind the best peer; less than 0: ahead."""

    mean: float
    worst: float
    seed: int
    """Of the worst."""
    beyond: int
    """Seeds on which it is further behind than the bar."""

    @property
    def missed(self) -> bool:
        """Whether a bar is missed."""
        return self.mean > ON_MEAN or self.worst > ON_SEED


def main() -> int:
    """Print a row for each kind and policy; return 1 if a bar is missed."""
    options = _parser().parse_args()
    seeds = range(options.first, options.first + (SHORT if options.short else options.seeds))
    policies = tuple(options.policies.split(","))
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(seeds)} seeds")
    print(
        f"{'kind':<14}{'policy':<10}{'mean':>7}{'lowest':>8}{'ms':>7}{'behind':>8}{'worst':>7}  seed  beyond"
    )
    missed = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for kind in options.kinds.split(","):
            tasks = [(kind, seed, (*PEERS, *policies)) for seed in seeds]
            rows = list(pool.map(run, tasks))
            for policy in (*PEERS, *policies):
                missed += show(kind, policy, rows, seeds[0])
    print("every bar is reached" if not missed else f"{missed} bars are missed")
    return 1 if missed else 0


def run(task: tuple[str, int, tuple[str, ...]]) -> Row:
    """Return the result of every policy on one trace."""
    kind, seed, policies = task
    trace = synthetic_trace(kind, seed)
    mix = typical_demand(request for job in trace.jobs for request in job.requests)
    return {
        name: pack(trace, POLICIES["fairlead"]) if name == BLIND else pack(trace, POLICIES[name], mix)
        for name in dict.fromkeys(policies)
    }


def gaps(rows: list[Row], policy: str, first: int) -> Gaps:
    """Return how far a policy is behind the best peer, on the mean and on the worst seed."""
    best = max(_mean(rows, peer) for peer in PEERS)
    behind = [100 * (max(row[peer].allocation for peer in PEERS) - row[policy].allocation) for row in rows]
    worst = max(behind)
    beyond = sum(each > ON_SEED for each in behind)
    return Gaps(best - _mean(rows, policy), worst, first + behind.index(worst), beyond)


def show(kind: str, policy: str, rows: list[Row], first: int) -> bool:
    """Print one row, and return whether it misses its bars; peers have none."""
    lowest = 100 * min(row[policy].allocation for row in rows)
    ms = 1000 * statistics.fmean(row[policy].seconds for row in rows)
    text = f"{kind:<14}{policy:<10}{_mean(rows, policy):>7.2f}{lowest:>8.2f}{ms:>7.0f}"
    gap = gaps(rows, policy, first)
    text += f"{gap.mean:>8.2f}{gap.worst:>7.2f}{gap.seed:>6}{gap.beyond:>8}"
    missed = policy not in PEERS and gap.missed
    print(text + ("  MISSED" if missed else ""), flush=True)
    return missed


def _mean(rows: list[Row], policy: str) -> float:
    return 100 * statistics.fmean(row[policy].allocation for row in rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default: {SEEDS})")
    parser.add_argument("--first", type=int, default=FIRST, help=f"the first of them (default: {FIRST})")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of cluster (default: all)")
    parser.add_argument("--policies", default=f"fairlead,{BLIND}", help="beside the peers")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--short", action="store_true", help=f"{SHORT} seeds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
