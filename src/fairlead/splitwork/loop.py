"""SplitWork: a worker on one job: it exchanges with the coordinator while its slots run inputs.

One request says and asks everything: results, the heartbeat, and the wish for more when half of the last
chunk is left. Without a link the slots go on with what they have; it is handed in later.
"""

import base64
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fairlead.errors import FairleadError, StoreUnavailableError
from fairlead.splitwork.books import HandIn, WorkBooks
from fairlead.splitwork.journal import ResultJournal
from fairlead.splitwork.link import RefusedExchangeError
from fairlead.splitwork.running import InputFetcher, ResultUploader, WorkSlot
from fairlead.splitwork.task import FinishedInput, InputExecutor, InputPlace, LeasedInput, StoreLink

_MOST: Final = 1000
_MOST_BYTES: Final = 2 << 20
_LONG_POLL: Final = 5.0
_HEARTBEAT: Final = 2.5
"""Seconds between two contacts, at most: a lease lasts ten."""
_AGAIN: Final = 0.2
_BACKOFF: Final = (0.1, 5.0)
ENDED: Final = ("done", "cancelled")


@dataclass(frozen=True, slots=True)
class WorkerProfile:
    """What a worker says of itself."""

    worker: str
    site: str
    has: str = "stored"


@dataclass(slots=True)
class _Contact:
    """When the coordinator was and is to be asked."""

    last: float = float("-inf")
    within: float = 0.5
    refused_until: float = float("-inf")
    failures: int = 0
    state: str = "running"


@dataclass(slots=True)
class SplitWork:
    """Works on one job until that has ended, or `stop` is called."""

    profile: WorkerProfile
    folder: str
    """For inputs that are fetched, and results that are not handed in; of this worker and job alone."""
    links: Callable[[], StoreLink]
    """Opens a link to the store: one for each thread."""
    place: InputPlace
    executors: Sequence[InputExecutor]
    say: Callable[[str], None]
    grace: float = 5.0
    """Seconds that inputs have at the end to be saved or ended."""
    problem: str = ""
    """Why the store is not reached at the moment."""
    committed: int = 0
    books: WorkBooks = field(default_factory=WorkBooks)
    _contact: _Contact = field(default_factory=_Contact)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _link: StoreLink | None = None
    _slots: Sequence[WorkSlot] = ()

    def connect(self) -> None:
        """Say to the coordinator that this worker is there; StoreUnavailableError where it is not reached."""
        link = self.links()
        try:
            document = self._document(HandIn((), (), wants=False, is_idle=True), wants=False, idle=True)
            link.exchange(document)
        finally:
            link.close()

    def run(self) -> str:
        """Work; return the state of the job at the end."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        journal = ResultJournal(os.path.join(self.folder, "finished.jsonl"))
        self.books.restore(journal.load())
        links = [self.links() for _ in range(4)]
        self._link = links[0]
        slots = [WorkSlot(self.books, each, journal, self.folder, self.say) for each in self.executors]
        self._slots = slots
        others = [
            InputFetcher(self.books, links[1], journal, self.folder),
            InputFetcher(self.books, links[2], journal, self.folder),
            ResultUploader(self.books, links[3], self.say),
        ]
        for thread in (*slots, *others):
            thread.start()
        try:
            self._exchange_until_over(links[0], journal, slots)
        finally:
            self.books.end()
            for link in links:
                link.interrupt()
            for slot in slots:
                _end_slot(slot)
            for thread in others:
                thread.join()
            for link in links:
                link.close()
            for each in self.executors:
                each.close()
            journal.close()
        return self._contact.state

    def stop(self) -> None:
        """Hand in what is finished, give back the rest, and end; called from another thread."""
        self._stopping.set()
        with self.books.changed:
            self.books.changed.notify_all()
        if self._link is not None:
            self._link.interrupt()

    def _exchange_until_over(
        self, link: StoreLink, journal: ResultJournal, slots: Sequence[WorkSlot]
    ) -> None:
        while not self._stopping.is_set():
            self._wait_until_due()
            if self._stopping.is_set():
                break
            if self._try(link, journal) and self._contact.state in ENDED:
                return
        # What runs is interrupted, what is finished is handed in, and the rest is not held any more.
        self.books.clear_waiting()
        for slot in slots:
            slot.executor.interrupt()
        end = time.monotonic() + self.grace
        with self.books.changed:
            while not self.books.is_idle and time.monotonic() < end:
                self.books.changed.wait(0.1)
        self._try(link, journal, leaving=True)

    def _try(self, link: StoreLink, journal: ResultJournal, *, leaving: bool = False) -> bool:
        """Exchange once; False: the store is not reached."""
        contact, said = self._contact, self.books.hand_in(_MOST, _MOST_BYTES)
        now = time.monotonic()
        wants = said.wants and not leaving and (said.is_idle or now >= contact.refused_until)
        document = self._document(said, wants=wants, idle=said.is_idle and not leaving)
        try:
            reply = link.exchange(document)
        except RefusedExchangeError as error:
            self._on_refusal(said, error)
            return False
        except (StoreUnavailableError, OSError) as error:
            self._on_problem(str(error))
            return False
        contact.failures, self.problem = 0, ""
        contact.last = time.monotonic()
        contact.within = min(_HEARTBEAT, max(0.005, float(reply.get("again", 0.5))))
        contact.state = str(reply.get("state", "running"))
        self._apply(said, reply, journal, wants=wants)
        if wants and not reply["leases"]:
            waited = contact.last - now > contact.within
            contact.refused_until = contact.last if waited else contact.last + contact.within
        return True

    def _apply(self, said: HandIn, reply: Mapping[str, Any], journal: ResultJournal, *, wants: bool) -> None:
        self.committed += int(reply.get("committed", 0))
        self.books.handed_in(said.finished)
        for finished in said.finished:
            if finished.file:
                with suppress(FileNotFoundError):
                    os.unlink(finished.file)
        dropped = frozenset(map(int, reply.get("dropped", ())))
        self.books.drop(dropped)
        for slot in self._slots if dropped else ():
            slot.drop(dropped)
        if wants:
            self.books.add((_lease(each) for each in reply["leases"]), self.place.find)
        with self.books.changed:
            if self.books.is_empty:
                journal.clear()
        journal.shorten(self.books.finished)

    def _document(self, said: HandIn, *, wants: bool, idle: bool) -> dict[str, Any]:
        results = [_result(each) for each in said.finished if each.failure is None]
        failures = [_failure(each) for each in said.finished if each.failure is not None]
        return {
            **asdict(self.profile),
            "slots": len(self.executors),
            "results": results,
            "failures": failures,
            "held": list(said.held),
            "want": wants,
            "wait": _LONG_POLL if wants and idle and not said.held else 0,
        }

    def _wait_until_due(self) -> None:
        """Wait until there is something to say, or to ask."""
        with self.books.changed:
            while not self._stopping.is_set():
                left = self._due() - time.monotonic()
                if left <= 0:
                    return
                self.books.changed.wait(left)

    def _due(self) -> float:
        contact = self._contact
        if contact.failures:
            return contact.last
        if self.books.is_idle:
            # The last result of a worker must not wait; nor must a worker without work.
            return 0.0 if self.books.has_results else max(0.0, contact.refused_until)
        if self.books.wants and time.monotonic() >= contact.refused_until:
            return 0.0
        due = contact.last + contact.within
        return min(due, contact.refused_until) if self.books.wants else due

    def _on_problem(self, why: str) -> None:
        contact = self._contact
        if not self.problem:
            self.say(f"the store is not reached, the work goes on with what is here: {why}")
        self.problem = why
        contact.failures += 1
        least, most = _BACKOFF
        contact.last = time.monotonic() + min(most, least * 2 ** min(contact.failures - 1, 10))

    def _on_refusal(self, said: HandIn, error: RefusedExchangeError) -> None:
        if error.status == 409:  # uploads are gone: they are made again
            for each in said.finished:
                if each.staged:
                    self.books.staged(each, "")
            self._on_problem(str(error))
            return
        raise error


def _end_slot(slot: WorkSlot) -> None:
    """Wait for the end of a slot; an input that begins only now is interrupted as well."""
    while slot.is_alive():
        slot.executor.interrupt()
        slot.join(_AGAIN)


def _lease(document: Mapping[str, Any]) -> LeasedInput:
    try:
        return LeasedInput(
            int(document["input"]),
            int(document["lease"]),
            str(document["path"]),
            str(document["digest"]),
            int(document["size"]),
            str(document.get("where", "")),
            bool(document.get("copy", False)),
        )
    except (KeyError, TypeError, ValueError):
        raise FairleadError("the store's lease is no lease: is this a fairlead store?") from None


def _result(finished: FinishedInput) -> dict[str, Any]:
    document = {
        "input": finished.lease.input,
        "lease": finished.lease.lease,
        "digest": finished.digest,
        "size": finished.size,
        "seconds": finished.seconds,
        "interval": finished.interval,
    }
    if finished.data is None:
        return {**document, "staged": finished.staged}
    return {**document, "inline": base64.b64encode(finished.data).decode()}


def _failure(finished: FinishedInput) -> dict[str, Any]:
    assert finished.failure is not None
    return {
        "input": finished.lease.input,
        "lease": finished.lease.lease,
        "exit": finished.failure.exit,
        "error": finished.failure.error,
    }
