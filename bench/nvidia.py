"""Check discovery and telemetry on a machine with a real NVIDIA GPU.

Names every GPU with NVML, without NVML and from a replayed capture; then compares the agent's metrics with
`nvidia-smi`, idle and, where PyTorch is there, under load. Exits 1 when anything disagrees, 2 where
there is no GPU to compare with.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
LOAD = """
import torch, time
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + {seconds}
while time.time() < end:
    for _ in range(20): b = a @ a
    torch.cuda.synchronize()
"""


def fairlead(*words: str) -> str:
    """Run the program and return what it prints."""
    return subprocess.run([*FAIRLEAD, *words], check=True, capture_output=True, text=True).stdout


def gpus(*words: str) -> list[tuple[str, str, str]]:
    """Return model, name and state of every NVIDIA GPU that a look finds."""
    document = json.loads(fairlead("detect", "-o", "json", *words))
    return [
        (acc["model"], acc["name"], acc["state"])
        for acc in document["accelerators"]
        if acc["vendor"] == "NVIDIA" and acc["kind"] == "gpu"
    ]


def metrics() -> dict[str, float]:
    """Return the agent's DCGM-compatible values of the first GPU."""
    values: dict[str, float] = {}
    for line in fairlead("serve", "agent", "--once").splitlines():
        if line.startswith("DCGM_"):
            values.setdefault(line.partition("{")[0], float(line.rpartition(" ")[2]))
    return values


def smi() -> dict[str, float]:
    """Return what nvidia-smi says of the first GPU."""
    query = [f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    line = subprocess.run(
        ["nvidia-smi", *query], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]
    return {field: float(text) for field, text in zip(FIELDS, line.split(", "), strict=True)}


def missing() -> str:
    """Say what keeps nvidia-smi from answering; empty where it answers."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True, text=True)
    except OSError as error:
        return f"nvidia-smi cannot be run: {error.strerror}"
    said = " ".join((done.stdout or done.stderr).split())
    if done.returncode:
        return f"nvidia-smi fails: {said or f'exit code {done.returncode}'}"
    return "" if said else "nvidia-smi lists no GPU"


@contextmanager
def load(seconds: int) -> Iterator[None]:
    """Keep the GPU busy for a while."""
    with subprocess.Popen([sys.executable, "-c", LOAD.format(seconds=seconds)]) as worker:
        time.sleep(min(15, seconds / 2))
        yield
        worker.terminate()


def compare(title: str) -> int:
    """Print both sides and return the number of disagreements."""
    before, ours, after = smi(), metrics(), smi()
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


def main() -> int:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long to load the GPU")
    options = parser.parse_args()
    if lacking := missing():
        print(f"{lacking}: run this on a machine with an NVIDIA GPU and its driver", file=sys.stderr)
        return 2
    with_nvml, without = gpus(), gpus("--no-nvml")
    with tempfile.TemporaryDirectory() as room:
        tarball = os.path.join(room, "host.tar.gz")
        fairlead("capture", tarball)
        replayed = gpus("--root", tarball)
    print(f"with NVML     {with_nvml}\nwithout NVML  {without}\nreplayed      {replayed}")
    models = [model for model, _, _ in with_nvml]
    same = models == [model for model, _, _ in without] and with_nvml == replayed
    wrong = int(not models or None in models or not same)
    wrong += compare("idle")
    if importlib.util.find_spec("torch"):
        with load(options.seconds):
            wrong += compare("under load")
    print("agrees" if not wrong else f"{wrong} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
