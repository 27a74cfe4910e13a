"""Measure what sharing by measured use costs the scheduler at each refresh, beside reading the figures.

The cache of a scheduler holds 5,000 nodes with a GPU each, and on each a pod of one of 50 images, all of them
measured. A refresh learns from the new samples, derives the needs of pods, and counts those pods otherwise
that have other needs. To read, decode and keep the same figures is `bench/telemetry.py`.
Exit code 1: a bar is missed.
"""

import gc
import platform
import random
import sys
import time
from dataclasses import replace
from typing import Any, Final

import msgspec

from bench.telemetry import CORE_BAR, MEMORY_BAR, PERIOD, START, report, resident, verdict
from fairlead import keys
from fairlead.cache.cache import SchedulerCache
from fairlead.catalog.load import load
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.need import DEFAULT_BOUND
from fairlead.serve.scheduler.use.needs import NeedRules, NeedTracker
from fairlead.units import Bytes
from fairlead.use import DeviceKey, PodDeviceKey, UseReport, UseSample
from tests.serve.scheduler.objects import claim, device_slice, node, pod

DEVICES, IMAGES, REFRESHES, READS = 5_000, 50, 60, 40
GIB: Final = 1 << 30


def full_cache() -> SchedulerCache:
    """Return the cache of a cluster with a bound pod on every GPU."""
    cache = SchedulerCache(load())
    for number in range(DEVICES):
        name = f"node-{number:05}"
        image = {"name": "main", "image": f"registry.example.org/app-{number % IMAGES}:1"}
        bound = pod(f"pod-{number:05}", on=name, mib=3072, phase="Running", containers=[image])
        owner = claim(f"claim-{number:05}", bound, on=name, mib=3072)
        for each in (with_agent(node(name)), device_slice(name, devices=1, gib=4), bound, owner):
            cache.on_event(ObjectChange(None, each))
    cache.sync()
    return cache


def with_agent(machine: Any) -> Any:
    """Return a node with an agent that prepares claims by measured use."""
    document = msgspec.to_builtins(machine)
    document["metadata"]["annotations"] = {keys.BY_USE: "1"}
    return msgspec.convert(document, type(machine))


def report_at(now: float, chance: random.Random) -> UseReport:
    """Return the figures of one refresh: pods hold 1 to 1.4 GiB."""
    devices, pods = {}, {}
    for number in range(DEVICES):
        key = DeviceKey(f"node-{number:05}", "gpu-0")
        sample = UseSample(now - 1, Bytes(GIB + chance.randrange(GIB * 2 // 5)), 0.37)
        devices[key] = sample
        pods[PodDeviceKey(f"uid-pod-{number:05}", *key)] = sample
    return UseReport(now, "prometheus", devices, pods)


def main() -> int:
    """Run the benchmark."""
    print(
        f"{platform.machine()}, Python {platform.python_version()}; {DEVICES} GPUs, {DEVICES} measured pods"
    )
    cache, chance = full_cache(), random.Random(1)
    rules = replace(NeedRules(), every_pod=True, bound=DEFAULT_BOUND, period=PERIOD)
    tracker = NeedTracker(cache, rules)
    cache.needs.shrinks = True
    gc.collect()
    before, total, worst = resident(), 0.0, 0.0
    for step in range(REFRESHES):
        now = float(START + PERIOD * step)
        figures = report_at(now, chance)
        tracker.history.on_report(figures)  # counted in bench/telemetry.py
        began = time.process_time()
        tracker.refresh(now, learn=True)
        cache.sync()
        spent = time.process_time() - began
        total, worst = total + spent, max(worst, spent)
    cpu, memory = total / REFRESHES, resident() - before
    reading = report(DEVICES, READS)["cpu"]
    share = (cpu + reading) / PERIOD
    print(f"a refresh: {cpu * 1e3:.0f} ms of CPU on average, {worst * 1e3:.0f} ms at most")
    print(f"with reading ({reading * 1e3:.0f} ms): {share:.1%} of a core; {verdict(share, CORE_BAR)}")
    print(f"memory beside the cache: {memory / 1e6:.0f} MB; {verdict(memory, MEMORY_BAR)}")
    print({source: count for source, count in tracker.needs_by_source().items() if count})
    return 0 if share <= CORE_BAR and memory <= MEMORY_BAR else 1


if __name__ == "__main__":
    sys.exit(main())
