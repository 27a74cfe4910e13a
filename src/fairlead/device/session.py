"""A device's session: join it, report to it, rotate its credential."""

import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.device.connection import Reply, StoreConnection
from fairlead.device.files import write_private
from fairlead.device.membership import Membership
from fairlead.device.place import DevicePlace
from fairlead.device.report import DeviceReport
from fairlead.device.upload import NEW_INVITE, refused_credential
from fairlead.errors import DeviceError, StoreUnavailableError, TransferError

PREFIX: Final = "/.fairlead"
_JOIN_LATER: Final = "compare the address with that of `fairlead augment invite`; the invite stays valid"
_JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is, and which certificate it shows."""

    url: str
    fingerprint: str


def join(
    place: DevicePlace,
    address: StoreAddress,
    invite: str,
    report: DeviceReport,
    application: Mapping[str, str],
) -> Membership:
    """Exchange an invite for a credential, and record it.

    The nonce is kept before the request is sent: if the reply is lost, the same device may repeat the join.
    """
    place.make()
    nonce = _pending_nonce(place, invite)
    connection = StoreConnection(address.url, address.fingerprint, invite, when_lost=_JOIN_LATER)
    try:
        body = json.dumps({"name": place.name, "nonce": nonce, "report": report.to_json()}).encode()
        reply = connection.request("POST", f"{PREFIX}/join", _JSON, body)
    finally:
        connection.close()
    terms = _terms(reply, "join", "`fairlead augment invite` prints a new invite")
    membership = Membership(
        place.name,
        address.url,
        address.fingerprint,
        str(terms.get("token") or ""),
        _number(terms, "expires"),
        _number(terms, "rotate_after"),
        session=str(terms.get("session") or ""),
        program=application.get("program", ""),
        image=application.get("image", ""),
    )
    if not membership.token:
        raise TransferError(
            f"{address.url}: the reply to a join has no credential: is this a fairlead store?"
        )
    place.write_membership(membership)
    os.unlink(place.pending)
    return membership


class SessionClient:
    """A connection with the device's credential; a new credential is kept before it is used."""

    def __init__(self, place: DevicePlace) -> None:
        self._place = place
        self.membership = place.read_membership()
        self.connection = StoreConnection(
            self.membership.url,
            self.membership.fingerprint,
            self.membership.next_token or self.membership.token,
        )

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> "SessionClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, report: DeviceReport) -> Mapping[str, Any]:
        """Send a report, and return what the store says of the session; this confirms a new credential."""
        body = json.dumps({"report": report.to_json()}).encode()
        reply = self._authorized(lambda: self.connection.request("PUT", f"{PREFIX}/report", _JSON, body))
        terms = _terms(reply, "report", NEW_INVITE)
        changed = replace(
            self.membership,
            token=self.connection.token,
            next_token="",
            expires=_number(terms, "expires"),
            rotate_after=_number(terms, "rotate_after"),
            session=str(terms.get("session") or ""),
        )
        if changed != self.membership:
            self._keep(changed)
        return terms

    def rotate(self) -> None:
        """Get the next credential; the next report confirms it."""
        reply = self._authorized(lambda: self.connection.request("POST", f"{PREFIX}/rotate", _JSON))
        token = str(_terms(reply, "rotate", NEW_INVITE).get("token") or "")
        if not token:
            raise TransferError("the reply to a rotation has no credential: the old one stays in use")
        self._keep(replace(self.membership, token=self.connection.token, next_token=token))
        self.connection.token = token

    def leave(self) -> None:
        """Let the store accept this device's credential no more."""
        _terms(
            self._authorized(lambda: self.connection.request("POST", f"{PREFIX}/leave", _JSON)), "leave", ""
        )

    def confirm(self) -> None:
        """Find out which credential is valid after an interrupted rotation."""
        if self.membership.next_token:
            self._authorized(lambda: self.connection.request("GET", f"{PREFIX}/probe/0"))

    def _authorized(self, send: Callable[[], Reply]) -> Reply:
        """Send a request; a new credential that is refused is given up for the old one."""
        reply = send()
        waiting = self.membership.next_token
        if reply.status == 401 and waiting and self.connection.token == waiting:
            self.connection.token = self.membership.token
            reply = send()
        if reply.status == 401:
            raise DeviceError(refused_credential(reply.text), NEW_INVITE)
        if waiting and reply.is_success:
            self._keep(replace(self.membership, token=self.connection.token, next_token=""))
        return reply

    def _keep(self, membership: Membership) -> None:
        self._place.write_membership(membership)
        self.membership = membership


def _pending_nonce(place: DevicePlace, invite: str) -> str:
    """Return the nonce of this join, the same one for a repeated join with the same invite."""
    name = invite.rpartition(".")[0]
    try:
        with open(place.pending, encoding="utf-8") as file:
            kept, _, nonce = file.read().partition(" ")
        if kept == name and nonce:
            return nonce
    except FileNotFoundError:
        pass
    nonce = secrets.token_hex(32)
    write_private(place.pending, f"{name} {nonce}".encode())
    return nonce


def _terms(reply: Reply, request: str, hint: str) -> Mapping[str, Any]:
    text = reply.text or f"the store answers {reply.status}"
    if reply.status in (400, 401, 403, 409):
        raise DeviceError(f"the store refuses the {request}: {text}", hint)
    if reply.status in (429, 500, 502, 503):
        raise StoreUnavailableError(f"the store takes no {request} now: {text}")
    if not reply.is_success:
        raise TransferError(
            f"the store answers {reply.status} to a {request}: {text}",
            "is this the address that `fairlead augment invite` printed?",
        )
    try:
        document = json.loads(reply.body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise TransferError(f"the reply to a {request} is no document: is this a fairlead store?")
    return document


def _number(terms: Mapping[str, Any], name: str) -> float:
    value = terms.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
