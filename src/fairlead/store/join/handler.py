"""The join protocol in a store: requests below the reserved path, and credentials of devices elsewhere."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any, Final

from fairlead.errors import SettingsError
from fairlead.invite import TokenRefusal, parse_key
from fairlead.serve.web.reloaded import ReloadedFiles, error_text
from fairlead.store.contents import Contents
from fairlead.store.credentials import CredentialHolder, secret_of
from fairlead.store.freeze import WriteFreeze
from fairlead.store.join.protocol import PREFIX, JoinProtocol, StoreUse
from fairlead.store.join.registry import DeviceRegistry
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody

Reply = tuple[str, list[tuple[str, str]], bytes]
_BLOCK: Final = 64 * 1024


class DeviceCredentials:
    """Accepts the credentials of devices that have joined."""

    def __init__(self, registry: DeviceRegistry, clock: Callable[[], float] = time.time) -> None:
        self._registry = registry
        self._clock = clock

    def accepts(self, secret: str) -> CredentialHolder | None:
        """Return the device that holds a credential."""
        record = self._registry.authenticate(secret, self._clock())
        return None if isinstance(record, TokenRefusal) else CredentialHolder(f"device {record.device}")


class JoinHandler:
    """Answers requests below the reserved path."""

    def __init__(self, protocol: JoinProtocol, freeze: WriteFreeze | None = None) -> None:
        self._protocol = protocol
        self._freeze = freeze or WriteFreeze()

    def __call__(self, path: str, environ: dict[str, Any], body: RequestBody) -> Reply:
        """Return status, headers and body of an answer."""
        name, method = path.removeprefix(PREFIX), environ["REQUEST_METHOD"]
        secret = secret_of(environ.get("HTTP_AUTHORIZATION", ""))
        # A credential that is made while the store is moved would be known to the old volume alone.
        with self._freeze.writing() if method == "POST" else nullcontext():
            reply = self._protocol.handle(method, name, secret, _RequestContent(body))
        if reply.refusal:
            raise RefusedError(reply.status, reply.refusal)
        status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
        headers = [("Cache-Control", "no-store")]
        if reply.probe is not None:
            return status, [*headers, ("Content-Type", "application/octet-stream")], bytes(reply.probe)
        return (
            status,
            [*headers, ("Content-Type", "application/json")],
            json.dumps(dict(reply.document)).encode(),
        )


def session_key(key_file: str, say: Callable[[str], None]) -> Callable[[], bytes]:
    """Return what gives the key of a session; it is read again when its file changes."""
    try:
        return ReloadedFiles((key_file,), lambda: _read_key(key_file), say).current
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the key of invites {key_file} cannot be used: {error_text(error)}",
            "`openssl rand -hex 32 > FILE` makes one",
        ) from None


def open_protocol(
    registry: DeviceRegistry, key: Callable[[], bytes], contents: Contents, session: str
) -> JoinProtocol:
    """Return the protocol of a store."""

    def use() -> StoreUse:
        usage = contents.account.usage()
        freeze = contents.freeze
        return StoreUse(usage.used, usage.quota, freeze.reason or "", freeze.quiet_since)

    return JoinProtocol(registry, key, use, session)


def _read_key(path: str) -> bytes:
    with open(path, "rb") as file:
        return parse_key(file.read(4096))


class _RequestContent:
    def __init__(self, body: RequestBody) -> None:
        self._body = body

    def read(self, most: int) -> bytes:
        return b"".join(self._blocks(most))

    def drop(self, most: int) -> int:
        return sum(map(len, self._blocks(most)))

    def _blocks(self, most: int) -> Iterator[bytes]:
        length, size = self._body.length, 0
        buffer = memoryview(bytearray(_BLOCK))
        while (length is None or length <= most) and (count := self._body.receive(buffer)):
            size += count
            if size > most:
                break
            yield bytes(buffer[:count])
        if max(length or 0, size) > most:
            raise RefusedError(413, f"a body of this request has at most {most} bytes")
        if length is not None and size != length:
            raise ConnectionError("the body ended before its stated length")
