"""What changes is on the screen within two seconds; what is stale is said, since when, and heals."""

import re
import time

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from fairlead.dashboard.row_types import DeviceRow, WorkloadRow
from tests.browser.screen import Screen, open_screen
from tests.browser.workshop import WAITING, Workshop
from tests.serve.dashboard.served import TOKEN, Served, served

pytestmark = pytest.mark.xdist_group("browser")
SOON = 2000
"""Milliseconds from a change of the cluster to the screen."""
AN_HOUR_OFF = "const right = Date.now; Date.now = () => right() + 3600e3;"


def test_changes_are_on_the_screen_within_two_seconds(
    screen: Screen, workshop: tuple[Workshop, Served]
) -> None:
    source, server = workshop
    expect(screen.row("trainer").first).to_be_visible()
    row = source.board.tables["workloads"].rows[WAITING]
    assert isinstance(row, WorkloadRow)
    fresh = replace(row, key="shop/fresh", name="fresh", why="waits for job 3 (prepare)")
    started = replace(row, state="running", why="", place=None)
    server.do(source.board.apply, "workloads", [fresh, started], [])
    expect(screen.row("fresh")).to_contain_text("waits for job 3 (prepare)", timeout=SOON)
    expect(screen.row("trainer")).to_have_count(0, timeout=SOON)
    server.do(source.board.apply, "workloads", [], ["shop/fresh"])
    expect(screen.row("fresh")).to_have_count(0, timeout=SOON)


def test_measured_values_follow(screen: Screen, workshop: tuple[Workshop, Served]) -> None:
    source, server = workshop
    row = source.board.tables["devices"].rows["rack-0/gpu-0"]
    assert isinstance(row, DeviceRow)
    screen.go("fleet")
    expect(screen.row("H200").first).to_be_visible()
    server.do(source.board.apply, "devices", [replace(row, utilisation=0.77, power_watts=123.4)], [])
    expect(screen.row("rack-0").first).to_contain_text("77 %", timeout=SOON)
    expect(screen.row("rack-0").first).to_contain_text("123 W", timeout=SOON)


def test_a_stale_source_is_named_until_it_answers(screen: Screen, workshop: tuple[Workshop, Served]) -> None:
    source, server = workshop
    expect(screen.row("trainer").first).to_be_visible()
    server.do(source.board.set_stale, "Prometheus", "connection refused", ["devices"])
    banner = screen.page.get_by_text("Prometheus is stale for")
    expect(banner).to_contain_text("connection refused", timeout=SOON)
    server.do(source.board.heal, "Prometheus")
    expect(banner).to_have_count(0, timeout=SOON)


def test_a_lost_server_is_said_with_its_time_and_found_again(chromium: Browser) -> None:
    first = served(Workshop())
    port = first.__enter__().port
    with open_screen(chromium, port) as screen:
        expect(screen.row("trainer").first).to_be_visible()
        first.__exit__(None, None, None)
        banner = screen.page.get_by_text("The server is not reached since")
        expect(banner).to_be_visible()
        expect(screen.row("trainer").first).to_be_visible()
        after = Workshop()
        after.board.apply("workloads", drop=[WAITING])
        with served(after, port=port):
            expect(screen.row("trainer")).to_have_count(0)
            expect(banner).to_have_count(0)
            expect(screen.row("finetune")).to_have_count(1)
        assert all("Failed to load resource" in error for error in screen.errors)


@pytest.mark.parametrize("before", ["", AN_HOUR_OFF])
def test_ages_are_the_servers_whatever_the_browsers_clock(
    chromium: Browser, workshop: tuple[Workshop, Served], before: str
) -> None:
    source, server = workshop
    row = source.board.tables["workloads"].rows[WAITING]
    assert isinstance(row, WorkloadRow)
    server.do(source.board.apply, "workloads", [replace(row, since=time.time() - 60 * 250)], [])
    with open_screen(chromium, server.port, before=before) as screen:
        expect(screen.row("trainer").first.locator("time")).to_have_text(re.compile(r"^4h 1\dm$"))


def test_a_token_is_asked_for_and_never_stays_in_the_address(
    chromium: Browser, workshop: tuple[Workshop, Served]
) -> None:
    with open_screen(chromium, workshop[1].port, token="") as screen:
        page = screen.page
        page.goto(screen.address)
        enter(page, "a-token-that-is-wrong")
        expect(page.get_by_role("alert")).to_contain_text("the token is not valid")
        enter(page, TOKEN)
        expect(screen.heading("Queue")).to_be_visible()
        screen.enter()
        expect(screen.heading("Queue")).to_be_visible()
        assert "token" not in page.url
        page.reload()
        expect(screen.heading("Queue")).to_be_visible()


def enter(page: Page, token: str) -> None:
    """Give the page a token by hand."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Open").click()
