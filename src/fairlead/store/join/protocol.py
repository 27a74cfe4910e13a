"""JoinProtocol: the requests below /.fairlead/, each answered with a status and a document."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from fairlead.invite import TokenRefusal, verify_admin, verify_invite
from fairlead.store.join.record import DeviceRecord
from fairlead.store.join.registry import DeviceRegistry

PREFIX: Final = "/.fairlead/"
MOST_BODY: Final = 256 * 1024
"""Bytes of a document."""
MOST_PROBE: Final = 8 * 1024 * 1024
"""Bytes of a probe of the link."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NONCE: Final = re.compile(r"[0-9a-f]{32,128}")
_PROBE: Final = re.compile(r"probe/([0-9]{1,8})")


@dataclass(frozen=True, slots=True)
class StoreUse:
    """The store as it is now."""

    used: int
    quota: int | None = None
    frozen: str = ""
    """Why writes are refused; empty: they are not."""
    quiet_since: float | None = None
    """Since when no write is in progress, in a freeze."""


@dataclass(frozen=True, slots=True)
class JoinReply:
    """A reply: a document, some bytes of a probe, or the line of a refusal."""

    status: int
    document: Mapping[str, Any] = field(default_factory=dict)
    probe: int | None = None
    refusal: str = ""


class Content(Protocol):
    """The body of a request, which is read only after its credential was accepted."""

    def read(self, most: int) -> bytes:
        """Return all of it; it is refused where it is longer."""

    def drop(self, most: int) -> int:
        """Read all of it, keep nothing, and return its length; it is refused where it is longer."""


class JoinProtocol:
    """Answers the requests of devices, and of whoever holds the session's key."""

    def __init__(
        self,
        registry: DeviceRegistry,
        key: Callable[[], bytes],
        use: Callable[[], StoreUse],
        session: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._key = key
        self._use = use
        self._session = session
        self._clock = clock
        self._by_request: dict[tuple[str, str], Callable[[str, Content], JoinReply]] = {
            ("POST", "join"): self._join,
            ("POST", "rotate"): self._rotate,
            ("POST", "leave"): self._leave,
            ("PUT", "report"): self._report,
            ("GET", "report"): self._reports,
            ("POST", "revoke"): self._revoke,
            ("POST", "ask-to-rotate"): self._ask_to_rotate,
            ("PUT", "probe"): self._take_probe,
        }

    def handle(self, method: str, path: str, secret: str, body: Content) -> JoinReply:
        """Answer a request; `path` is below the prefix, `secret` that of its Authorization header."""
        if method == "GET" and (found := _PROBE.fullmatch(path)):
            return self._send_probe(secret, int(found[1]))
        answer = self._by_request.get((method, path))
        if answer is None:
            return JoinReply(404, refusal="this path is reserved, and nothing is served there")
        return answer(secret, body)

    def _join(self, secret: str, body: Content) -> JoinReply:
        now = self._clock()
        invite = verify_invite(self._key(), secret, now)
        if isinstance(invite, TokenRefusal):
            return JoinReply(401, refusal=invite.reason)
        document = _document(body.read(MOST_BODY))
        name, nonce = document.get("name"), document.get("nonce")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return JoinReply(400, refusal="a device needs a name of lower-case letters, digits and hyphens")
        if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
            return JoinReply(400, refusal="a join needs a nonce in hexadecimal")
        if invite.device not in ("", name):
            return JoinReply(403, refusal=f"unknown device {name}: this invite is for {invite.device}")
        token = self._registry.join(invite, name, nonce, now)
        if isinstance(token, TokenRefusal):
            return JoinReply(409, refusal=token.reason)
        record = self._registry.report(invite.id, _report(document), now)
        return JoinReply(201, {"token": token, **self._terms(record)})

    def _rotate(self, secret: str, _: Content) -> JoinReply:
        record = self._registry.authenticate(secret, self._clock())
        if isinstance(record, TokenRefusal):
            return JoinReply(401, refusal=record.reason)
        return JoinReply(200, {"token": self._registry.rotate(record.id, self._clock())})

    def _leave(self, secret: str, _: Content) -> JoinReply:
        record = self._registry.authenticate(secret, self._clock())
        if isinstance(record, TokenRefusal):
            return JoinReply(401, refusal=record.reason)
        self._registry.revoke(record.device, "the device left the session")
        return JoinReply(200)

    def _report(self, secret: str, body: Content) -> JoinReply:
        record = self._registry.authenticate(secret, self._clock())
        if isinstance(record, TokenRefusal):
            return JoinReply(401, refusal=record.reason)
        kept = self._registry.report(record.id, _report(_document(body.read(MOST_BODY))), self._clock())
        return JoinReply(200, {**self._terms(kept), **self._use_document()})

    def _reports(self, secret: str, _: Content) -> JoinReply:
        if refusal := self._refuse_admin(secret):
            return refusal
        devices = [device_document(record) for record in self._registry.devices()]
        last = next((each for each in devices if not each["revoked"]), None)
        first = {name: last[name] if last else None for name in ("device", "report", "last_seen")}
        return JoinReply(200, {**first, **self._use_document(), "devices": devices})

    def _revoke(self, secret: str, body: Content) -> JoinReply:
        if refusal := self._refuse_admin(secret):
            return refusal
        document = _document(body.read(MOST_BODY))
        reason = str(document.get("reason") or "the session's owner revoked it")[:200]
        return JoinReply(200, {"devices": self._registry.revoke(str(document.get("device") or ""), reason)})

    def _ask_to_rotate(self, secret: str, body: Content) -> JoinReply:
        if refusal := self._refuse_admin(secret):
            return refusal
        name = str(_document(body.read(MOST_BODY)).get("device") or "")
        return JoinReply(200, {"devices": self._registry.ask_to_rotate(name, self._clock())})

    def _take_probe(self, secret: str, body: Content) -> JoinReply:
        record = self._registry.authenticate(secret, self._clock())
        if isinstance(record, TokenRefusal):
            return JoinReply(401, refusal=record.reason)
        return JoinReply(200, {"bytes": body.drop(MOST_PROBE)})

    def _send_probe(self, secret: str, size: int) -> JoinReply:
        record = self._registry.authenticate(secret, self._clock())
        if isinstance(record, TokenRefusal):
            return JoinReply(401, refusal=record.reason)
        if size > MOST_PROBE:
            return JoinReply(413, refusal=f"a probe has at most {MOST_PROBE} bytes")
        return JoinReply(200, probe=size)

    def _refuse_admin(self, secret: str) -> JoinReply | None:
        refused = verify_admin(self._key(), secret, self._clock())
        return JoinReply(401, refusal=refused.reason) if refused else None

    def _terms(self, record: DeviceRecord) -> dict[str, Any]:
        return {
            "device": record.device,
            "session": self._session,
            "expires": record.expires,
            "rotate_after": record.rotate_after,
        }

    def _use_document(self) -> dict[str, Any]:
        use = self._use()
        quiet = {} if use.quiet_since is None else {"quiet_since": use.quiet_since}
        return {"used": use.used, "quota": use.quota, "frozen": use.frozen, **quiet}


def device_document(record: DeviceRecord) -> dict[str, Any]:
    """Return what the session's owner may know of a device: no digest of a credential."""
    return {
        "device": record.device,
        "id": record.id,
        "joined": record.joined,
        "last_seen": record.last_seen,
        "expires": record.expires,
        "revoked": record.revoked,
        "report": dict(record.report),
    }


def _report(document: Mapping[str, Any]) -> Mapping[str, Any]:
    report = document.get("report")
    return report if isinstance(report, dict) else {}


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
