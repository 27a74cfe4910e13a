"""The owner of a session asks its store, with an admin token that is made for the visit."""

import json
import time
from collections.abc import Mapping
from typing import Any

from fairlead.augment.place import LocalSession, SessionPlace
from fairlead.device.connection import StoreConnection
from fairlead.device.session import PREFIX
from fairlead.errors import SessionError, TransferError
from fairlead.invite import ADMIN_LIFE, mint_admin, parse_key

_SECONDS = 10.0


def read_report(place: SessionPlace, session: LocalSession) -> Mapping[str, Any] | None:
    """Return what the store knows: its devices, use and quota; None: it does not answer."""
    try:
        return _ask(place, session, "GET", "report")
    except TransferError:
        return None


def ask_to_rotate(place: SessionPlace, session: LocalSession) -> list[str]:
    """Let the devices of a session rotate their credentials; return their names."""
    return list(_ask(place, session, "POST", "ask-to-rotate").get("devices") or ())


def session_key(place: SessionPlace) -> bytes:
    """Return the key of a session."""
    try:
        return parse_key(place.read_text("invite.key"))
    except ValueError as error:
        raise SessionError(f"{place.path('invite.key')}: {error}") from None


def _ask(place: SessionPlace, session: LocalSession, method: str, path: str) -> Mapping[str, Any]:
    token = mint_admin(session_key(place), time.time() + ADMIN_LIFE)
    connection = StoreConnection(session.url, session.fingerprint, token, _SECONDS)
    try:
        reply = connection.request(method, f"{PREFIX}/{path}")
    finally:
        connection.close()
    if not reply.is_success:
        raise TransferError(f"{session.url}: the store answers {reply.status}: {reply.text}")
    document = json.loads(reply.body)
    return document if isinstance(document, dict) else {}
