"""Hold the planner's cut between an edge and a server against every cut, tried by force.

Emulated: two network namespaces, a link of 20 to 1,000 Mbit/s in each direction (tbf), the edge at a quarter
of a CPU (a control group); both share the cores of this machine. For each setting `fairlead pipeline profile`
and `plan` choose a cut; then every cut runs, in interleaved rounds, and the medians count. Bar: the chosen
cut has at least 95 % of the frames/s of the best one, or the plan said what it did not know. Then the link
falls to a tenth while `fairlead pipeline run --replan` runs: the better cut must be at work within 15 s, and
every frame must arrive once and in order. Exit code 1: a bar is missed; 2: nothing can be emulated here.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import EmulationError
from fairlead.reproduce.emulation.namespaces import obstacle
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import (
    FREE,
    OUTPUT,
    StageArrangement,
    ThesisWorkload,
    all_cuts,
    cut,
    letters_of,
    pipeline_text,
)
from fairlead.reproduce.thesis.rig import TwoHosts, end_process, read_figures, two_hosts

SHARE: Final = 0.25
NEAR: Final = 0.95
MOVED_S: Final = 15.0
WORKLOADS: Final = (
    ThesisWorkload(kernels.SLOW),
    ThesisWorkload(kernels.FAST),
    ThesisWorkload(kernels.SLOW, 240, 320),
)
RATES: Final = (20, 100, 300, 1000)
"""Mbit/s."""
BEFORE, AFTER = 200, 20
"""Mbit/s of the link that falls."""
ENDLESS: Final = 1_000_000
_LEAST, _MOST = 12, 1500
_RECENT_S: Final = 3.0
REACHED: Final = 0.8
"""The part of the new cut's frames/s, tried by force, at which it counts as moved."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One link and one workload."""

    rate: int
    workload: ThesisWorkload

    @property
    def name(self) -> str:
        """The setting for people."""
        return f"{self.rate} Mbit/s, {self.workload.kernel} {self.workload.size}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the planner said."""

    chosen: str
    rates: dict[str, float]
    """Frames/s of each cut that it expects."""
    unknown: tuple[str, ...]


def plan(hosts: TwoHosts, setting: Setting) -> Plan:
    """Profile and plan a setting."""
    rig, free = hosts.rig, StageArrangement(address=hosts.address)
    file = rig.write(pipeline_text(setting.workload, free, ENDLESS), "free.yaml")
    rig.fairlead("pipeline", "profile", file, "--out", "profile.json", "--frames", "20", "--seconds", "3s")
    words = ("pipeline", "plan", file, "--profile", "profile.json", "-o", "json")
    answer, explored = json.loads(rig.fairlead(*words)), json.loads(rig.fairlead(*words, "--explore"))
    places = dict(zip(answer["stages"], answer["assignment"], strict=True))
    rates = {
        letters_of(dict(zip(answer["stages"], each["assignment"], strict=True))): 1 / each["period_s"]
        for each in explored["cuts"]
        if each["possible"]
    }
    return Plan(letters_of(places), rates, tuple(answer["unknown"]))


def force(hosts: TwoHosts, setting: Setting, planned: Plan, letters: str, seconds: float) -> float:
    """Run one cut, and return its frames/s."""
    frames = min(_MOST, max(_LEAST, round(seconds * planned.rates[letters])))
    text = pipeline_text(setting.workload, cut(letters, hosts.address), frames)
    return hosts.rig.run(text).rate


def measure(hosts: TwoHosts, setting: Setting, rounds: int, seconds: float) -> bool:
    """Plan a setting and try every cut; return whether the bar is held."""
    hosts.pair.set_rate(setting.rate * 1e6)
    planned = plan(hosts, setting)
    cuts = all_cuts()
    found: dict[str, list[float]] = {letters: [] for letters in cuts}
    for number in range(rounds):
        first = number % len(cuts)
        for letters in (*cuts[first:], *cuts[:first]):
            found[letters].append(force(hosts, setting, planned, letters, seconds))
    rates = {letters: statistics.median(each) for letters, each in found.items()}
    best = max(rates, key=lambda letters: rates[letters])
    part = rates[planned.chosen] / rates[best]
    held = part >= NEAR or bool(planned.unknown)
    print(
        f"{'held  ' if held else 'MISSED'}  {setting.name:28} chosen {planned.chosen} "
        f"{rates[planned.chosen]:7.2f}/s, best {best} {rates[best]:7.2f}/s: {part:.0%}"
    )
    each_cut = ", ".join(f"{one} {rates[one]:.2f} ({planned.rates[one]:.2f})" for one in cuts)
    print(f"        measured (planned): {each_cut}")
    for line in planned.unknown:
        print(f"        not known: {line}")
    sys.stdout.flush()
    return held


def has_replan() -> bool:
    """Return whether `run` can plan again while it runs."""
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "pipeline", "run", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    return "--replan" in done.stdout


def arrivals(folder: Path) -> list[float]:
    """Return when each frame was done, so far."""
    try:
        lines = (folder / OUTPUT).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [float(json.loads(line)["value"]["at"]) for line in lines]


def recent_rate(ends: list[float]) -> float:
    """Return the frames/s of the last three seconds."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    return sum(end > now - _RECENT_S for end in ends) / _RECENT_S


def fall(hosts: TwoHosts, seconds: float) -> bool:
    """Let the link fall to a tenth while a run goes on; return whether it moved in time without a loss."""
    workload = ThesisWorkload(kernels.SLOW)
    hosts.pair.set_rate(AFTER * 1e6)
    after = plan(hosts, Setting(AFTER, workload))
    reached = force(hosts, Setting(AFTER, workload), after, after.chosen, seconds)
    hosts.pair.set_rate(BEFORE * 1e6)
    before = plan(hosts, Setting(BEFORE, workload))
    rig = hosts.rig
    (rig.folder / OUTPUT).unlink(missing_ok=True)
    run = rig.start("pipeline", "run", "free.yaml", "--replan", "--profile", "profile.json", "-q")
    try:
        needed = watch_fall(hosts, run, reached)
        run.send_signal(signal.SIGINT)
        _, messages = run.communicate(timeout=60)
    finally:
        end_process(run)
    whole = True
    try:
        read_figures(rig.folder)
    except EmulationError as error:
        whole = False
        print(f"        {error}")
    held = run.returncode == 0 and needed is not None and needed <= MOVED_S and whole
    took = "never" if needed is None else f"after {needed:.1f} s"
    print(
        f"{'held  ' if held else 'MISSED'}  {BEFORE} to {AFTER} Mbit/s: {before.chosen} to {after.chosen}, "
        f"{REACHED:.0%} of {reached:.2f}/s {took} (at most {MOVED_S:.0f} s); "
        f"every frame once and in order: {whole}"
    )
    for line in messages.strip().splitlines()[-5:]:
        print(f"        run: {line}")
    return held


def watch_fall(hosts: TwoHosts, run: "subprocess.Popen[str]", reached: float) -> float | None:
    """Let the link fall after ten seconds; return the seconds until the rate is that of the new cut."""
    folder, until = hosts.rig.folder, time.monotonic() + 60
    while run.poll() is None and len(ends := arrivals(folder)) < 50 and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(5.0)
    print(f"        before the fall: {recent_rate(arrivals(folder)):.2f}/s")
    hosts.pair.set_rate(AFTER * 1e6)
    begin = time.monotonic()
    time.sleep(_RECENT_S)  # frames that were on their way are not those of the new cut
    while run.poll() is None and time.monotonic() < begin + 2 * MOVED_S:
        ends = arrivals(folder)
        if recent_rate(ends) >= REACHED * reached:
            return time.monotonic() - begin
        time.sleep(0.2)
    print(f"        at the end: {recent_rate(arrivals(folder)):.2f}/s")
    return None


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run, about")
    parser.add_argument("--short", action="store_true", help="four settings, one round")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--no-fall", action="store_true", help="leave out the link that falls")
    parser.add_argument("--only-fall", action="store_true", help="leave out the settings")
    options = parser.parse_args()
    why = obstacle()
    if why:
        print(f"no two hosts can be emulated here: {why}", file=sys.stderr)
        return 2
    settings = [Setting(rate, workload) for workload in WORKLOADS for rate in RATES]
    settings = settings[1::3] if options.short else [each for each in settings if options.only in each.name]
    settings = [] if options.only_fall else settings
    rounds = 1 if options.short else options.rounds
    results: list[bool] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kernel in (kernels.SLOW, kernels.FAST):
            kernels.build(kernel, folder)
        with two_hosts(folder, SHARE) as hosts:
            load = os.getloadavg()[0]
            print(f"{platform.machine()}, {os.cpu_count()} CPUs, load {load:.2f}; {rounds} rounds. Emulated:")
            print(
                f"two network namespaces, tbf, the edge at {SHARE:g} CPU: {hosts.quota and hosts.quota.label}"
            )
            print(f"cuts have a letter each for {', '.join(FREE)}: E on the edge, S on the server")
            results = [measure(hosts, each, rounds, options.seconds) for each in settings]
            if options.no_fall:
                pass
            elif has_replan():
                results.append(fall(hosts, options.seconds))
            else:
                print("skipped: the link that falls while it runs: `fairlead pipeline run` has no --replan")
    print(f"{sum(results)} of {len(results)} held")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
