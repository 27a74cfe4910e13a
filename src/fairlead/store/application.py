"""The store as a WSGI application: who asks, whether it may be, and which part answers."""

import io
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Semaphore
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead.store.conditions import CONDITIONS, failed_condition
from fairlead.store.contents import Contents
from fairlead.store.credentials import CredentialHolder, Credentials, secret_of
from fairlead.store.dav.application import METHODS, DavApplication
from fairlead.store.http.body import body_of, read_whole
from fairlead.store.http.rate import RateLimit
from fairlead.store.parts import PartialUploads
from fairlead.store.paths import is_reserved, path_of
from fairlead.store.reads import Answer, read_file
from fairlead.store.refusal import RefusedError, refusal_of
from fairlead.store.reserved import ReservedPaths
from fairlead.store.writes import write_file

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
_WRITING: Final = frozenset(("PUT", "PROPPATCH", "MKCOL", "DELETE", "COPY", "MOVE", "LOCK"))
_CONDITIONAL: Final = frozenset(("PROPPATCH", "DELETE", "COPY", "MOVE", "LOCK"))
_XML_LIMIT: Final = 256 << 10
"""Bytes of a body that is no file."""
_REALM: Final = (
    ("WWW-Authenticate", 'Basic realm="fairlead", charset="UTF-8"'),
    ("WWW-Authenticate", "Bearer"),
)


@dataclass(frozen=True, slots=True)
class StoreApplication:
    """Answers requests."""

    contents: Contents
    parts: PartialUploads
    dav: DavApplication
    credentials: Credentials
    rate: RateLimit
    say: Callable[[str], None]
    uploads: Semaphore
    reserved: ReservedPaths | None = None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        try:
            return self._answer(environ, start_response)
        except RefusedError as refusal:
            return _refuse(refusal, environ, start_response)
        except OSError as error:
            if isinstance(error, ConnectionError | TimeoutError):
                raise
            cause = refusal_of(error)
            if cause.status >= 500:
                self.say(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}: {error}")
            return _refuse(cause, environ, start_response)
        except Exception:  # noqa: BLE001  # one request must not end the program
            self.say(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}: {traceback.format_exc()}")
            return _refuse(RefusedError(500, "the store failed; its log says why"), environ, start_response)

    def _answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = path_of(environ.get("REQUEST_URI") or environ["PATH_INFO"])
        if is_reserved(path):
            return self._reserved(path, environ, start_response)
        holder = self._holder(environ)
        self.rate.check(holder.name)
        method = environ["REQUEST_METHOD"]
        if method in ("GET", "HEAD"):
            return _send(read_file(self.contents, path, environ), start_response)
        if method != "PUT" and method not in METHODS:
            raise RefusedError(
                405, f"{method} is not served", (("Allow", ", ".join(("GET, HEAD, PUT", *sorted(METHODS)))),)
            )
        if path == "/" and method in ("DELETE", "MOVE"):
            raise RefusedError(403, "the root of the store cannot be removed")
        if method not in _WRITING:
            return self._dav(path, environ, start_response, holder)
        with self.contents.freeze.writing():
            if method == "PUT":
                with self._upload_slot():
                    answer = write_file(
                        self.contents, self.parts, self.dav, path, environ, holder, body_of(environ)
                    )
                return _send(answer, start_response)
            # Its answer is complete before the write is counted as done.
            return list(self._dav(path, environ, start_response, holder))

    @contextmanager
    def _upload_slot(self) -> Iterator[None]:
        """Count an upload: however many there are, some threads are left for other requests."""
        if not self.uploads.acquire(blocking=False):
            raise RefusedError(503, "too many uploads at once", (("Retry-After", "1"),))
        try:
            yield
        finally:
            self.uploads.release()

    def _dav(
        self, path: str, environ: Environ, start_response: StartResponse, holder: CredentialHolder
    ) -> Iterable[bytes]:
        data = read_whole(body_of(environ), _XML_LIMIT)
        environ["wsgi.input"] = io.BytesIO(data)
        environ["CONTENT_LENGTH"] = str(len(data))
        environ["PATH_INFO"] = path.encode("utf-8").decode("latin-1")
        self._check_conditions(path, environ)
        if "HTTP_DESTINATION" in environ:
            destination = path_of(urlsplit(environ["HTTP_DESTINATION"]).path)
            if is_reserved(destination):
                raise RefusedError(403, "this destination is reserved")
        return self.dav(environ, start_response, holder)

    def _check_conditions(self, path: str, environ: Environ) -> None:
        """Check conditions on the file of a request that changes it; WsgiDAV knows one form of its ETags."""
        if environ["REQUEST_METHOD"] not in _CONDITIONAL:
            return
        entry = self.contents.jail.entry(path)
        if entry is None or entry.is_folder:
            return
        failed = failed_condition(environ, self.contents.version(entry), reading=False)
        if failed is not None:
            raise RefusedError(failed, "a condition does not hold: the file is another one")
        for name in CONDITIONS:
            environ.pop(name, None)

    def _reserved(self, path: str, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self.reserved is None:
            self._holder(environ)
            raise RefusedError(404, "this path is reserved, and nothing is served there")
        status, headers, page = self.reserved(path, environ, body_of(environ))
        start_response(status, [*headers, ("Content-Length", str(len(page)))])
        return [page]

    def _holder(self, environ: Environ) -> CredentialHolder:
        secret = secret_of(environ.get("HTTP_AUTHORIZATION", ""))
        holder = self.credentials.accepts(secret) if secret else None
        if holder is None:
            why = "this credential is not valid, or no longer" if secret else "a credential is needed"
            raise RefusedError(401, why, _REALM)
        return holder


def _send(answer: Answer, start_response: StartResponse) -> Iterable[bytes]:
    start_response(answer.status, answer.headers)
    return answer.body if answer.body is not None else []


def _refuse(refusal: RefusedError, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    kind, page = refusal.page
    headers = [*refusal.headers, ("Content-Type", kind), ("Content-Length", str(len(page)))]
    if refusal.status == 304:
        headers, page = list(refusal.headers), b""
    start_response(f"{refusal.status.value} {refusal.status.phrase}", headers, sys.exc_info())
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [page]
