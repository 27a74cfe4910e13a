"""Chromium for the tests of this folder, and an invented cluster that is served to it."""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.screen import Screen, open_screen
from tests.browser.workshop import Workshop
from tests.serve.dashboard.served import Served, served

expect.set_options(timeout=20_000)
NO_BROWSER = "no browser: apt-get install chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def skip_without_browser(reason: str) -> NoReturn:
    """Skip a test that needs a browser; with CI=true, which promises one, fail."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"with CI=true a skip is a failure: {reason}")
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report all skips for lack of a browser at the same place, so that pytest counts them in one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2].endswith(NO_BROWSER):
        report.longrepr = (__file__, None, report.longrepr[2])  # type: ignore[assignment]  # None: no line
    return report


@contextmanager
def launched() -> Iterator[Browser]:
    """Run Debian's Chromium. A loop runs in this thread meanwhile: asyncio.run does not work in it."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        skip_without_browser(NO_BROWSER)
    arguments = ["--disable-background-networking", "--disable-component-update"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yield Debian's Chromium; it ends with the module, for the tests of others."""
    with launched() as browser:
        yield browser


@pytest.fixture
def workshop() -> Iterator[tuple[Workshop, Served]]:
    """Yield an invented cluster and its server."""
    source = Workshop()
    with served(source) as server:
        yield source, server


@pytest.fixture
def screen(chromium: Browser, workshop: tuple[Workshop, Served]) -> Iterator[Screen]:
    """Yield a wide, light page of the invented cluster; it had no error of its own when the test ends."""
    with open_screen(chromium, workshop[1].port) as opened:
        yield opened
        assert opened.errors == []
