"""The real program: started, scraped, stopped by a signal."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.worlds import X86, Entry, World, memory, pci

PROGRAM = [sys.executable, "-c", "from fairlead.cli.main import run; run()", "serve", "agent"]
PATIENCE = 60.0
"""Seconds within which a busy machine does what an idle one does at once."""


def board() -> dict[str, Entry]:
    """Return a machine with a Coral card."""
    apex = {"apex__apex_0__temp": "45000\n", "apex__apex_0__status": "ALIVE\n"}
    return {
        **pci("0000:01:00.0", "1ac1:089a", driver="apex", link="5.0 GT/s x1 of 5.0 GT/s x1", **apex),
        "/dev/apex_0": "",
        "/proc/cpuinfo": X86,
        **memory(4),
    }


@contextmanager
def agent(*options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run an agent on a free port; yield it and the address that it logs."""
    command = [*PROGRAM, "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            found = re.search(r"listening on (http://127\.0\.0\.1:[0-9]+)/metrics", line)
            assert found, line
            yield process, found[1]
        finally:
            process.kill()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
        text: str = reply.read().decode("utf-8")
        return text


def scrape(base: str) -> dict[str, float]:
    """Return the page's series by name, the last of each."""
    families = text_string_to_metric_families(get(f"{base}/metrics"))
    return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_a_signal_and_then_exits_with_zero(world: World, number: signal.Signals) -> None:
    with agent("--root", world(board()).root) as (process, base):
        found = scrape(base)
        assert found["fairlead_accelerator_temperature_celsius"] == 45
        assert found["fairlead_accelerator_link_bits_per_second"] == 5e9
        assert found["fairlead_last_scan_timestamp_seconds"] == pytest.approx(time.time(), abs=PATIENCE)
        assert get(f"{base}/readyz") == "ready\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read().endswith("stopped\n")


def test_samples_again_at_its_own_period(world: World) -> None:
    host = world(board())
    with agent("--root", host.root, "--sample", "100ms", "--no-uevents") as (_, base):
        assert scrape(base)["fairlead_accelerator_temperature_celsius"] == 45
        world({"/sys/devices/pci0000:00/0000:01:00.0/apex/apex_0/temp": "61000\n"})
        end = time.monotonic() + PATIENCE
        while scrape(base)["fairlead_accelerator_temperature_celsius"] != 61:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert scrape(base)["fairlead_scans_total"] == 1


def test_sweeps_find_a_new_device_without_any_event(world: World) -> None:
    host = world(board())
    with agent("--root", host.root, "--sweep", "100ms", "--no-uevents") as (_, base):
        assert get(f"{base}/metrics").count("fairlead_accelerator_info{") == 2
        world(pci("0000:02:00.0", "1e60:2864", driver="hailo"))
        end = time.monotonic() + PATIENCE
        while get(f"{base}/metrics").count("fairlead_accelerator_info{") != 3:
            assert time.monotonic() < end
            time.sleep(0.05)


def run_once(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*PROGRAM, *options], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_once_prints_the_page_and_ends() -> None:
    done = run_once("--once", "--no-nvml")
    assert (done.returncode, done.stderr) == (0, "")
    names = {family.name for family in text_string_to_metric_families(done.stdout)}
    assert {"fairlead_build_info", "fairlead_accelerator_busy_ratio"} <= names


def test_a_port_in_use_is_an_error_with_a_hint() -> None:
    with agent("--no-nvml") as (_, base):
        done = run_once("--listen", base.removeprefix("http://"))
    assert done.returncode == 2
    assert "address already in use" in done.stderr
    assert "--listen" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "127.0.0.1:99999"], "no port 99999"),
        (["--listen", "[::1%nowhere]:1"], "not an address of this machine"),
        (["--sample", "1ms"], "out of range"),
        (["--sweep", "soon"], "not a duration"),
        (["--root", "/no/such/root"], "no such folder"),
    ],
)
def test_invalid_settings_are_refused(options: list[str], says: str) -> None:
    done = run_once(*options)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
