"""An action asks first, and has a button only where the viewer has the right."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect

from fairlead.dashboard.answers import CancelAction
from fairlead.dashboard.row_types import ApiAnswer
from fairlead.dashboard.viewer import Viewer
from fairlead.serve.dashboard.access import OneToken
from tests.browser.screen import AXE, Screen, open_screen
from tests.browser.workshop import WAITING, Workshop
from tests.serve.dashboard.served import TOKEN, served

pytestmark = pytest.mark.xdist_group("browser")


class Cancelling(Workshop):
    """A workshop whose workloads can be cancelled."""

    async def act(self, action: ApiAnswer, token: str) -> str | None:
        """Drop the workload."""
        assert isinstance(action, CancelAction)
        self.board.apply("workloads", drop=[action.workload])
        return f"{action.workload} is being deleted"


@contextmanager
def queue(browser: Browser, *actions: str) -> Iterator[Screen]:
    """Open the queue as a viewer with these rights."""
    access = OneToken(TOKEN, Viewer("ann", actions=actions))
    with served(Cancelling(), access) as server, open_screen(browser, server.port) as screen:
        screen.go("queue")
        expect(screen.page.get_by_label("Detail").get_by_role("heading", level=2)).to_have_text(WAITING)
        yield screen
        assert screen.errors == []


def test_without_rights_there_is_no_button(chromium: Browser) -> None:
    with queue(chromium) as screen:
        expect(screen.page.get_by_text("read-only")).to_be_visible()
        expect(screen.page.get_by_role("button", name="Delete the pod")).to_have_count(0)


def test_a_pod_is_deleted_after_a_question(chromium: Browser) -> None:
    with queue(chromium, "cancel") as screen:
        page = screen.page
        expect(screen.row("trainer").first).to_be_visible()
        page.get_by_role("button", name="Delete the pod").click()
        dialog = page.get_by_role("dialog", name="Delete the pod?")
        expect(dialog).to_contain_text(WAITING)
        assert not AXE.is_file() or screen.faults() == []
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(screen.row("trainer").first).to_be_visible()
        page.get_by_role("button", name="Delete the pod").click()
        dialog.get_by_role("button", name="Delete the pod").click()
        expect(page.get_by_role("status").filter(has_text="is being deleted")).to_be_visible()
        expect(screen.row("trainer")).to_have_count(0)
