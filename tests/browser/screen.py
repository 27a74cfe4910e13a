"""A page of the dashboard in Chromium, with what went wrong in it."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

from tests.serve.dashboard.served import TOKEN

HOUSE = Path(__file__).parent.parent.parent
AXE = HOUSE / "dashboard/node_modules/axe-core/axe.min.js"
WIDE, PHONE = (1280, 800), (380, 780)
PICTURES = os.environ.get("FAIRLEAD_SCREENSHOTS", "")
"""The folder that pictures are written to; empty: none are."""
KEPT = {
    "queue-light",
    "queue-dark",
    "fleet-dark",
    "shares-light",
    "predictions-light",
    "pipelines-dark",
    "queue-phone-dark",
    "shares-phone-list-light",
}
"""The pictures that the pages of docs/ show."""
Theme = Literal["light", "dark"]


@dataclass
class Screen:
    """A page that is open."""

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def go(self, panel: str) -> None:
        """Go to a panel, or to an object of it."""
        self.page.goto(f"{self.address}#/{panel}")

    def enter(self, token: str = TOKEN) -> None:
        """Open the page with a token, as the printed address does."""
        self.page.goto(f"{self.address}#token={token}")

    def heading(self, name: str) -> Locator:
        """Return the heading of a panel."""
        return self.page.get_by_role("heading", name=name, level=1, exact=True)

    def row(self, name: str) -> Locator:
        """Return the rows of the list in which a text stands."""
        return self.page.locator(".list tbody tr[data-index]").filter(has_text=name)

    def faults(self) -> list[str]:
        """Return what axe calls serious or critical."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{fault['id']}: {fault['nodes'][0]['html'][:200]}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]

    def picture(self, name: str) -> None:
        """Write a small picture, where pictures are wanted, if a page shows it."""
        if PICTURES and name in KEPT:
            image = Image.open(io.BytesIO(self.page.screenshot(animations="disabled")))
            small = image.convert("RGB").quantize(160, dither=Image.Dither.NONE)
            small.save(Path(PICTURES) / f"dashboard-{name}.png", optimize=True)


@contextmanager
def open_screen(
    browser: Browser,
    port: int,
    size: tuple[int, int] = WIDE,
    theme: Theme = "light",
    token: str = TOKEN,
    before: str = "",
) -> Iterator[Screen]:
    """Open the page of a server; `before` is a script that runs before the page's own."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=theme, timezone_id="UTC"
    )
    context.set_default_timeout(15_000)
    if before:
        context.add_init_script(before)
    try:
        screen = Screen(context.new_page(), f"http://127.0.0.1:{port}/")
        if token:
            screen.enter(token)
        yield screen
    finally:
        context.close()
