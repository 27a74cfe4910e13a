"""Check discovery and telemetry on a machine with a real NVIDIA GPU.

Names every GPU with NVML, without NVML and from a replayed capture; then compares the agent's metrics with
`nvidia-smi`, idle and, if PyTorch is installed, under load: live values, ECC counters, clock event reasons
and the state of every NVLink, by DCGM's old and new names; a value that nvidia-smi shows as N/A must be
absent. Exits 1 if a value disagrees, 2 if there is no GPU to compare with.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead import dcgm

FAIRLEAD = (sys.executable, "-c", "from fairlead.cli.main import run; run()")
FIELDS = {  # nvidia-smi's field: the metric, how much they may differ by being read at different moments
    "memory.total": ("DCGM_FI_DEV_FB_TOTAL", 1.0),
    "memory.used": ("DCGM_FI_DEV_FB_USED", 8.0),
    "memory.free": ("DCGM_FI_DEV_FB_FREE", 8.0),
    "utilization.gpu": ("DCGM_FI_DEV_GPU_UTIL", 10.0),
    "power.draw": ("DCGM_FI_DEV_POWER_USAGE", 60.0),
    "temperature.gpu": ("DCGM_FI_DEV_GPU_TEMP", 3.0),
    "clocks.sm": ("DCGM_FI_DEV_SM_CLOCK", 150.0),
    "clocks.mem": ("DCGM_FI_DEV_MEM_CLOCK", 1.0),
}
ERRORS = {  # nvidia-smi's field: the metric; both are counters, and N/A where the GPU has none
    "ecc.errors.corrected.volatile.total": "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "ecc.errors.uncorrected.volatile.total": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "ecc.errors.corrected.aggregate.total": "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    "ecc.errors.uncorrected.aggregate.total": "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
}
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The newer name first: a driver before 535 knows the older one only."""
LINK = re.compile(r"^\s+Link (\d+): (.*)$")
LOAD = """
import torch, time
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + {seconds}
while time.time() < end:
    for _ in range(20): b = a @ a
    torch.cuda.synchronize()
"""


def fairlead(*words: str) -> str:
    """Run fairlead and return its output."""
    return subprocess.run([*FAIRLEAD, *words], check=True, capture_output=True, text=True).stdout


def gpus(*words: str) -> list[tuple[str, str, str]]:
    """Return model, name and state of every detected NVIDIA GPU."""
    document = json.loads(fairlead("detect", "-o", "json", *words))
    return [
        (acc["model"], acc["name"], acc["state"])
        for acc in document["accelerators"]
        if acc["vendor"] == "NVIDIA" and acc["kind"] == "gpu"
    ]


def page() -> list[str]:
    """Return the agent's metrics."""
    return [line for line in fairlead("serve", "agent", "--once").splitlines() if line[:1] != "#"]


def metrics(lines: list[str]) -> dict[str, float]:
    """Return the DCGM-compatible values of the first GPU."""
    values: dict[str, float] = {}
    for line in lines:
        if line.startswith("DCGM_"):
            values.setdefault(line.partition("{")[0], float(line.rpartition(" ")[2]))
    return values


def smi() -> dict[str, float]:
    """Return the values of nvidia-smi for the first GPU."""
    query = [f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    line = subprocess.run(
        ["nvidia-smi", *query], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]
    return {field: float(text) for field, text in zip(FIELDS, line.split(", "), strict=True)}


def missing() -> str:
    """Return why nvidia-smi does not answer; empty if it does."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True, text=True)
    except OSError as error:
        return f"nvidia-smi cannot be run: {error.strerror}"
    output = " ".join((done.stdout or done.stderr).split())
    if done.returncode:
        return f"nvidia-smi fails: {output or f'exit code {done.returncode}'}"
    return "" if output else "nvidia-smi lists no GPU"


@contextmanager
def load(seconds: int) -> Iterator[None]:
    """Keep the GPU busy for a while."""
    with subprocess.Popen([sys.executable, "-c", LOAD.format(seconds=seconds)]) as worker:
        time.sleep(min(15, seconds / 2))
        yield
        worker.terminate()


def compare(title: str) -> int:
    """Print both sides and return the number of disagreements."""
    before, ours, after = smi(), metrics(page()), smi()
    wrong = 0
    print(f"{title:24} {'nvidia-smi':>22} {'fairlead':>12}")
    for field, (metric, slack) in FIELDS.items():
        low, high = sorted((before[field], after[field]))
        value = ours.get(metric)
        good = value is not None and low - slack <= value <= high + slack
        wrong += not good
        shown = "absent" if value is None else f"{value:.1f}"
        print(f"  {field:22} {low:10.1f}-{high:10.1f} {shown:>13} {'' if good else '  DISAGREES'}")
    return wrong


def query(field: str) -> str | None:
    """Return one field of nvidia-smi for the first GPU; None if it does not know the field."""
    words = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", "0"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def same_units(ours: dict[str, float]) -> int:
    """Return how many values differ between DCGM's old and new names."""
    wrong = 0
    for field in dcgm.FIELDS.values():
        old, new = ours.get(field.old), ours.get(field.new)
        if (old is None) != (new is None) or (
            old is not None and new is not None and abs(old - new * field.scale) > 1e-3 * abs(old) + 1e-6
        ):
            wrong += report(field.old, str(old), f"{field.new} {new}", good=False)
    print(f"  {'old and new names':44} {sum(field.new in ours for field in dcgm.FIELDS.values())} compared")
    return wrong


def report(name: str, theirs: str, ours: str, *, good: bool) -> int:
    """Print both sides of one value and return 1 if they disagree."""
    print(f"  {name:44} {theirs:>20} {ours:>14} {'' if good else '  DISAGREES'}")
    return int(not good)


def errors(ours: dict[str, float]) -> int:
    """Compare the counters of memory errors."""
    wrong = 0
    for field, metric in ERRORS.items():
        theirs, value = query(field), ours.get(metric)
        known = theirs is not None and theirs.isdecimal()
        good = value is None if not known else value == float(theirs or 0)
        wrong += report(
            field, theirs or "unknown field", "absent" if value is None else f"{value:.0f}", good=good
        )
    return wrong


def reasons(before: str | None, ours: dict[str, float], after: str | None) -> int:
    """Compare the mask of reasons for low clocks; a reason may change between the two reads."""
    masks = [int(text, 16) for text in (before, after) if text and text.startswith("0x")]
    value = ours.get("DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
    either, both = (masks[0] | masks[-1], masks[0] & masks[-1]) if masks else (0, 0)
    good = (value is None) == (not masks) and (
        value is None or (int(value) & ~either == 0 and int(value) & both == both)
    )
    mask = "absent" if value is None else f"{int(value):#x}"
    return report("clocks event reasons", f"{before} {after}", mask, good=good)


def links(lines: list[str]) -> int:
    """Compare the state of every NVLink of the first GPU."""
    done = subprocess.run(
        ["nvidia-smi", "nvlink", "-s", "-i", "0"], check=False, capture_output=True, text=True
    )
    matches = [match for line in done.stdout.splitlines() if (match := LINK.match(line))]
    theirs = {int(match[1]): "inactive" not in match[2] for match in matches}
    ours: dict[int, bool] = {}
    for line in lines:
        number = re.search(r'link="(\d+)"', line)
        if line.startswith("fairlead_accelerator_nvlink_up{") and number:
            ours.setdefault(int(number[1]), line.endswith(" 1.0"))
    up = f"{sum(theirs.values())} of {len(theirs)} up"
    return report("NVLink", up, f"{sum(ours.values())} of {len(ours)} up", good=theirs == ours)


def compare_health() -> int:
    """Compare errors, reasons, NVLink and the presence of XIDs; return the number of disagreements."""
    print(f"{'health':46} {'nvidia-smi':>20} {'fairlead':>14}")
    field = next((name for name in REASONS if query(name) is not None), REASONS[0])
    before, lines, after = query(field), page(), query(field)
    ours = metrics(lines)
    wrong = errors(ours) + reasons(before, ours, after) + links(lines) + same_units(ours)
    xid = ours.get("DCGM_FI_DEV_XID_ERRORS")
    return wrong + report(
        "XID (nvidia-smi shows none)", "-", "absent" if xid is None else f"{xid:.0f}", good=True
    )


def main() -> int:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long to load the GPU")
    options = parser.parse_args()
    if problem := missing():
        print(f"{problem}: run this on a machine with an NVIDIA GPU and its driver", file=sys.stderr)
        return 2
    with_nvml, without = gpus(), gpus("--no-nvml")
    with tempfile.TemporaryDirectory() as folder:
        tarball = os.path.join(folder, "host.tar.gz")
        fairlead("capture", tarball)
        replayed = gpus("--root", tarball)
    print(f"with NVML     {with_nvml}\nwithout NVML  {without}\nreplayed      {replayed}")
    models = [model for model, _, _ in with_nvml]
    same = models == [model for model, _, _ in without] and with_nvml == replayed
    wrong = int(not models or None in models or not same)
    wrong += compare("idle")
    wrong += compare_health()
    if importlib.util.find_spec("torch"):
        with load(options.seconds):
            wrong += compare("under load")
    print("agrees" if not wrong else f"{wrong} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
