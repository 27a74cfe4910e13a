"""Time from the start of `fairlead run` to the exec of its command, beside the bare command.

    python bench/run_overhead.py [--runs 20]

The command writes the monotonic clock as its first act, so that only what happens before its exec counts.
The runs alternate: another program on the machine slows all alike, and CPU time excludes it. Bare Python
shows how much of the time is the start of the interpreter. Exits 1 if the bar of 150 ms above the bare
command is missed.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

BAR = 0.150
PROBE = """
import os, time
print(time.monotonic(), open(f"/proc/{os.getppid()}/schedstat").read().split()[0])
"""
CLOCK = (sys.executable, "-S", "-E", "-c", PROBE)


def seconds_to_exec(before: Sequence[str], environ: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until a command with these words before it runs, and its parent's CPU seconds."""
    began = time.monotonic()
    result = subprocess.run([*before, *CLOCK], env=environ, capture_output=True, text=True, check=True)
    clock, cpu = result.stdout.split()[-2:]
    return float(clock) - began, int(cpu) / 1e9


def seconds_to_end(command: Sequence[str], environ: dict[str, str]) -> float:
    """Return the seconds that a command takes."""
    began = time.monotonic()
    subprocess.run(command, env=environ, capture_output=True, check=True)
    return time.monotonic() - began


def main() -> int:
    """Measure, print the table, and return 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    folder = tempfile.mkdtemp(prefix="fairlead-overhead-")
    environ = {**os.environ, "FAIRLEAD_STATE": os.path.join(folder, "state"), "HOME": folder}
    fairlead = [sys.executable, "-m", "fairlead", "run", "--quiet", "--"]
    names = ("bare command", "fairlead run", "its CPU time", "python -c pass")
    times: dict[str, list[float]] = {name: [] for name in names}
    try:
        seconds_to_exec(fairlead, environ)  # the first run scans the machine and compiles
        for _ in range(runs):
            times["bare command"].append(seconds_to_exec((), environ)[0])
            wall, cpu = seconds_to_exec(fairlead, environ)
            times["fairlead run"].append(wall)
            times["its CPU time"].append(cpu)
            times["python -c pass"].append(seconds_to_end((sys.executable, "-c", "pass"), environ))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    python = platform.python_version()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {python}, {runs} runs each\n")
    for name, seconds in times.items():
        low, high = min(seconds) * 1e3, max(seconds) * 1e3
        print(f"{name:16} median {median(seconds) * 1e3:6.1f} ms   least {low:6.1f}   most {high:6.1f}")
    above = median(times["fairlead run"]) - median(times["bare command"])
    bar = f"the bar is {BAR * 1e3:.0f} ms"
    print(f"\nfairlead run reaches exec {above * 1e3:.1f} ms after the bare command; {bar}")
    return 0 if above < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
