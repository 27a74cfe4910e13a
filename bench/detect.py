"""Time discovery on a synthetic machine, and measure memory and CPU of the idle agent.

Prints the scan time beside a bare read of the same identity files (the least that any scanner does) and, if
pciutils is installed, beside `lspci` on the same tree; then the agent's idle memory and CPU.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import psutil

from fairlead.catalog import load
from fairlead.detect import detect
from fairlead.host import Host

PCI, USB = 200, 40
SCAN_TARGET_MS, MEMORY_TARGET_MIB, CPU_TARGET_PERCENT = 30.0, 40.0, 0.1
KINDS = (  # vendor, device, class: a rack server's bus, accelerators among much else
    ("0x8086", "0x347a", "0x060400"),
    ("0x15b3", "0x101d", "0x020000"),
    ("0x144d", "0xa80a", "0x010802"),
    ("0x8086", "0x0b25", "0x088000"),
    ("0x8086", "0x09a2", "0x088000"),
    ("0x10de", "0x20b5", "0x030200"),
    ("0x1a03", "0x2000", "0x030000"),
    ("0x8086", "0x3456", "0x110100"),
    ("0x1e60", "0x2864", "0x0b4000"),
    ("0x8086", "0x4940", "0x0b4000"),
)


def write(root: str, path: str, text: str) -> None:
    """Write one file below the root."""
    full = root + path
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="ascii") as out:
        out.write(text + "\n")


def build(root: str) -> None:
    """Create the machine as sysfs does: devices in one folder, links to them on the bus."""
    for number in range(PCI):
        vendor, device, code = KINDS[number % len(KINDS)]
        address = f"0000:{number // 32:02x}:{number % 32:02x}.0"
        home = f"/sys/devices/pci0000:00/{address}"
        facts = {"vendor": vendor, "device": device, "class": code, "revision": "0x01"}
        facts |= {"subsystem_vendor": vendor, "subsystem_device": "0x0001"}
        facts |= {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16"}
        facts |= {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16"}
        for name, value in facts.items():
            write(root, f"{home}/{name}", value)
        link(root, f"/sys/bus/pci/devices/{address}", f"../../../devices/pci0000:00/{address}")
    for number in range(USB):
        vendor, product = ("18d1", "9302") if number % 20 == 0 else ("046d", "c31c")
        port = f"{number // 8 + 1}-{number % 8 + 1}"
        home = f"/sys/devices/pci0000:00/usb{number // 8 + 1}/{port}"
        facts = {
            "idVendor": vendor,
            "idProduct": product,
            "speed": "5000",
            "busnum": "1",
            "devnum": str(number),
        }
        for name, value in facts.items():
            write(root, f"{home}/{name}", value)
        link(root, f"/sys/bus/usb/devices/{port}", f"../../../devices/pci0000:00/usb{number // 8 + 1}/{port}")
    with open("/proc/cpuinfo", encoding="utf-8") as source:
        write(root, "/proc/cpuinfo", source.read())


def link(root: str, path: str, target: str) -> None:
    """Create one symlink below the root."""
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    os.symlink(target, root + path)


def bare_read(root: str) -> None:
    """Read the identity files of each device, and nothing else."""
    for bus, names in (("pci", ("vendor", "device", "class")), ("usb", ("idVendor", "idProduct"))):
        base = f"{root}/sys/bus/{bus}/devices"
        for entry in os.listdir(base):
            for name in names:
                with open(f"{base}/{entry}/{name}", "rb") as source:
                    source.read()


def median_ms(action: Callable[[], object], rounds: int) -> float:
    """Return the median time of an action in milliseconds, after one round to warm up."""
    action()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def measure_agent(root: str, seconds: float) -> tuple[float, float]:
    """Return the idle agent's resident memory in MiB and its CPU in percent of a core."""
    command = [os.path.join(os.path.dirname(sys.executable), "fairlead"), "serve", "agent"]
    command += ["--listen", "127.0.0.1:0", "--root", root]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as agent:
        try:
            process = psutil.Process(agent.pid)
            time.sleep(5)
            before, start = sum(process.cpu_times()[:2]), time.monotonic()
            time.sleep(seconds)
            busy = sum(process.cpu_times()[:2]) - before
            return process.memory_info().rss / 2**20, busy / (time.monotonic() - start) * 100
        finally:
            agent.terminate()
            agent.wait(10)


def report(what: str, value: float, unit: str, target: float) -> None:
    """Print one figure beside its target."""
    print(f"  {what:28} {value:8.2f} {unit:4} target {target:g}: {'met' if value <= target else 'MISSED'}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="scans to take the median of")
    parser.add_argument("--seconds", type=float, default=60, help="how long to watch the idle agent")
    options = parser.parse_args()
    root = tempfile.mkdtemp(prefix="fairlead-bench-")
    try:
        build(root)
        catalog = load()
        inventory = detect(Host(root), catalog)
        print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
        print(f"{PCI} PCI and {USB} USB devices, {len(inventory.accelerators)} accelerators found")
        scan = median_ms(lambda: detect(Host(root), catalog), options.rounds)
        bare = median_ms(lambda: bare_read(root), options.rounds)
        report("scan, warm", scan, "ms", SCAN_TARGET_MS)
        print(f"  {'bare read of the same ids':28} {bare:8.2f} ms   scan / bare read = {scan / bare:.2f}")
        if lspci := shutil.which("lspci"):
            command = [lspci, "-n", "-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci"]
            peer = median_ms(lambda: subprocess.run(command, capture_output=True, check=False), 10)
            print(f"  {'lspci -n on the same tree':28} {peer:8.2f} ms   scan / lspci = {scan / peer:.2f}")
        memory, cpu = measure_agent(root, options.seconds)
        report("agent resident, idle", memory, "MiB", MEMORY_TARGET_MIB)
        report("agent CPU, idle", cpu, "%", CPU_TARGET_PERCENT)
        print("repeat with: make bench-detect")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
