"""DeviceRegistry: the devices of a store, one file each; used invites are remembered for good."""

import hmac
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.invite import Invite, TokenRefusal
from fairlead.outfile import atomic_write
from fairlead.store.join.record import (
    CREDENTIAL,
    RECORD,
    DeviceRecord,
    accept,
    digest_of,
    issued,
    joined,
)

_SEEN_STEP: Final = 60.0
"""Seconds: a device that is seen again sooner costs no write."""
_PRIVATE: Final = 0o700


class DeviceRegistry:
    """The devices that have joined; one process at a time has a registry."""

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self._records = os.path.join(folder, "devices")
        self._invites = os.path.join(folder, "invites")
        for each in (self._records, self._invites):
            os.makedirs(each, mode=_PRIVATE, exist_ok=True)
        self._say = say
        self._lock = threading.Lock()
        self._by_id = {record.id: record for record in self._load()}

    def join(self, invite: Invite, device: str, nonce: str, now: float) -> str | TokenRefusal:
        """Return the credential of a device that joins; an invite is good for one device."""
        with self._lock:
            known = self._by_id.get(invite.id)
            if known is None and not self._claim(invite.id, digest_of(nonce)):
                return _USED
            if known is not None and (
                known.revoked or known.confirmed or not hmac.compare_digest(known.nonce, digest_of(nonce))
            ):
                return _USED
            secret = secrets.token_urlsafe(32)
            for other in list(self._by_id.values()):
                if other.device == device and other.id != invite.id and not other.revoked:
                    self._keep(replace(other, revoked="the device joined again"))
            self._keep(joined(invite.id, device, nonce, secret, now))
            return f"fld1.{invite.id}.{secret}"

    def authenticate(self, text: str, now: float) -> DeviceRecord | TokenRefusal:
        """Return the device that holds a credential."""
        found = CREDENTIAL.fullmatch(text)
        if found is None:
            return TokenRefusal("this is no credential of a device")
        digest = digest_of(found[2])
        with self._lock:
            record = self._by_id.get(found[1])
            if record is None:
                return TokenRefusal("this store knows no such device")
            used = accept(record, digest, now)
            if isinstance(used, TokenRefusal):
                return used
            if used != record or now - record.last_seen >= _SEEN_STEP:
                self._keep(replace(used, last_seen=now))
            return self._by_id[found[1]]

    def rotate(self, name: str, now: float) -> str:
        """Return a new credential of a device; the old one is valid until the new one is used."""
        with self._lock:
            secret = secrets.token_urlsafe(32)
            self._keep(issued(self._by_id[name], secret, now))
            return f"fld1.{name}.{secret}"

    def report(self, name: str, report: Mapping[str, Any], now: float) -> DeviceRecord:
        """Keep what a device reports."""
        with self._lock:
            self._keep(replace(self._by_id[name], report=report, last_seen=now))
            return self._by_id[name]

    def revoke(self, device: str, reason: str) -> list[str]:
        """Accept no credential of a device any more; an empty name: of none. Return the names."""
        return self._change(device, lambda record: replace(record, revoked=reason))

    def ask_to_rotate(self, device: str, now: float) -> list[str]:
        """Let a device rotate its credential at its next contact."""
        return self._change(device, lambda record: replace(record, rotate_after=now))

    def devices(self) -> list[DeviceRecord]:
        """Return all devices, the one that joined last first."""
        with self._lock:
            return sorted(self._by_id.values(), key=lambda record: record.joined, reverse=True)

    def _change(self, device: str, change: Callable[[DeviceRecord], DeviceRecord]) -> list[str]:
        with self._lock:
            chosen = [
                each for each in self._by_id.values() if not each.revoked and device in ("", each.device)
            ]
            for record in chosen:
                self._keep(change(record))
            return [record.device for record in chosen]

    def _claim(self, name: str, nonce: str) -> bool:
        """Remember that an invite was used; False: another device used it. It is on the disk then."""
        path = os.path.join(self._invites, name)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            with open(path, encoding="utf-8") as file:  # the store ended before it had a record of the device
                return hmac.compare_digest(file.read(), nonce)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(nonce)
            file.flush()
            os.fsync(handle)
        _sync_folder(self._invites)
        return True

    def _keep(self, record: DeviceRecord) -> None:
        with atomic_write(os.path.join(self._records, f"{record.id}.json"), text=True) as file:
            file.write(RECORD.encode(record))
        if record.id not in self._by_id:
            _sync_folder(self._records)
        self._by_id[record.id] = record

    def _load(self) -> list[DeviceRecord]:
        records = []
        for name in sorted(os.listdir(self._records)):
            path = os.path.join(self._records, name)
            if not name.endswith(".json"):
                continue
            try:
                with open(path, encoding="utf-8") as file:
                    records.append(RECORD.decode(file.read()))
            except (OSError, ValueError) as error:
                self._say(f"{path}: the record of a device cannot be read, and it must join again: {error}")
        return records


_USED: Final = TokenRefusal("this invite was used already")


def _sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
