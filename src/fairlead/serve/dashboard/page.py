"""The page: its files from the package, in memory, also compressed; they hold no data and need no token."""

import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fairlead.serve.dashboard.faults import ApiFault

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "json": "application/json",
    "woff2": "font/woff2",
    "webmanifest": "application/manifest+json",
    "txt": "text/plain; charset=utf-8",
}
_PACKED: Final = frozenset({"html", "js", "css", "svg", "json"})
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_FRESH: Final = "no-cache"
_NOT_BUILT: Final = (
    "The page is not built in this installation. The API is at /api/v1/about, with the token in the header "
    "Authorization: Bearer TOKEN; /api/v1/openapi.json describes it.\n"
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    content: bytes
    packed: bytes | None
    """With gzip; None: it would not become smaller."""
    type: str
    immutable: bool


@cache
def page_files() -> dict[str, PageFile]:
    """Return the files of the page by their paths; none where it is not built."""
    root = os.path.join(os.path.dirname(__file__), "static")
    return dict(_below(root, ""))


def _below(folder: str, path: str) -> Iterator[tuple[str, PageFile]]:
    for item in os.scandir(folder) if os.path.isdir(folder) else ():
        if item.is_dir():
            yield from _below(item.path, f"{path}/{item.name}")
        elif (suffix := item.name.rpartition(".")[2]) in _TYPES:
            with open(item.path, "rb") as file:
                content = file.read()
            packed = gzip.compress(content, 9, mtime=0) if suffix in _PACKED else None
            yield f"{path}/{item.name}", PageFile(content, packed, _TYPES[suffix], path.startswith("/assets"))


async def page(request: Request) -> Response:
    """Answer with a file of the page."""
    path = request.url.path
    known = page_files()
    file = known.get("/index.html" if path == "/" else path)
    if file is None:
        if path == "/":
            return PlainTextResponse(_NOT_BUILT)
        raise ApiFault(404, "no such page", path[:200], "the page is at /, the API below /api/v1")
    headers = {"Cache-Control": _IMMUTABLE if file.immutable else _FRESH, "Vary": "Accept-Encoding"}
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, 200, {**headers, "Content-Encoding": "gzip"}, file.type)
    return Response(file.content, 200, headers, file.type)
