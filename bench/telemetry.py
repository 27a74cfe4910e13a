"""Measure what the refresh of measured use costs the scheduler: CPU of one core, and memory.

A server in a process of its own answers like a Prometheus that scrapes every 15 seconds: 5,000 devices with
two series each, and 5,000 pods with two series each, four samples of a minute in every answer. The reader
plays a quarter of an hour of refreshes in virtual time, so that the window is full. Beside it stands the
plain way to read the same answers: `json.loads`. Exit code 1: a bar is missed.

The other half of the cost, the time of a decision, is `bench/telemetry_decide.py`.
"""

import argparse
import asyncio
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import parse_qs

from aiohttp import web

from fairlead.cli.output.show import to_table
from fairlead.cluster.http.fetch import FetchAccess, Fetcher
from fairlead.units import Bytes
from fairlead.usage.dialects import OURS, UseScope
from fairlead.usage.history import UseHistory
from fairlead.usage.index import DeviceIndex, KnownDevice
from fairlead.usage.prometheus import PrometheusSource
from fairlead.use import DeviceKey

START: Final = 1_700_000_000
PERIOD, POINTS = 15, 4
DEVICES_OF_A_NODE: Final = 8
CORE_BAR, MEMORY_BAR = 0.05, 150e6
"""The share of one core, and bytes."""
STAMP: Final = b"@%d@"


def device(number: int) -> DeviceKey:
    """Return the key of a device."""
    node, at = divmod(number, DEVICES_OF_A_NODE)
    return DeviceKey(f"node-{node:05}.example.internal", f"pci-0000-{16 * at + 1:02x}-00-0")


def labels(number: int, scope: UseScope) -> dict[str, str]:
    """Return the labels of a series, as a Prometheus of the operator stores them."""
    key = device(number)
    target = {
        "container": "agent",
        "endpoint": "metrics",
        "instance": key.node,
        "job": "fairlead-system/fairlead-agent",
        "namespace": "fairlead-system",
        "pod": f"fairlead-agent-{number // DEVICES_OF_A_NODE:05}",
    }
    if scope is UseScope.POD:
        target |= {
            "container": "server",
            "namespace": "vision",
            "pod": f"server-59c7f8b6d4-{number:05}",
            "pod_uid": f"8d3b8f3c-6c1d-4b4a-9d52-{number:012}",
        }
    return {**target, "id": key.device, "model": "a100-80gb", "node": key.node}


def template(name: str, scope: UseScope, devices: int) -> bytes:
    """Return an answer, with marks in place of the times."""
    value = "0.37" if name.endswith("ratio") else "16384655360"
    points = ",".join(f'[@{at}@.345,"{value}"]' for at in range(POINTS))
    rows = (
        f'{{"metric":{json.dumps({"__name__": name, **labels(number, scope)})},"values":[{points}]}}'
        for number in range(devices)
    )
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(rows)}]}}}}'.encode()


class Answers:
    """The answers of a Prometheus whose clock advances by one period with each look for new samples."""

    def __init__(self, devices: int) -> None:
        self._templates = {
            metric.name: template(metric.name, metric.scope, devices)
            for metric in OURS.metrics
            if metric.scope is not UseScope.FOREIGN
        }
        self._clock = START

    async def respond(self, request: web.Request) -> web.Response:
        """Answer a query."""
        (query,) = parse_qs((await request.read()).decode())["query"]
        if query.startswith("max("):
            known = OURS.metrics[0].name in query
            self._clock += PERIOD if known else 0
            rows = [{"metric": {}, "value": [self._clock, str(self._clock - 1)]}] if known else []
            return web.json_response({"status": "success", "data": {"resultType": "vector", "result": rows}})
        body = self._templates.get(query.partition("[")[0], b"")
        for at in range(POINTS):
            stamp = self._clock - 1 - PERIOD * (POINTS - 1 - at)
            body = body.replace(STAMP % at, b"%d" % stamp)
        return web.Response(body=body or EMPTY, content_type="application/json")


EMPTY: Final = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


def serve(devices: int) -> None:
    """Serve answers until the parent ends this process; print the port."""

    async def run() -> None:
        application = web.Application()
        application.router.add_post("/api/v1/query", Answers(devices).respond)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def server(devices: int) -> Iterator[str]:
    """Run the server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "bench.telemetry", "--serve", "--devices", str(devices)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


@asynccontextmanager
async def source(url: str, index: DeviceIndex) -> AsyncIterator[PrometheusSource]:
    """Open the source that the scheduler opens."""
    async with Fetcher.open(FetchAccess()) as fetcher:
        yield PrometheusSource(fetcher, url, lambda: index, PERIOD)


async def refresh(url: str, devices: int, refreshes: int) -> dict[str, float]:
    """Read and keep the answers of many refreshes; return what it costs."""
    before = resident()
    index = DeviceIndex(
        KnownDevice(device(number), vendor="NVIDIA", memory=Bytes(80 << 30)) for number in range(devices)
    )
    history = UseHistory()
    async with source(url, index) as reader:
        history.on_report(await reader.read(START + PERIOD))  # finds the dialect
        worst = 0.0
        gc.collect()
        started = time.process_time()
        for step in range(refreshes):
            began = time.process_time()
            history.on_report(await reader.read(START + PERIOD * (step + 2)))
            worst = max(worst, time.process_time() - began)
        cpu = (time.process_time() - started) / refreshes
    now = START + PERIOD * (refreshes + 1)
    status = history.status(now)
    assert (status.devices_fresh, status.pods_fresh, status.reason) == (devices, devices, ""), status
    assert len(history.device(device(0)).memory) == 600 // PERIOD
    return {"cpu": cpu, "worst": worst, "memory": peak() - before, "kept": resident() - before}


def plain(devices: int, repeats: int = 3) -> float:
    """Return the CPU seconds of `json.loads` alone for the answers of one refresh."""
    bodies = [
        template(metric.name, metric.scope, devices).replace(b"@", b"")
        for metric in OURS.metrics
        if metric.scope is not UseScope.FOREIGN
    ]
    started = time.process_time()
    for _ in range(repeats):
        for body in bodies:
            json.loads(body)
    return (time.process_time() - started) / repeats


def resident() -> float:
    """Return the resident memory of this process in bytes."""
    return _memory("VmRSS")


def peak() -> float:
    """Return the largest resident memory of this process so far, in bytes."""
    return _memory("VmHWM")


def _memory(field: str) -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(float(line.split()[1]) * 1024 for line in file if line.startswith(field))


def report(devices: int, refreshes: int) -> dict[str, Any]:
    """Print the costs beside their bars; return them."""
    with server(devices) as url:
        costs: dict[str, Any] = asyncio.run(refresh(url, devices, refreshes))
    share, loads = costs["cpu"] / PERIOD, plain(devices)
    cpu = f"{costs['cpu'] * 1e3:.0f} ms of CPU (the longest {costs['worst'] * 1e3:.0f} ms)"
    rows = [
        ("a refresh", cpu, f"{costs['cpu'] / loads:.2f} of json.loads alone ({loads * 1e3:.0f} ms)"),
        (f"one in {PERIOD} s", f"{share:.1%} of a core", f"bar {CORE_BAR:.0%}: {verdict(share, CORE_BAR)}"),
        (
            "memory at most",
            f"{costs['memory'] / 1e6:.0f} MB",
            f"bar {MEMORY_BAR / 1e6:.0f} MB: {verdict(costs['memory'], MEMORY_BAR)}",
        ),
        ("memory after", f"{costs['kept'] / 1e6:.0f} MB", f"{600 // PERIOD} points of each series"),
    ]
    print(to_table(("MEASURED", "COST", "BESIDE"), rows))
    costs["good"] = share <= CORE_BAR and costs["memory"] <= MEMORY_BAR
    return costs


def verdict(value: float, bar: float) -> str:
    """Return whether a value keeps its bar, and by which factor."""
    return f"{'kept' if value <= bar else 'MISSED'} ({value / bar:.2f} of it)"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=5_000)
    parser.add_argument("--refreshes", type=int, default=60, help="after the first (default: %(default)s)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.devices)
    print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}")
    print(f"{options.devices} devices x 2 series, {options.devices} pods x 2 series; make bench-telemetry")
    return 0 if report(options.devices, options.refreshes)["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
