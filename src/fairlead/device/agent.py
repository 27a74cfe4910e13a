"""DeviceAgent: empties the queue, reports, and rotates the credential; `step` does what is due."""

import math
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from fairlead.device.application import CommandDigest, split_command
from fairlead.device.contact import Contact, load_contact, save_contact
from fairlead.device.link import measure_link
from fairlead.device.place import DevicePlace
from fairlead.device.queue import UploadQueue
from fairlead.device.report import (
    DeviceReport,
    first_report,
    load_report,
    read_machine,
    refreshed,
    save_report,
)
from fairlead.device.session import SessionClient
from fairlead.device.upload import NEW_INVITE, Sent, Uploader, refused_credential
from fairlead.device.verdict import UploadStep, pause_after
from fairlead.errors import DeviceError, FairleadError, StoreUnavailableError

REPORT_EVERY: Final = 60.0
_REFUSED_PAUSE: Final = 300.0
"""Seconds between tries while the credential is refused: a new invite may replace it."""
_SAVE_EVERY: Final = 300.0
_LINK_AGE: Final = 3600.0
"""Seconds after which the link is measured again."""


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """When the next exchange is due, in seconds since 1970."""

    report: float = 0.0
    contact: float = 0.0
    """Before this, the store is not asked for anything: it could not be reached, or asked for a pause."""
    link: float = 0.0
    failures: int = 0


def next_time(times: AgentTimes, upload: float | None) -> float:
    """Return when the next step is due; pure."""
    due = times.report if upload is None else min(times.report, upload)
    return max(due, times.contact)


class DeviceAgent:
    """The one process of a device that talks to the store; its caller holds the sender's lock."""

    def __init__(
        self,
        place: DevicePlace,
        queue: UploadQueue,
        say: Callable[[str], None],
        chance: Callable[[], float] = random.random,
        *,
        reports: bool = True,
    ) -> None:
        self._place = place
        self._queue = queue
        self._say = say
        self._chance = chance
        self._times = AgentTimes() if reports else AgentTimes(report=math.inf)
        self._contact = load_contact(place)
        self._report: DeviceReport | None = load_report(place)
        self._digest = CommandDigest()
        self._saved = 0.0
        self._client: SessionClient | None = None
        self.problem: FairleadError | None = None
        """Why the last step did not reach the store, or was refused."""

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def next_time(self) -> float:
        """Return when the next step is due."""
        return next_time(self._times, self._queue.next_time())

    def step(self, now: float, stopping: Callable[[], bool] = lambda: False) -> None:
        """Do what is due now."""
        if now < self._times.contact:
            return
        try:
            client = self._connect()
            if now >= self._times.report:
                self._send_report(client, now)
            pause = self._empty_queue(client, now, stopping)
        except FairleadError as error:  # also a full disk: it is tried again
            self._fail(error, now)
            return
        self._reached(now, pause)

    def _connect(self) -> SessionClient:
        if self._client is None:
            self._client = SessionClient(self._place)
            self._client.confirm()
        return self._client

    def _send_report(self, client: SessionClient, now: float) -> None:
        waiting, refused, size = self._queue.totals()
        membership = client.membership
        command = split_command(membership.program) if membership.program else None
        digest = membership.image or (self._digest(command) if command else None)
        if self._report is None:
            self._report = first_report(self._place.name, self._place, read_machine(), digest)
        if now >= self._times.link:
            self._report = replace(self._report, link=measure_link(client.connection))
            self._times = replace(self._times, link=now + _LINK_AGE)
            save_report(self._place, self._report)
        counts = {"waiting": waiting, "refused": refused, "bytes": size}
        self._report = refreshed(self._report, self._place, digest, counts)
        asked = client.membership.rotate_after  # also by `fairlead device rotate`: the reply replaces it
        session = client.report(self._report)
        if any(0 < due <= now for due in (asked, client.membership.rotate_after)):
            client.rotate()
            session = client.report(self._report)
            self._say("the credential was rotated")
        self._contact = replace(self._contact, session=session)
        self._times = replace(self._times, report=now + REPORT_EVERY)

    def _empty_queue(self, client: SessionClient, now: float, stopping: Callable[[], bool]) -> float | None:
        """Send what is due; return the pause that the store asks for."""
        uploader = Uploader(self._queue, client.connection, self._place.name)
        while not stopping() and (upload := self._queue.next_due(now)):
            sent = uploader.send(upload, now)
            self._say(sent_line(sent))
            if sent.step is UploadStep.STOP:
                raise DeviceError(refused_credential(sent.reason), NEW_INVITE)
            if sent.step is UploadStep.PAUSE:
                self.problem = StoreUnavailableError(sent.reason)
                return pause_after(self._times.failures, sent.pause, self._chance)
        return None

    def _reached(self, now: float, pause: float | None) -> None:
        if self._contact.problem:
            self._say("the store is reached again")
        failures = 0 if pause is None else self._times.failures + 1
        self._times = replace(self._times, contact=now + (pause or 0.0), failures=failures)
        self.problem = None if pause is None else self.problem
        self._record(replace(self._contact, reached=now, tried=now, problem=""), now)

    def _fail(self, error: FairleadError, now: float) -> None:
        joined_again = isinstance(error, DeviceError) and self._has_new_credential()
        self.close()
        self.problem = error
        pause = _REFUSED_PAUSE if isinstance(error, DeviceError) else 0.0
        pause = 0.0 if joined_again else pause_after(self._times.failures, pause, self._chance)
        self._times = replace(self._times, contact=now + pause, failures=self._times.failures + 1)
        self._record(replace(self._contact, tried=now, problem=str(error)), now)

    def on_wakeup(self) -> None:
        """Use a new credential at once, if the device has joined again or is asked to rotate."""
        if self._client is None or self._has_new_credential():
            self.close()
            self._times = AgentTimes(link=self._times.link)

    def _has_new_credential(self) -> bool:
        try:
            return self._client is not None and self._place.read_membership() != self._client.membership
        except DeviceError:
            return False

    def _record(self, contact: Contact, now: float) -> None:
        """Keep a contact for `status`, not more often than a memory card stands."""
        changed = contact.problem != self._contact.problem or contact.session != self._contact.session
        self._contact = contact
        if changed or now - self._saved >= _SAVE_EVERY:
            with suppress(OSError):  # a full disk: the next step says so again
                save_contact(self._place, contact)
                self._saved = now


def sent_line(sent: Sent) -> str:
    """Return what became of an upload, as one line."""
    path = sent.upload.path
    if sent.kept:
        return f"conflict {path}: the store has another version; this device's is kept as {sent.kept}"
    if sent.step is UploadStep.DELIVERED:
        return f"sent {path}"
    if sent.step is UploadStep.REFUSED:
        return f"refused {path}: {sent.reason}"
    return f"waiting {path}: {sent.reason}"
