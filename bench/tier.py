"""Replay a trace through every tiering policy beside libcachesim, and say what the choice is worth later.

    python -m bench.tier --trace FILE --peers ENVIRONMENT [--short]

- *Hits* of LRU, S3-FIFO, 2Q and ARC, and those of libcachesim with the same bytes, at several capacities.
- *The choice*: its net time beside plain LRU, no tiering, and the best of all policies.
- *Out of sample*: the policy is chosen on the first half of the trace, and judged on the second, which goes
  on with what the first has left on the fast volume.
- *Speed*: seconds for a million accesses through all six policies, and the ratio to libcachesim's four.

It exits 1 if a hit ratio differs by more than 0.5 points, or a choice is behind LRU or no tiering.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from fairlead.access import Access
from fairlead.tiering.choice import choose, frontier
from fairlead.tiering.policies import POLICIES
from fairlead.tiering.replay import TierReplay, TierResult, replay_all
from fairlead.tiering.speeds import TierSpeeds
from fairlead.tiering.trace import open_trace
from fairlead.units import Bytes, format_bytes

PEERS: Final = {"lru": "LRU", "s3-fifo": "S3FIFO", "2q": "TwoQ", "arc": "ARC"}
MOST_POINTS: Final = 0.5
PARTS: Final = (0.01, 0.05, 0.1, 0.2, 0.5)
Peer = Callable[[str, Bytes], float]


def machine() -> str:
    """Return what the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
    return f"{model}, {os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"


def peer_of(folder: str, trace: Sequence[Access]) -> Peer:
    """Return libcachesim's hits of a policy on a trace."""
    sys.path.append(folder)
    import libcachesim as peer  # type: ignore[import-not-found]  # noqa: PLC0415  # of its own environment

    numbers: dict[str, int] = {}
    rows = [(numbers.setdefault(each.key, len(numbers) + 1), each.bytes) for each in trace]

    def hits(name: str, capacity: Bytes) -> float:
        cache: Any = getattr(peer, PEERS[name])(capacity)
        request, count = peer.Request(), 0
        for number, size in rows:
            request.obj_id, request.obj_size = number, size
            count += cache.get(request)
        return count / len(rows)

    return hits


def half_by_half(trace: Sequence[Access], capacity: Bytes, *, resizes: bool) -> tuple[str, dict[str, float]]:
    """Return the policy chosen on the first half, and the net time of every policy in the second."""
    middle, speeds = len(trace) // 2, TierSpeeds()
    first: dict[str, TierResult] = {}
    nets: dict[str, float] = {}
    for name, policy_of in POLICIES.items():
        policy = policy_of(capacity)
        policy.resizes = resizes
        replay = TierReplay(policy, speeds)
        replay.play(trace[:middle])
        first[name] = replay.result()
        replay.play(trace[middle:])
        nets[name] = replay.result().net_s - first[name].net_s
    return choose(first).name, nets


def compare(trace: Sequence[Access], hits: Peer, capacity: Bytes, *, resizes: bool) -> list[str]:
    """Print the results at one capacity; return what is not as it must be."""
    faults = []
    results = replay_all([trace], capacity, TierSpeeds(), resizes=resizes)
    print(f"\n{format_bytes(capacity)} on the fast volume\n")
    print("| policy | hits | libcachesim | byte hits | moves | net time | on the frontier |")
    print("|---|---|---|---|---|---|---|")
    kept = frontier(results)
    for name, result in results.items():
        theirs = hits(name, capacity) if name in PEERS else None
        shown = "-" if theirs is None else f"{100 * theirs:.2f} %"
        if theirs is not None and abs(theirs - result.hit_ratio) * 100 > MOST_POINTS:
            faults.append(f"{name} at {capacity}: {100 * (result.hit_ratio - theirs):+.2f} points")
        print(
            f"| {name} | {100 * result.hit_ratio:.2f} % | {shown} | {100 * result.byte_hit_ratio:.2f} % "
            f"| {result.moves:,} | {result.net_s:,.1f} s | {'yes' if name in kept else ''} |"
        )
    choice = choose(results)
    net = results[choice.name].net_s
    print(f"\nchosen: {choice.name}: {choice.why}")
    if net < max(results["lru"].net_s, 0.0):
        faults.append(f"the choice at {capacity} is behind lru or none")
    chosen, nets = half_by_half(trace, capacity, resizes=resizes)
    best = max(nets, key=lambda name: nets[name])
    print(
        f"out of sample: {chosen}, chosen on the first half, saves {nets[chosen]:,.1f} s in the second; "
        f"lru {nets['lru']:,.1f} s, the best there ({best}) {nets[best]:,.1f} s"
    )
    return faults


def time_all(trace: Sequence[Access], hits: Peer, capacity: Bytes) -> None:
    """Print the seconds for a million accesses."""
    started = time.process_time()
    replay_all([trace], capacity, TierSpeeds())
    ours = (time.process_time() - started) / len(trace) * 1e6
    started = time.process_time()
    for name in PEERS:
        hits(name, capacity)
    theirs = (time.process_time() - started) / len(trace) * 1e6
    print(
        f"\na million accesses: {ours:.1f} s through {len(POLICIES)} policies; libcachesim from Python "
        f"{theirs:.1f} s through {len(PEERS)}; ratio {ours / theirs:.2f}"
    )


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    with open_trace(options.trace) as reader:
        trace = [access for chunk in reader.chunks() for access in chunk]
        resizes = not reader.is_blocks
    footprint = sum({access.key: access.bytes for access in trace}.values())
    hits = peer_of(options.peers, trace)
    print(f"{machine()}\n{len(trace):,} accesses, {format_bytes(footprint)} in all")
    faults = []
    for part in (0.1,) if options.short else PARTS:
        faults += compare(trace, hits, Bytes(int(footprint * part)), resizes=resizes)
    time_all(trace, hits, Bytes(footprint // 10))
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print(f"\nrepeat: {sys.executable} -m bench.tier --trace {options.trace} --peers {options.peers}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
