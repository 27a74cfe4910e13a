"""JobsClient: what the coordinator of a session's jobs is asked, over one connection."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

from fairlead.device.connection import Reply, StoreConnection
from fairlead.device.digests import repr_digest
from fairlead.device.download import download
from fairlead.errors import DeviceError, JobError, StoreUnavailableError, TransferError

JOBS: Final = "/.fairlead/jobs"
ENDED: Final = ("done", "cancelled")
"""States of a job that nobody works on any more."""
_JSON: Final = {"Content-Type": "application/json"}
Json = Mapping[str, Any]


class TokenSource(Protocol):
    """What a client shows to the store."""

    def current(self) -> Sequence[str]:
        """Return the tokens to show, in the order of trial: a new one may not be known to the store yet."""


@dataclass(frozen=True, slots=True)
class StoreDoor:
    """Where a store is, which certificate it shows, and what is shown to it."""

    url: str
    fingerprint: str
    tokens: TokenSource
    about: str = ""
    """What this is the store of, for people."""

    def client(self, reply_seconds: float = 60.0) -> "JobsClient":
        """Return a client with a connection of its own: one for each thread."""
        return JobsClient(self, reply_seconds)


@dataclass(frozen=True, slots=True)
class NamedInput:
    """An input as the coordinator knows it."""

    path: str
    digest: str
    """SHA-256, hexadecimal."""
    size: int
    is_stored: bool = False
    """Its bytes are in the store already."""

    def to_json(self) -> dict[str, Any]:
        """Return it for a request."""
        return {"path": self.path, "digest": self.digest, "size": self.size, "stored": self.is_stored}


@dataclass(frozen=True, slots=True)
class Room:
    """What the coordinator answers to inputs."""

    room: int
    """How many more it takes now."""
    wanted: tuple[str, ...]
    """Inputs whose bytes a worker elsewhere will need soon."""
    is_over: bool
    """The job has ended."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """A part of a list that may be long."""

    items: tuple[Json, ...]
    after: int
    """Where the next page begins."""
    is_last: bool
    """There is nothing more at the moment."""


class JobsClient:
    """Asks the coordinator; not for several threads."""

    def __init__(self, door: StoreDoor, reply_seconds: float = 60.0) -> None:
        self._door = door
        self._connection = StoreConnection(door.url, door.fingerprint, "", reply_seconds)

    def __enter__(self) -> "JobsClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def submit(self, spec: Json) -> str:
        """Make a job; return its id."""
        return str(self._ask("POST", "", spec)["job"])

    def jobs(self, state: str = "") -> list[Json]:
        """Return all jobs of the session, or those in a state."""
        return list(self._ask("GET", "", query=f"?state={state}" if state else "").get("jobs") or ())

    def job(self, job: str) -> Json:
        """Return the state, counts and rates of a job."""
        return self._ask("GET", f"/{job}")

    def cancel(self, job: str) -> Json:
        """Let no more inputs be worked on; what has a result keeps it."""
        return self._ask("POST", f"/{job}/cancel", {})

    def again(self, job: str) -> Json:
        """Let the failed inputs, and these alone, be worked on again."""
        return self._ask("POST", f"/{job}/again", {})

    def failures(self, job: str, after: int = 0) -> JobPage:
        """Return failed inputs, a page of them from after a number on."""
        return self._page(job, "failures", "input", after)

    def results(self, job: str, after: int = 0) -> JobPage:
        """Return results in the order of their commits, a page of them from after a number on."""
        return self._page(job, "results", "number", after)

    def name_inputs(
        self, job: str, inputs: Sequence[NamedInput], *, complete: bool, gone: Sequence[str] = ()
    ) -> Room:
        """Name inputs; `complete`: there will be no others; `gone`: these files cannot be read any more."""
        body = {"inputs": [each.to_json() for each in inputs], "complete": complete, "gone": list(gone)}
        said = self._ask("POST", f"/{job}/inputs", body)
        wanted = tuple(map(str, said.get("wanted") or ()))
        return Room(int(said.get("room", 0)), wanted, said.get("state") in ENDED)

    def upload_file(self, path: str, named: NamedInput, content: BinaryIO) -> None:
        """Put a file where the store serves it; what is there is replaced."""
        headers = {"Repr-Digest": repr_digest(named.digest), "Content-Type": "application/octet-stream"}

        def again() -> BinaryIO:
            content.seek(0)
            return content

        def send() -> Reply:
            return self._connection.upload(path, headers, again, named.size)

        reply = self._with_token(send)
        if reply.status == 409:
            self._make_folders(path)
            reply = self._with_token(send)
        if not reply.is_success:
            raise _refusal(reply, path)

    def fetch(self, path: str, target: str) -> str:
        """Fetch a file of the store and return its SHA-256; an interrupted fetch goes on where it ended."""
        self._with_token(lambda: self._connection.request("HEAD", f"/{path}"))
        return download(self._connection, path, target).file.sha256

    def has(self, path: str) -> bool:
        """Return whether the store has a file."""
        return self._with_token(lambda: self._connection.request("HEAD", path)).is_success

    def remove(self, path: str) -> None:
        """Remove a file of the store, if it is there."""
        self._with_token(lambda: self._connection.request("DELETE", path))

    def _make_folders(self, path: str) -> None:
        folder = ""
        for part in path.strip("/").split("/")[:-1]:
            folder = f"{folder}/{part}"
            self._make_folder(f"{folder}/")

    def _make_folder(self, folder: str) -> None:
        self._with_token(lambda: self._connection.request("MKCOL", folder))

    def _page(self, job: str, key: str, number: str, after: int) -> JobPage:
        found = self._ask("GET", f"/{job}/{key}", query=f"?after={after}")
        items = tuple(found.get(key) or ())
        return JobPage(items, int(items[-1][number]) if items else after, found.get("next") is None)

    def _ask(self, method: str, path: str, body: Json | None = None, query: str = "") -> dict[str, Any]:
        headers = {} if body is None else _JSON
        data = b"" if body is None else json.dumps(body).encode()
        reply = self._with_token(
            lambda: self._connection.request(method, f"{JOBS}{path}", headers, data, query)
        )
        if not reply.is_success:
            raise _refusal(reply, path)
        try:
            document = json.loads(reply.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise TransferError("the reply of the store is no document: is this a fairlead store?")
        return document

    def _with_token(self, send: Callable[[], Reply]) -> Reply:
        """Send a request with the first token that the store accepts."""
        tokens = self._door.tokens.current()
        reply = Reply(401, {})
        for token in tokens:
            self._connection.token = token
            reply = send()
            if reply.status != 401:
                return reply
        raise DeviceError(
            f"{self._door.url}: the store does not accept the credential: {reply.text or 'no reason'}",
            "join again with a new invite: `fairlead augment invite`",
        )


def _refusal(reply: Reply, path: str) -> Exception:
    text = reply.text or f"the store answers {reply.status}"
    if reply.status in (429, 500, 502, 503, 507):
        return StoreUnavailableError(f"the store takes no requests now: {text}")
    if reply.status == 404:
        return JobError(f"{path.strip('/') or 'jobs'}: {text}", "`fairlead augment jobs` lists the jobs")
    if reply.status in (400, 409, 422):
        return JobError(text)
    return TransferError(f"{path}: {text}")
