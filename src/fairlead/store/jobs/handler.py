"""The jobs of a store over HTTP: requests below /.fairlead/jobs."""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from fairlead.invite import verify_admin
from fairlead.store.contents import Contents
from fairlead.store.credentials import Credentials, secret_of
from fairlead.store.http.body import read_whole
from fairlead.store.jobs.coordinator import SplitCoordinator
from fairlead.store.jobs.database import JobsDatabase
from fairlead.store.jobs.placing import ResultPlacer, make_folders, staged_digest
from fairlead.store.jobs.records import OfferedResult
from fairlead.store.jobs.requests import (
    WorkerExchange,
    check_staged,
    parse_exchange,
    parse_gone,
    parse_inputs,
)
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody

PREFIX: Final = "/.fairlead/jobs"
Reply = tuple[str, list[tuple[str, str]], bytes]
_MOST_BODY: Final = 8 << 20
_ID: Final = re.compile(r"[0-9a-f]{10}")
_CHALLENGE: Final = (("WWW-Authenticate", "Bearer"),)


class JobsHandler:
    """Answers requests of feeders, workers and users; the database is made with the first job."""

    def __init__(
        self,
        contents: Contents,
        folder: str,
        credentials: Credentials,
        say: Callable[[str], None],
        *,
        key: Callable[[], bytes] | None = None,
        waiters: int = 16,
    ) -> None:
        """`folder` has the state of the store; `key` is that of its session."""
        self._contents = contents
        self._path = f"{folder}/jobs.sqlite"
        self._credentials = credentials
        self._say = say
        self._key = key
        self._waiters = waiters
        self._coordinator: SplitCoordinator | None = None
        self._placer: ResultPlacer | None = None
        self._lock = threading.Lock()
        if os.path.exists(self._path):
            self._opened()

    def close(self) -> None:
        """End what works beside the requests, and close the database."""
        if self._placer is not None:
            self._placer.stop()
        if self._coordinator is not None:
            with self._coordinator.changed:
                self._coordinator.database.close()

    def __call__(self, path: str, environ: dict[str, Any], body: RequestBody) -> Reply:
        """Return status, headers and body of an answer."""
        self._check(secret_of(environ.get("HTTP_AUTHORIZATION", "")))
        method, rest = environ["REQUEST_METHOD"], path.removeprefix(PREFIX).strip("/").split("/")
        query = parse_qs(environ.get("QUERY_STRING", ""))
        if method == "GET":
            status, document = 200, self._read(rest, query)
        elif method == "POST":
            status, document = self._write(rest, _parsed(read_whole(body, _MOST_BODY)))
        else:
            raise RefusedError(405, f"{method} is not served here", (("Allow", "GET, POST"),))
        line = f"{status} {HTTPStatus(status).phrase}"
        headers = [("Cache-Control", "no-store"), ("Content-Type", "application/json")]
        return line, headers, json.dumps(document, separators=(",", ":")).encode()

    def _read(self, rest: list[str], query: Mapping[str, list[str]]) -> dict[str, Any]:
        if rest == [""]:
            return {"jobs": self._jobs(query.get("state", [""])[-1])}
        coordinator, name = self._known(rest[0])
        after = query.get("after", ["0"])[-1]
        number = int(after) if after.isdecimal() and len(after) < 19 else 0
        if rest[1:] == []:
            return coordinator.job(name)
        if rest[1:] == ["failures"]:
            return coordinator.failures(name, number)
        if rest[1:] == ["results"]:
            return coordinator.results(name, number)
        raise _nothing()

    def _jobs(self, state: str) -> list[dict[str, Any]]:
        return [] if self._coordinator is None else self._coordinator.jobs(state)

    def _write(self, rest: list[str], content: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        if rest == [""]:
            with self._contents.freeze.writing():
                coordinator = self._opened()
                name = coordinator.make(content)
                for folder in ("in", "out", "staged"):
                    make_folders(self._contents, f"/jobs/{name}/{folder}/file")
            return 201, {"job": name}
        coordinator, name = self._known(rest[0])
        if rest[1:] == ["exchange"]:
            return 200, self._exchange(coordinator, name, parse_exchange(content))
        with self._contents.freeze.writing():
            if rest[1:] == ["inputs"]:
                return 200, self._add(coordinator, name, content)
            if rest[1:] == ["cancel"]:
                return 200, coordinator.cancel(name)
            if rest[1:] == ["again"]:
                with coordinator.changed:  # uploads of jobs that have ended are removed
                    make_folders(self._contents, f"/jobs/{name}/staged/file")
                    return 200, coordinator.again(name)
        raise _nothing()

    def _add(self, coordinator: SplitCoordinator, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
        inputs, complete = parse_inputs(content)
        reply = coordinator.add(name, inputs, complete=complete, gone=parse_gone(content))
        for path in reply["wanted"]:
            with suppress(OSError, RefusedError):  # its upload says what is wrong
                make_folders(self._contents, f"/jobs/{name}/in/{path}")
        return reply

    def _exchange(self, coordinator: SplitCoordinator, name: str, request: WorkerExchange) -> dict[str, Any]:
        if request.results and self._placer is not None and self._placer.is_behind:
            raise RefusedError(507, "earlier results wait for room on the volume")
        staged = [each for each in request.results if each.staged]
        for each in staged:
            if not coordinator.is_result(each.staged, each.input):
                self._check_staged(name, each)
        reply = coordinator.exchange(name, request)
        for each in staged:
            # What lost against another result is removed; one that is handed in again stays.
            if each.input in reply["dropped"] and not coordinator.is_result(each.staged, each.input):
                with suppress(OSError, RefusedError), self._contents.freeze.writing():
                    self._contents.remove(each.staged)
        return reply

    def _check_staged(self, name: str, result: OfferedResult) -> None:
        if not result.staged.startswith(f"/jobs/{name}/staged/"):
            raise RefusedError(400, f"staged: results of this job are uploaded below /jobs/{name}/staged/")
        check_staged(result, lambda path: staged_digest(self._contents, path))

    def _known(self, name: str) -> tuple[SplitCoordinator, str]:
        if self._coordinator is None or not _ID.fullmatch(name):
            raise RefusedError(404, f"{name}: there is no such job")
        return self._coordinator, name

    def _opened(self) -> SplitCoordinator:
        with self._lock:
            if self._coordinator is None:
                database = JobsDatabase(self._path, sync=self._contents.staging.is_synced)
                self._coordinator = SplitCoordinator(
                    database, writing=self._contents.freeze.writing, waiters=self._waiters
                )
                self._placer = ResultPlacer(self._coordinator, self._contents, self._say)
                self._placer.start()
            return self._coordinator

    def _check(self, secret: str) -> None:
        if secret and self._credentials.accepts(secret) is not None:
            return
        if secret and self._key is not None and verify_admin(self._key(), secret, time.time()) is None:
            return
        why = "this credential is not valid, or no longer" if secret else "a credential is needed"
        raise RefusedError(401, why, _CHALLENGE)


def _nothing() -> RefusedError:
    return RefusedError(404, "this path is reserved, and nothing is served there")


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise RefusedError(400, "the body of this request is a JSON document") from None
    if not isinstance(document, dict):
        raise RefusedError(400, "the body of this request is a JSON document")
    return document
