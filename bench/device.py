"""The agent of a device: memory and CPU while it is idle and while it uploads, against the bar of 40 MiB.

    python -m bench.device [--idle SECONDS] [--size MB]

A store over TLS and the agent run as programs of their own, as on two machines; curl uploads the same file
beside the agent, as the peer. Memory is the agent's own, from /proc: its peak and what it holds at the end.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR_MIB = 40
FAIRLEAD = [sys.executable, "-m", "fairlead"]


def main() -> int:
    """Measure, print, and return 1 if the agent takes more than the bar."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without an upload")
    parser.add_argument("--size", type=int, default=200, help="megabytes of the upload")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "FAIRLEAD_STATE": f"{folder}/jobs"}
        run("augment", "create", "bench", "--local", "--device", "board", "--size", f"{options.size * 4}M")
        try:
            return measure(Path(folder), options.idle, options.size)
        finally:
            run("augment", "delete", "bench", "--local", "--delete-data")


def measure(folder: Path, idle: float, size: int) -> int:
    """Measure an agent whose device has joined."""
    invite = json.loads(run("augment", "invite", "bench", "--local", "-o", "json"))
    pin = ("--token", invite["token"], "--fingerprint", invite["fingerprint"])
    run("device", "join", invite["url"], *pin)
    big = folder / "big"
    with big.open("wb") as file:
        for _ in range(size):
            file.write(os.urandom(1_000_000))
    agent = subprocess.Popen([*FAIRLEAD, "device", "sync", "--follow"], stdout=subprocess.PIPE, text=True)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        time.sleep(3)  # its first report
        before = cpu_seconds(agent.pid)
        time.sleep(idle)
        used = cpu_seconds(agent.pid) - before
        resident = memory(agent.pid, "VmRSS")
        print(f"idle for {idle:.0f} s: {resident:.1f} MiB, {100 * used / idle:.2f} % of a core")
        before = cpu_seconds(agent.pid)
        start = time.monotonic()
        run("device", "put", str(big))
        queued = time.monotonic() - start
        agent.stdout.readline()
        taken = time.monotonic() - start
        print(
            f"{size} MB: queued in {queued:.2f} s, sent after {taken:.2f} s ({size / taken:.0f} MB/s), "
            f"{cpu_seconds(agent.pid) - before:.2f} s of CPU"
        )
        peak = memory(agent.pid, "VmHWM")
    finally:
        agent.terminate()
        agent.wait()
    show_peer(folder, big, invite["url"], size)
    print(f"peak {peak:.1f} MiB, bar {BAR_MIB} MiB: {'met' if peak <= BAR_MIB else 'MISSED'}")
    machine = f"{os.cpu_count()} cores, {os.uname().machine}, Python {sys.version.split()[0]}"
    print(f"{machine}; python -m bench.device --idle {idle:.0f} --size {size}")
    return int(peak > BAR_MIB)


def show_peer(folder: Path, big: Path, url: str, size: int) -> None:
    """Upload the same file with curl, which queues nothing."""
    if shutil.which("curl") is None:
        return
    sessions = folder / "state/fairlead/sessions/bench"
    token = (sessions / "token").read_text().split()[0]
    start = time.monotonic()
    subprocess.run(
        ["curl", "-sfk", "-T", str(big), "-H", f"Authorization: Bearer {token}", f"{url}peer"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    taken = time.monotonic() - start
    print(f"curl -T of the same file, without a queue: {taken:.2f} s ({size / taken:.0f} MB/s)")


def run(*words: str) -> str:
    """Run fairlead, and return its output."""
    return subprocess.run([*FAIRLEAD, *words], check=True, capture_output=True, text=True).stdout


def memory(pid: int, name: str) -> float:
    """Return the resident memory of a process, now (VmRSS) or at most (VmHWM), in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
