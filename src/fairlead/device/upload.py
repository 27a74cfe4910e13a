"""Uploader: sends queued uploads, one after another; nothing leaves the queue before the store has it."""

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fairlead.compat.times import UTC
from fairlead.device.connection import Reply, StoreConnection
from fairlead.device.digests import WANT, parse_repr_digest, repr_digest
from fairlead.device.queue import Conflict, KnownFile, QueuedUpload, UploadQueue
from fairlead.device.resume import FROM_SIZE, VerifiedContent, put_rest
from fairlead.device.verdict import UploadStep, UploadVerdict, judge, pause_after
from fairlead.errors import DeviceError, StoreUnavailableError, TransferError

_ASK_FIRST: Final = 1 << 20
"""Bytes from which the store's version is asked for first: an upload that it refuses takes its whole time.

One that may go on after a cut begins with a question anyway.
"""
_MOST_NAMES: Final = 50


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one upload."""

    upload: QueuedUpload
    step: UploadStep
    reason: str = ""
    pause: float | None = None
    """Seconds until the next try of any upload, where the store asks for a pause."""
    kept: str = ""
    """The name under which the store keeps this version beside another one."""


class Uploader:
    """Sends the uploads of a queue over one connection."""

    def __init__(self, queue: UploadQueue, connection: StoreConnection, device: str) -> None:
        self._queue = queue
        self._connection = connection
        self._device = device

    def send(self, upload: QueuedUpload, now: float) -> Sent:
        """Try one upload, and record what became of it.

        Raises StoreUnavailableError if the store cannot be reached: then no other upload can be sent either.
        """
        try:
            return self._send(upload, now)
        except StoreUnavailableError as error:
            self._queue.postpone(upload, str(error), now)  # due as soon as the store is reached again
            raise
        except TransferError as error:
            self._queue.refuse(upload, str(error))
            return Sent(upload, UploadStep.REFUSED, str(error))

    def _send(self, upload: QueuedUpload, now: float) -> Sent:
        base = self._queue.base_of(upload)
        condition = _condition(upload, base)
        if _ASK_FIRST <= upload.size < FROM_SIZE and condition and self._is_refused(upload.path, condition):
            return self._compare(upload, self._look(upload.path), now)
        reply = self._put(upload, upload.path, condition)
        verdict = judge(reply)
        if verdict.step is UploadStep.MAKE_FOLDERS:
            if failed := self._make_folders(upload.path):
                return self._hold(upload, failed, now)
            reply = self._put(upload, upload.path, condition)
            verdict = judge(reply)
        if verdict.step is UploadStep.DELIVERED:
            return self._deliver(upload, upload.path, reply, now)
        if verdict.step is UploadStep.COMPARE:
            return self._compare(upload, self._look(upload.path), now)
        return self._hold(upload, verdict, now)

    def _compare(self, upload: QueuedUpload, there: KnownFile | None, now: float) -> Sent:
        """Decide what another version in the store means; an earlier try may have stored it unanswered."""
        if there is not None and there.size == upload.size and self._digest_of(there) == upload.sha256:
            self._queue.delivered(
                upload, KnownFile(upload.path, there.etag, upload.size, upload.sha256, upload.id)
            )
            return Sent(upload, UploadStep.DELIVERED)
        return self._keep_both(upload, now)

    def _keep_both(self, upload: QueuedUpload, now: float) -> Sent:
        """Store this version under a name of its own, beside the one that is there."""
        for number in range(_MOST_NAMES):
            name = conflict_name(upload.path, self._device, upload.queued, number)
            reply = self._put(upload, name, {"If-None-Match": "*"})
            verdict = judge(reply)
            if verdict.step is UploadStep.COMPARE:
                there = self._look(name)
                if there is None or self._digest_of(there) != upload.sha256:
                    continue
                return self._deliver(upload, name, Reply(204, {"etag": there.etag}), now, is_conflict=True)
            if verdict.step is UploadStep.DELIVERED:
                return self._deliver(upload, name, reply, now, is_conflict=True)
            return self._hold(upload, verdict, now)
        return self._hold(
            upload, UploadVerdict(UploadStep.REFUSED, "too many conflicting versions of this file"), now
        )

    def _deliver(
        self, upload: QueuedUpload, path: str, reply: Reply, now: float, *, is_conflict: bool = False
    ) -> Sent:
        etag = reply.headers.get("etag", "")
        if not etag:
            there = self._look(path)
            etag = there.etag if there is not None and self._digest_of(there) == upload.sha256 else ""
        file = KnownFile(path, etag, upload.size, upload.sha256, upload.id)
        conflict = Conflict(upload.path, path, now) if is_conflict else None
        self._queue.delivered(upload, file, conflict)
        return Sent(upload, UploadStep.DELIVERED, kept=path if is_conflict else "")

    def _hold(self, upload: QueuedUpload, verdict: UploadVerdict, now: float) -> Sent:
        if verdict.step is UploadStep.REFUSED:
            self._queue.refuse(upload, verdict.reason)
        elif verdict.step is UploadStep.RETRY:
            self._queue.postpone(upload, verdict.reason, now + pause_after(upload.tries, verdict.pause))
        else:
            self._queue.postpone(upload, verdict.reason, now, counts=False)
        return Sent(upload, verdict.step, verdict.reason, verdict.pause)

    def _put(self, upload: QueuedUpload, path: str, condition: dict[str, str]) -> Reply:
        headers = {**condition, "Repr-Digest": repr_digest(upload.sha256)}
        headers["Content-Type"] = "application/octet-stream"
        try:
            with open(self._queue.content_path(upload), "rb") as file:
                if os.fstat(file.fileno()).st_size != upload.size:
                    raise TransferError(_CHANGED)
                body = VerifiedContent(file, upload)
                if upload.size >= FROM_SIZE:
                    reply = put_rest(self._connection, f"/{path}", headers, body, upload.size)
                else:
                    reply = self._connection.upload(f"/{path}", headers, lambda: body.at(0), upload.size)
        except FileNotFoundError:
            raise TransferError("its content is no longer in the queue's folder") from None
        if body.is_changed:  # a hard link to a file that changed; the store compares the checksum as well
            raise TransferError(_CHANGED)
        return reply

    def _is_refused(self, path: str, condition: dict[str, str]) -> bool:
        """Return whether the store would refuse an upload because of its version of the file."""
        reply = self._connection.request("HEAD", f"/{path}", condition)
        return reply.status in (304, 412) or ("If-Match" in condition and reply.status == 404)

    def _look(self, path: str) -> KnownFile | None:
        """Return what the store has at a path; without a checksum where the store states none."""
        reply = self._connection.request("HEAD", f"/{path}", WANT)
        if reply.status == 404:
            return None
        if reply.status == 401:
            raise DeviceError(refused_credential(reply.text), NEW_INVITE)
        if not reply.is_success:
            raise StoreUnavailableError(f"the store answers {reply.status} when asked for {path}")
        size = reply.headers.get("content-length", "")
        digest = parse_repr_digest(reply.headers.get("repr-digest", "")) or ""
        return KnownFile(path, reply.headers.get("etag", ""), int(size) if size.isdecimal() else -1, digest)

    def _digest_of(self, file: KnownFile) -> str:
        """Return the checksum of a file in the store; it is read where the store states none."""
        if file.sha256:
            return file.sha256
        digest = hashlib.sha256()
        with self._connection.exchange("GET", f"/{file.path}") as response:
            if response.status != 200:
                return ""
            for block in self._connection.blocks(response):
                digest.update(block)
        return digest.hexdigest()

    def _make_folders(self, path: str) -> UploadVerdict | None:
        """Make the folders of a path; return why that is impossible."""
        parts = path.split("/")[:-1]
        for length in range(1, len(parts) + 1):
            reply = self._connection.request("MKCOL", f"/{'/'.join(parts[:length])}/")
            if not reply.is_success and reply.status != 405:  # 405: it is there
                verdict = judge(reply)
                usual = verdict.step in (UploadStep.COMPARE, UploadStep.MAKE_FOLDERS)
                return UploadVerdict(UploadStep.RETRY, "its folder cannot be made") if usual else verdict
        return (
            None
            if parts
            else UploadVerdict(UploadStep.RETRY, "the store reports a conflict with another request")
        )


_CHANGED: Final = "its content was changed after it was queued: queue the file again"
NEW_INVITE: Final = (
    "ask for a new invite (`fairlead augment invite`) and join again under the same name: the queue is kept"
)


def refused_credential(text: str) -> str:
    """Return the line for a credential that the store does not accept."""
    return f"the store refuses this device's credential{f': {text}' if text else ''}"


def _condition(upload: QueuedUpload, base: str | None) -> dict[str, str]:
    if upload.replace:
        return {}
    return {"If-Match": base} if base else {"If-None-Match": "*"}


def conflict_name(path: str, device: str, queued: float, number: int = 0) -> str:
    """Return the path of the device's version of a file that has another one in the store."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    stamp = datetime.fromtimestamp(queued, UTC).strftime("%Y%m%dT%H%M%SZ")
    more = f"-{number + 1}" if number else ""
    return f"{folder}{slash}{stem}.conflict-{device}-{stamp}{more}{dot}{ending}"
