"""ConnectedStore: the requests of a worker to the store of its job, over one connection."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from fairlead.device.connection import Reply, StoreConnection
from fairlead.device.digests import repr_digest
from fairlead.errors import StoreUnavailableError, TransferError

_AGAIN: Final = frozenset((401, 408, 425, 429, 500, 502, 503, 504, 507))
"""Answers after which a request may succeed later: a credential may be about to rotate."""
_MOST_REPLY: Final = 8 << 20


class ConnectedStore:
    """A link of one thread."""

    def __init__(
        self,
        connection: StoreConnection,
        job: str,
        *,
        token: Callable[[], str] | None = None,
    ) -> None:
        """Take a connection; `token` gives the credential of now."""
        self._connection = connection
        self._job = job
        self._token = token

    def exchange(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange with the coordinator."""
        self._show_token()
        data = json.dumps(document, separators=(",", ":")).encode()
        path, headers = f"/.fairlead/jobs/{self._job}/exchange", {"Content-Type": "application/json"}
        with self._connection.exchange("POST", path, headers, data) as response:
            body = b"".join(self._connection.blocks(response, _MOST_REPLY))
        _check(Reply(response.status, {}, body), f"job {self._job}")
        try:
            reply = json.loads(body)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise TransferError("the reply of the store is no document: is this a fairlead store?")
        return reply

    def fetch(self, where: str, target: str) -> None:
        """Write a file of the store into a file of this machine."""
        self._show_token()
        with self._connection.exchange("GET", where) as response:
            if response.status != 200:
                body = b"".join(self._connection.blocks(response, 4096))
                _check(Reply(response.status, {}, body), where)
                raise TransferError(f"{where}: the store answers {response.status}")
            with open(target, "wb") as out:
                for block in self._connection.blocks(response):
                    out.write(block)

    def stage(self, name: str, source: str, digest: str, size: int) -> str:
        """Upload a result, and return its path in the store."""
        self._show_token()
        path = f"/jobs/{self._job}/staged/{name}"
        headers = {"Repr-Digest": repr_digest(digest), "Content-Type": "application/octet-stream"}
        with open(source, "rb") as file:

            def begin() -> BinaryIO:
                file.seek(0)
                return file

            _check(self._connection.upload(path, headers, begin, size), path)
        return path

    def interrupt(self) -> None:
        """End the request that another thread waits for."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _show_token(self) -> None:
        if self._token is not None:
            self._connection.token = self._token()


class VolumeStage:
    """A link beside the volume: results are written into it, not uploaded."""

    def __init__(self, link: ConnectedStore, root: str, job: str) -> None:
        self.exchange = link.exchange
        self.fetch = link.fetch
        self.interrupt, self.close = link.interrupt, link.close
        self._root = root
        self._job = job

    def stage(self, name: str, source: str, digest: str, size: int) -> str:
        """Copy a result into the volume, and wait until it is on the disk."""
        del digest, size
        path = f"/jobs/{self._job}/staged/{name}"
        with open(source, "rb") as file, open(f"{self._root}{path}", "wb") as out:
            while block := file.read(1 << 20):
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
        return path


def _check(reply: Reply, path: str) -> None:
    if reply.is_success:
        return
    why = reply.text or f"the store answers {reply.status}"
    if reply.status in _AGAIN:
        raise StoreUnavailableError(f"{path}: {why}", "what is finished is kept and handed in later")
    raise RefusedExchangeError(reply.status, f"{path}: {why}")


class RefusedExchangeError(TransferError):
    """The store will not take a request as it is."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
