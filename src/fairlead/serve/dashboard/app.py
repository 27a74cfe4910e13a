"""The application: routes of the API, for the viewer of each request's token."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead import __version__
from fairlead.dashboard.answers import ACTIONS, About, Done, TableInfo, TablePage, ViewerInfo, encode
from fairlead.dashboard.row_types import ApiAnswer, Row
from fairlead.dashboard.source import DashboardSource
from fairlead.dashboard.viewer import TenantNames, Viewer, scrub_text, visible
from fairlead.errors import (
    AccessError,
    ClusterUnavailableError,
    FairleadError,
    NotFoundError,
    TooManyRequestsError,
)
from fairlead.serve.dashboard.access import Access, Unavailable, bearer
from fairlead.serve.dashboard.bodies import action_target, read_body
from fairlead.serve.dashboard.events import ChangeEncoder, EventStream, visible_count
from fairlead.serve.dashboard.faults import ApiFault
from fairlead.serve.dashboard.gate import RequestGate
from fairlead.serve.dashboard.openapi import openapi
from fairlead.serve.dashboard.page import page

MOST_ROWS: Final = 5000
_ROWS: Final = 500
_SERIES: Final = 86_400.0
_STATUS: Final[dict[type[FairleadError], int]] = {
    AccessError: 403,
    NotFoundError: 404,
    ClusterUnavailableError: 503,
    TooManyRequestsError: 503,
}
"""What an error of the source is to its reader; every other is a conflict."""
_LAST_ID: Final = 20
"""The most digits of a revision."""
A = TypeVar("A", bound=ApiAnswer)
Handler = Callable[[Request, Viewer], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what one server holds open."""

    streams: int = 64
    """Streams of events at once."""
    streams_each: int = 24
    """Of one viewer."""


@dataclass(slots=True)
class Dashboard:
    """What the handlers share."""

    source: DashboardSource
    access: Access
    limits: Limits = Limits()
    names: TenantNames = field(default_factory=TenantNames)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server ends: streams end then."""
    _encoder: ChangeEncoder = field(init=False)
    _streams: dict[str, int] = field(default_factory=dict)
    """Open streams by the viewer's name."""

    def __post_init__(self) -> None:
        board = self.source.board
        for table in board.tables.values():
            self.names.on_rows("", table.rows.values(), ())
        board.listen(self.names.on_rows)
        self._encoder = ChangeEncoder(board, self.names)

    def app(self, hosts: Collection[str]) -> ASGIApp:
        """Return the application; it answers requests that name one of these hosts."""
        api: tuple[tuple[str, Handler], ...] = (
            ("/api/v1/about", self.about),
            ("/api/v1/tables/{name}", self.table),
            ("/api/v1/events", self.events),
            ("/api/v1/workloads/{key:path}/why", self.why),
            ("/api/v1/models/{key:path}/devices", self.predictions),
            ("/api/v1/pipelines/{key:path}/frames/{frame}", self.frame),
            ("/api/v1/pipelines/{key:path}", self.pipeline),
            ("/api/v1/devices/{key:path}/series", self.series),
            ("/api/v1/simulations/{key:path}", self.simulation),
            ("/api/v1/openapi.json", self.openapi),
        )
        routes = [Route(path, self._for_viewer(handler), methods=["GET"]) for path, handler in api]
        routes += [
            Route("/api/v1/actions/{action}", self.act, methods=["POST"]),
            Route("/healthz", _healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
            Route("/{path:path}", page, methods=["GET"]),
        ]
        handlers: dict[Any, Any] = {
            ApiFault: _answer_fault,
            HTTPException: _answer_http,
            Exception: _answer_error,
        }
        inner = Starlette(routes=routes, exception_handlers=handlers)
        return RequestGate(inner, hosts)

    def _for_viewer(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            return await handler(request, await self.viewer(request))

        return handle

    async def viewer(self, request: Request) -> Viewer:
        """Return the viewer of a request."""
        token = bearer(request.headers.getlist("authorization"))
        viewer = await self.access(token) if token else None
        if isinstance(viewer, Unavailable):
            raise ApiFault(503, "the token cannot be checked now", viewer.reason, "try again in a moment")
        if viewer is None:
            what = "the token is not valid" if token else "a token is required"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiFault(401, what, "Authorization", "send the header Authorization: Bearer TOKEN", headers)
        return viewer

    async def about(self, _request: Request, viewer: Viewer) -> Response:
        """Answer with the program, its source and the viewer."""
        board = self.source.board
        scrub = self.names.scrubber(viewer)
        tables = {
            name: TableInfo(rows=visible_count(board, name, viewer), command=table.command)
            for name, table in board.tables.items()
        }
        namespaces = ("*",) if viewer.namespaces is None else tuple(sorted(viewer.namespaces))
        stale = (scrub_text(entry, scrub) for entry in board.stale.values())
        return _json(
            About(
                version=__version__,
                source=self.source.info,
                viewer=ViewerInfo(name=viewer.name, namespaces=namespaces, actions=viewer.actions),
                tables=tables,
                stale=tuple(stale),
                now=board.clock(),
            )
        )

    async def table(self, request: Request, viewer: Viewer) -> Response:
        """Answer with rows of a table."""
        name = request.path_params["name"]
        board = self.source.board
        table = board.tables.get(name)
        if table is None:
            known = ", ".join(board.tables)
            raise ApiFault(404, "no such table", name[:80], f"the tables are {known}")
        limit = _number(request, "limit", _ROWS, 1, MOST_ROWS)
        scrub = self.names.scrubber(viewer)
        rows: list[Row] = []
        following: str | None = None
        for row in table.after(request.query_params.get("after")):
            if (shown := visible(row, viewer, scrub)) is None:
                continue
            if len(rows) == limit:
                following = rows[-1].key
                break
            rows.append(shown)
        stale = board.table_stale(name)
        answer = TablePage(
            table=name,
            revision=board.revision,
            total=visible_count(board, name, viewer),
            next=following,
            rows=rows,
            command=table.command,
            stale=scrub_text(stale, scrub) if stale is not None else None,
        )
        return Response(encode(answer), media_type="application/json")

    async def events(self, request: Request, viewer: Viewer) -> Response:
        """Answer with a stream of events."""
        board = self.source.board
        asked = request.query_params.get("tables", "")
        tables = [name for name in asked.split(",") if name] or list(board.tables)
        if unknown := [name for name in tables if name not in board.tables]:
            known = ", ".join(board.tables)
            raise ApiFault(400, "no such table", f"tables={unknown[0][:80]}", f"the tables are {known}")
        since = _last_event_id(request, board.revision)
        self._take_stream(viewer)
        token = bearer(request.headers.getlist("authorization"))

        async def recheck() -> Viewer | None:
            checked = await self.access(token)
            return viewer if isinstance(checked, Unavailable) else checked

        stream = EventStream(board, self._encoder, self.names, viewer, tables, recheck, self.closing, since)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return _Stream(stream, lambda: self._release_stream(viewer.name), headers)

    def _take_stream(self, viewer: Viewer) -> None:
        everyone, own = sum(self._streams.values()), self._streams.get(viewer.name, 0)
        if everyone >= self.limits.streams or own >= self.limits.streams_each:
            hint = "close other windows of the dashboard, or try again in a moment"
            raise ApiFault(429, "too many streams are open", "/api/v1/events", hint, {"Retry-After": "5"})
        self._streams[viewer.name] = own + 1

    def _release_stream(self, name: str) -> None:
        self._streams[name] -= 1
        if not self._streams[name]:
            del self._streams[name]

    async def why(self, request: Request, viewer: Viewer) -> Response:
        """Answer with why a workload is where it is, or why it waits."""
        key = self._visible_key(request, viewer, "workloads")
        answer = await self.source.why(key)
        scrub = self.names.scrubber(viewer)
        return _json(_found(scrub_text(answer, scrub) if answer is not None else None, key))

    async def predictions(self, request: Request, viewer: Viewer) -> Response:
        """Answer with a model's predicted latency on every device."""
        key = self._visible_key(request, viewer, "models")
        return _json(_found(await self.source.predictions(key), key))

    async def pipeline(self, request: Request, viewer: Viewer) -> Response:
        """Answer with a pipeline."""
        key = self._visible_key(request, viewer, "pipelines")
        answer = _found(await self.source.pipeline(key), key)
        return _json(scrub_text(answer, self.names.scrubber(viewer)))

    async def frame(self, request: Request, viewer: Viewer) -> Response:
        """Answer with the trace of a frame."""
        key = self._visible_key(request, viewer, "pipelines")
        frame = request.path_params["frame"]
        return _json(_found(await self.source.frame(key, frame), f"{key}, frame {frame[:80]}"))

    async def series(self, request: Request, viewer: Viewer) -> Response:
        """Answer with the measured values of an accelerator."""
        key = self._visible_key(request, viewer, "devices")
        seconds = _number(request, "seconds", 600, 1, int(_SERIES))
        board = self.source.board
        command = board.tables["devices"].command
        return _json(self.source.series.read(key, board.clock() - seconds, command))

    async def simulation(self, request: Request, viewer: Viewer) -> Response:
        """Answer with a simulated run."""
        key = self._visible_key(request, viewer, "simulations")
        return _json(_found(await self.source.simulation(key), key))

    async def act(self, request: Request) -> Response:
        """Do what a viewer asks, where that is allowed here, with their own rights."""
        viewer = await self.viewer(request)
        name = str(request.path_params["action"])
        kind = ACTIONS.get(name)
        if kind is None:
            raise ApiFault(404, "no such action", name[:80], f"the actions are {', '.join(ACTIONS)}")
        if name not in viewer.actions:
            hint = "the server must be started with --allow, and you need the right in the cluster"
            raise ApiFault(403, f"{viewer.name} may not {name} here", "/api/v1/actions", hint)
        action = await read_body(request, kind)
        key, table = action_target(action)
        self._check_visible(key, viewer, table)
        token = bearer(request.headers.getlist("authorization"))
        done = await self.source.act(action, token)
        if done is None:
            raise ApiFault(404, "it is gone", key[:200], "look again")
        return _json(Done(done=self.names.scrubber(viewer)(done)))

    async def openapi(self, _request: Request, _viewer: Viewer) -> Response:
        """Answer with the description of this API."""
        return Response(encode(openapi()), media_type="application/json")

    async def readyz(self, _request: Request) -> Response:
        """Answer whether the source has been read."""
        ready = self.source.ready
        return PlainTextResponse("ready\n" if ready else "the source is being read\n", 200 if ready else 503)

    def _visible_key(self, request: Request, viewer: Viewer, table: str) -> str:
        """Return the key that a request names; 404 where there is no such row that the viewer may see."""
        key = str(request.path_params["key"])
        self._check_visible(key, viewer, table)
        return key

    def _check_visible(self, key: str, viewer: Viewer, table: str) -> None:
        known = self.source.board.tables.get(table)
        row = known.rows.get(key) if known is not None else None
        if row is None or visible(row, viewer, str) is None:
            raise ApiFault(404, f"not in the table of {table}", key[:200], f"see /api/v1/tables/{table}")


class _Stream(StreamingResponse):
    """A stream of events; it is released when it ends, also one that never began."""

    def __init__(self, stream: EventStream, release: Callable[[], None], headers: dict[str, str]) -> None:
        super().__init__(stream.events(), 200, headers, "text/event-stream")
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


def _found(answer: A | None, key: str) -> A:
    if answer is None:
        raise ApiFault(404, "nothing is known of it", key[:200], "look again: it may be gone")
    return answer


def _json(answer: ApiAnswer) -> Response:
    return Response(encode(answer), media_type="application/json")


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise ApiFault(
            400, f"not a number from {least} to {most}", f"{name}={text[:40]}", f"choose {name} so"
        )
    return int(text)


def _last_event_id(request: Request, now: int) -> int:
    """Return the revision from which a stream goes on; one above ours is of another server."""
    text = request.headers.get("last-event-id", "")
    if not text:
        return now
    if not (text.isascii() and text.isdecimal() and len(text) <= _LAST_ID):
        raise ApiFault(400, "not a revision", f"Last-Event-ID: {text[:40]}", "send the id of an event")
    return int(text) if int(text) <= now else 0


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _answer_fault(_request: Request, error: ApiFault) -> Response:
    return error.response()


async def _answer_http(request: Request, error: HTTPException) -> Response:
    what = {404: "no such path", 405: "no such method here"}.get(error.status_code, error.detail)
    where = f"{request.method} {request.url.path[:200]}"
    hint = "see /api/v1/openapi.json"
    return ApiFault(error.status_code, what, where, hint, error.headers or {}).response()


async def _answer_error(request: Request, error: Exception) -> Response:
    where = request.url.path[:200]
    if isinstance(error, FairleadError):
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 409)
        return ApiFault(status, str(error), where, error.hint).response()
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    return ApiFault(500, f"a fault of this program: {type(error).__name__}", where, "see its log").response()
