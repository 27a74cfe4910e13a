"""Every panel in Chromium: readable, accessible, without errors, in both themes, also on a phone."""

import os

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import skip_without_browser
from tests.browser.screen import AXE, PHONE, PICTURES, WIDE, Screen, Theme, open_screen
from tests.browser.workshop import WAITING, Workshop
from tests.serve.dashboard.served import Served

pytestmark = pytest.mark.xdist_group("browser")
PANELS = {
    "queue": ("Queue", WAITING, "The smallest change that would fit"),
    "fleet": ("Fleet", "rack-0/gpu-1", "Temperature"),
    "shares": ("Shares", "rack-0/gpu-1", "Requested"),
    "predictions": ("Predictions", "yolov8n", "Unknown: no measurement"),
    "pipelines": ("Pipelines", "shop/people", "103 ms from the first stage to the last"),
    "augmentations": ("Augmentations", "shop/cam-7", "Job index-photos"),
    "rightsizing": ("Right-sizing", "shop/reader", "Saves"),
    "simulations": ("Simulations", "openb-predicted", "waiting"),
}
"""By panel: its heading, an object of it, and a text of that object's detail."""

SCREENS: list[tuple[tuple[int, int], Theme]] = [(WIDE, "light"), (PHONE, "dark")]
if os.environ.get("FAIRLEAD_CHAOS") == "long" or PICTURES:
    SCREENS += [(WIDE, "dark"), (PHONE, "light")]


@pytest.mark.parametrize(("size", "theme"), SCREENS)
def test_panels_are_accessible_and_show_one_object(
    chromium: Browser, workshop: tuple[Workshop, Served], size: tuple[int, int], theme: Theme
) -> None:
    if not AXE.is_file():
        skip_without_browser("no axe: make dashboard")
    with open_screen(chromium, workshop[1].port, size, theme) as screen:
        for panel, (heading, key, text) in PANELS.items():
            screen.go(panel)
            expect(screen.heading(heading)).to_be_visible()
            if size == PHONE:
                assert screen.faults() == [], f"{panel}, its list"
                screen.picture(f"{panel}-phone-list-{theme}")
            screen.go(f"{panel}/{key.replace('/', '%2F')}")
            expect(screen.page.get_by_label("Detail").get_by_text(text).first).to_be_visible()
            assert screen.faults() == [], f"{panel}, {key}"
            wide = screen.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= size[0], f"{panel} is wider than the screen"
            screen.picture(f"{panel}-{'phone-' if size == PHONE else ''}{theme}")
        assert screen.errors == []


def test_the_queue_says_why_and_what_would_help(screen: Screen) -> None:
    screen.go("queue")
    detail = screen.page.get_by_label("Detail")
    expect(detail.get_by_role("heading", level=2)).to_have_text(WAITING)
    expect(detail.get_by_role("row", name="14 of 24")).to_contain_text("lack memory (need 16.0 GiB")
    smallest = detail.locator("[data-role=smallest]")
    expect(smallest).to_contain_text("ask for 9.0 GiB of the accelerator's memory instead of 16.0 GiB")
    expect(detail.get_by_label("The same answer in a terminal")).to_have_text(f"fairlead explain {WAITING}")


def test_unknown_is_never_drawn_as_a_value(screen: Screen) -> None:
    screen.go("predictions/yolov8n")
    row = screen.page.get_by_role("row", name="Coral USB")
    expect(row).to_contain_text("Unknown: no measurement")
    expect(row.locator(".dot")).to_have_count(0)
    expect(screen.page.locator(".whiskers .dot")).to_have_count(4)


def test_lists_go_by_keyboard(screen: Screen) -> None:
    page = screen.page
    screen.go("fleet")
    expect(screen.row("H200").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("kind:npu")
    expect(screen.row("Hailo-8")).to_have_count(6)
    expect(screen.row("H200")).to_have_count(0)
    page.get_by_role("region", name="Accelerators").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Detail").get_by_role("heading", level=2)).to_have_text("Hailo-8")
    expect(page.locator("tr.selected")).to_have_attribute("data-index", "1")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Detail")).to_have_count(0)
    page.get_by_role("button", name="Busy").click()
    expect(page.get_by_role("columnheader", name="Busy")).to_have_attribute("aria-sort", "descending")


def test_the_theme_is_switched_and_kept(screen: Screen) -> None:
    page = screen.page
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(colour) != light
