"""Report on the standard error when a watched cluster becomes unavailable, and when it answers again."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.cluster.client import Client
    from fairlead.cluster.watch.informer import Informer

LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts: a person waits for the answer."""
_POLL: Final = 0.25
_FIRST_ANSWER: Final = 1.5
"""Seconds without an answer or an error until the first report: a firewall may drop packets silently."""


class ClusterContact:
    """The last state of a cluster that was reported to the user; pure."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._suspected = False
        self._outdated: FairleadError | None = None
        """The error before the last answer: an informer keeps it until the next event arrives."""
        self.away = False

    def observe(self, trouble: FairleadError | None, *, synced: bool, seconds: float) -> str:
        """Take the informer's state, `seconds` after its start; return the line to print, mostly none."""
        if trouble is None or trouble is self._outdated:
            self._suspected = False
            if trouble is None and synced and self.away:
                return self.on_answer(None)
            if trouble is None and not synced and not self.away and seconds >= _FIRST_ANSWER:
                self.away = True
                return f"no answer from {self._server} yet: waiting for it"
            return ""
        # A single error may be an expired watch: the informer lists again at once.
        suspected, self._suspected = self._suspected, True
        if self.away or not suspected:
            return ""
        self.away = True
        return f"{trouble}: trying again until it answers" + (f"\n  {trouble.hint}" if trouble.hint else "")

    def on_answer(self, trouble: FairleadError | None) -> str:
        """Record that the cluster answered; `trouble` is the error that the informer still holds."""
        self.away = self._suspected = False
        self._outdated = trouble
        return f"{self._server} answers again"


@asynccontextmanager
async def report_contact(client: "Client", informer: "Informer[Any]", path: str) -> AsyncIterator[None]:
    """Report while the block runs; a GET of `path` shows whether the cluster answers again."""
    task = asyncio.create_task(_report(client, informer, path))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _report(client: "Client", informer: "Informer[Any]", path: str) -> None:
    contact, began = ClusterContact(client.config.server), time.monotonic()
    while True:
        await asyncio.sleep(_POLL)
        trouble = informer.last_error
        line = contact.observe(trouble, synced=informer.synced, seconds=time.monotonic() - began)
        # A re-established watch is silent until the next event: it does not prove that the cluster answers.
        if not line and contact.away and informer.synced and await _answers(client, path):
            line = contact.on_answer(trouble)
        if line:
            print(f"fairlead: {line}", file=sys.stderr, flush=True)


async def _answers(client: "Client", path: str) -> bool:
    try:
        await client.request("GET", path, query={"limit": "1"})
    except FairleadError:
        return False
    return True
