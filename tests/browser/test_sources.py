"""The page of the real sources: a recorded cluster as the program serves it, and this machine's ledger."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from fairlead.local.dashboard.source import MachineSource
from tests.browser.screen import open_screen
from tests.dashboard.samples import cluster
from tests.local.supervisor.desk import Desk
from tests.serve.dashboard.served import served

pytestmark = pytest.mark.xdist_group("browser")
SOON = 2000
"""Milliseconds from a change of the ledger to the screen."""


@contextmanager
def program(*arguments: str) -> Iterator[str]:
    """Run `fairlead dashboard`; yield the address that it prints."""
    command = [sys.executable, "-m", "fairlead", "dashboard", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("fairlead dashboard: ").strip()
        finally:
            process.terminate()


def test_a_recorded_cluster_says_why_its_pods_wait(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster(40, 60).to_json()))
    with program("--snapshot", str(file)) as address, open_screen(chromium, 0, token="") as screen:
        page = screen.page
        page.goto(address)
        expect(page.get_by_text("of 2026-03-01 12:00:00")).to_be_visible()
        assert "token" not in page.url
        screen.address = address.partition("#")[0]
        screen.go("queue/vision%2Fhuge")
        detail = page.get_by_label("Detail")
        expect(detail.locator("[data-role=smallest]")).to_contain_text(
            "GiB of the accelerator's memory instead of 200 GiB"
        )
        expect(detail.get_by_role("row", name="lack memory (need 200 GiB")).to_be_visible()
        expect(page.locator(".live")).to_contain_text("recorded")
        screen.go("shares/node-0001%2Fl4-0")
        expect(page.get_by_label("Detail").get_by_role("link", name="infer-00001")).to_be_visible()
        assert screen.errors == []


def test_a_job_of_this_machine_is_on_the_screen_within_two_seconds(chromium: Browser, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    source = MachineSource(desk.environ)
    try:
        with served(source) as server, open_screen(chromium, server.port) as screen:
            expect(screen.heading("Queue")).to_be_visible()
            expect(screen.page.get_by_text("Nothing waits.")).to_be_visible()
            screen.page.get_by_role("button", name="all", exact=True).click()
            cores = desk.cores()
            desk.submit("sleep 60", cpus=cores)
            expect(screen.row("running")).to_have_count(1)
            second = desk.submit("true", cpus=cores)
            expect(screen.row("waiting")).to_contain_text("cores", timeout=SOON)
            screen.go(f"queue/{second}")
            expect(screen.page.get_by_label("Detail").locator("[data-role=summary]")).to_contain_text("cores")
            screen.go("fleet")
            expect(screen.row(source.name)).not_to_have_count(0)
            assert screen.errors == []
    finally:
        desk.end()
