"""A list of thousands says that it loads, draws only what is looked at, and the keyboard reaches its end."""

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.screen import open_screen
from tests.browser.workshop import Workshop
from tests.serve.dashboard.served import served

pytestmark = pytest.mark.xdist_group("browser")
NODES = 1250
DEVICES = 4 * NODES


def test_a_long_list_says_that_it_loads_and_draws_what_is_in_view(chromium: Browser) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        held.append(route)

    with served(Workshop(NODES)) as server, open_screen(chromium, server.port) as screen:
        page = screen.page
        expect(screen.heading("Queue")).to_be_visible()
        page.route("**/tables/devices?*after=*", hold)
        screen.go("fleet")
        expect(page.get_by_role("status").filter(has_text="Loading 2000 of 5\u202f000 rows")).to_be_visible()
        held[0].continue_()
        table = page.locator(".list table")
        expect(table).to_have_attribute("aria-rowcount", str(DEVICES + 1))
        expect(page.get_by_text("Loading")).to_have_count(0)
        assert page.locator(".list tbody tr").count() < 100
        page.locator(".list tbody a").first.focus()
        page.keyboard.press("End")
        expect(page.locator("a:focus")).to_be_visible()
        last = page.locator("tr:has(a:focus)")
        expect(last).to_have_attribute("aria-rowindex", str(DEVICES + 1))
        page.get_by_role("searchbox").fill("node:rack-999 -kind:npu")
        expect(table).to_have_attribute("aria-rowcount", "4")
        assert screen.errors == []
