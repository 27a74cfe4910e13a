"""Measure the dashboard on 2,000 nodes, 8,000 accelerators and 10,000 pods with five browsers.

The server is a process of its own, of which fifty rows change each second. Five pages of Debian's Chromium
follow it. Measured are the page (bytes after gzip, first paint, until all 8,000 rows are there), its use
(frames while it scrolls, keys until the filtered list is drawn) and the server (memory, share of one core).
Exit code 1: a bar is missed.

`--short` has a tenth of the rows and measures for five seconds.
"""

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from bench.pairs import machine
from fairlead.cli.output.show import to_table

HOUSE = Path(__file__).parent.parent
STATIC = HOUSE / "src/fairlead/serve/dashboard/static"
TOKEN = "the-token-of-the-benchmark"
BROWSERS = 5
SCROLL = """async () => {
  const list = document.querySelector('.list');
  const times = [];
  let last = performance.now();
  for (let step = 0; step < 120; step += 1) {
    list.scrollTop = (step * list.scrollHeight) / 120;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times;
}"""
FILTER = """async (word) => {
  const input = document.querySelector('input[type=search]');
  const from = performance.now();
  input.value = word;
  input.dispatchEvent(new Event('input', {bubbles: true}));
  await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done));
  return performance.now() - from;
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


class Figure(NamedTuple):
    """One measured value, and the bar that it must not exceed; None: there is none."""

    what: str
    value: float
    unit: str
    bar: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the bar is exceeded."""
        return self.bar is not None and self.value > self.bar


@contextmanager
def server(nodes: int, pods: int) -> Iterator[tuple[str, psutil.Process]]:
    """Run the server; yield its address and its process."""
    command = [sys.executable, "-m", "bench.dashboard_server", "--token", TOKEN]
    command += ["--nodes", str(nodes), "--pods", str(pods)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOUSE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), psutil.Process(process.pid)
        finally:
            process.terminate()


def bytes_of_page() -> float:
    """Return the kilobytes that the page loads, after gzip."""
    files = [path for path in STATIC.rglob("*") if path.suffix in {".html", ".js", ".css", ".svg"}]
    return sum(len(gzip.compress(path.read_bytes(), 6)) for path in files) / 1000


def opened(browser: Browser, address: str, panel: str) -> Page:
    """Open a panel in a browser without a cache."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(f"{address}#token={TOKEN}")
    page.locator("h1").wait_for()
    page.evaluate("hash => { location.hash = hash }", f"#/{panel}")
    return page


def first_paints(browser: Browser, address: str) -> list[float]:
    """Return the milliseconds until the first paint of three cold starts."""
    paints = []
    for _ in range(3):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(f"{address}#token={TOKEN}")
        page.locator("h1").wait_for()
        paints.append(float(page.evaluate(PAINT)))
        context.close()
    return paints


def use(page: Page, devices: int) -> Iterator[Figure]:
    """Yield how the list of all accelerators behaves."""
    began = time.perf_counter()
    page.locator(f"table[aria-rowcount='{devices + 1}']").wait_for()
    yield Figure("all accelerators in the list", (time.perf_counter() - began) * 1000, "ms")
    frames = sorted(float(value) for value in page.evaluate(SCROLL))
    yield Figure("a frame while it scrolls, median", statistics.median(frames), "ms", 50)
    yield Figure("a frame while it scrolls, 95 of 100", frames[int(len(frames) * 0.95)], "ms", 150)
    waits = [
        float(page.evaluate(FILTER, word)) for word in ("node-01", "a10 -node-0", "state:healthy l4", "")
    ]
    yield Figure("a filter, the slowest of four", max(waits), "ms", 300)


def changes(address: str, seconds: float) -> Figure:
    """Return how many changed rows a reader of the stream gets: those of one row in a moment are merged."""
    where = urlsplit(address)
    connection = HTTPConnection(where.hostname or "", where.port or 0, timeout=seconds)
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"}
    connection.request("GET", "/api/v1/events?tables=devices,workloads", headers=headers)
    rows, end = 0, time.monotonic() + seconds
    with closing(connection), connection.getresponse() as answer:
        while time.monotonic() < end:
            line = answer.readline()
            if line.startswith(b"data: ") and b'"put"' in line:
                rows += len(json.loads(line[6:])["put"])
    return Figure("changed rows that a reader gets", rows / seconds, "/s")


def load(process: psutil.Process, seconds: float) -> Iterator[Figure]:
    """Yield what the server takes while the browsers follow it."""
    before = sum(process.cpu_times()[:2])
    began = time.monotonic()
    time.sleep(seconds)
    share = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    yield Figure("the server's share of one core", share * 100, "%", 30)
    yield Figure("the server's memory", process.memory_info().rss / 1e6, "MB", 300)


def measure(short: bool) -> list[Figure]:
    """Return all figures."""
    nodes, pods, seconds = (200, 1000, 5.0) if short else (2000, 10_000, 30.0)
    path = shutil.which("chromium")
    if path is None:
        sys.exit("no browser: apt-get install chromium")
    figures = [Figure("the page after gzip", bytes_of_page(), "kB", 150)]
    arguments = ["--no-sandbox", "--disable-background-networking"]
    with ExitStack() as stack:
        address, process = stack.enter_context(server(nodes, pods))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=path, args=arguments)
        stack.callback(browser.close)
        paints = first_paints(browser, address)
        figures.append(Figure("first paint, the slowest of three", max(paints), "ms", 1000))
        first = opened(browser, address, "fleet")
        figures.extend(use(first, nodes * 4))
        for panel in ("queue", "shares", "fleet", "queue")[: BROWSERS - 1]:
            opened(browser, address, panel)
        figures.append(changes(address, min(seconds, 10.0)))
        figures.extend(load(process, seconds))
    return figures


def main() -> int:
    """Print the figures; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    figures = measure(options.short)
    rows = [
        (
            figure.what,
            f"{figure.value:.0f} {figure.unit}",
            "-" if figure.bar is None else f"{figure.bar:.0f} {figure.unit}",
            "missed" if figure.missed else "",
        )
        for figure in figures
    ]
    print(to_table(("MEASURED", "VALUE", "BAR", ""), rows))
    print(machine(), f"python -m bench.dashboard{' --short' if options.short else ''}", sep="\n")
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
