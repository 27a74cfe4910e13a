"""The OpenAPI document of the API, made from the types of its answers."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from fairlead import __version__
from fairlead.dashboard import answers
from fairlead.dashboard.answers import ACTIONS, TablePage
from fairlead.dashboard.row_types import ROWS

_REFERENCE: Final = "#/components/schemas/{name}"
_TEXT: Final = {"type": "string"}
_FAULTS: Final = {
    400: "a parameter or the body is wrong",
    401: "no token, or one that is not valid",
    403: "another origin, or an action that the viewer may not do",
    404: "there is no such object that the viewer may see",
    405: "no such method here",
    421: "another host than this server",
    429: "too many streams or requests",
    503: "the source or the cluster does not answer now",
}
_KEYED: Final[Mapping[str, tuple[type[Any], str, tuple[str, ...]]]] = {
    "/workloads/{key}/why": (answers.WhyAnswer, "Why a workload is where it is, or why it waits.", ("key",)),
    "/models/{key}/devices": (answers.ModelDevices, "A model's predicted latency on every device.", ("key",)),
    "/pipelines/{key}": (answers.PipelineAnswer, "A pipeline: its graph, cuts and rates.", ("key",)),
    "/pipelines/{key}/frames/{frame}": (answers.FrameAnswer, "The trace of a frame.", ("key", "frame")),
    "/devices/{key}/series": (answers.DeviceSeries, "Measured values of an accelerator.", ("key",)),
    "/simulations/{key}": (answers.SimulationAnswer, "A simulated run in time.", ("key",)),
}


@cache
def openapi() -> dict[str, Any]:
    """Return the document."""
    shapes = _shapes()
    references, components = msgspec.json.schema_components(shapes.values(), ref_template=_REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fairlead dashboard",
            "version": __version__,
            "description": "The API of the dashboard: read-only, unless the server was started with --allow.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"bearer": []}],
        "paths": {
            path: _with_faults(item) for path, item in _paths(dict(zip(shapes, references, strict=True)))
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths(by_name: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each path, with its methods."""
    yield "/about", {"get": _get("The program, its source and the viewer.", by_name["about"])}
    for name in ROWS:
        yield (
            f"/tables/{name}",
            {"get": _get(f"Rows of the table of {name}.", by_name[f"table {name}"], _PAGING)},
        )
    for path, (_, text, names) in _KEYED.items():
        parameters = [*map(_in_path, names), *_more_parameters(path)]
        yield path, {"get": _get(text, by_name[path], parameters)}
    yield "/events", {"get": _events()}
    yield "/openapi.json", {"get": _get("This document.", {"type": "object"})}
    for name, kind in ACTIONS.items():
        yield (
            f"/actions/{name}",
            {"post": _post(kind.__doc__ or "", by_name[f"action {name}"], by_name["done"])},
        )


def _shapes() -> dict[str, Any]:
    """Return the type of each answer and body."""
    return {
        "about": answers.About,
        "fault": answers.ErrorAnswer,
        "done": answers.Done,
        **{path: kind for path, (kind, _, _) in _KEYED.items()},
        **{f"table {name}": TablePage[row] for name, row in ROWS.items()},  # type: ignore[valid-type]
        **{f"action {name}": kind for name, kind in ACTIONS.items()},
    }


def _more_parameters(path: str) -> tuple[dict[str, Any], ...]:
    return _SECONDS if path.endswith("/series") else ()


_PAGING: Final[tuple[dict[str, Any], ...]] = (
    {"name": "after", "in": "query", "description": "the rows after this key", "schema": _TEXT},
    {
        "name": "limit",
        "in": "query",
        "description": "the most rows",
        "schema": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 500},
    },
)
_SECONDS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "seconds",
        "in": "query",
        "description": "how far back",
        "schema": {"type": "integer", "minimum": 1, "maximum": 86400, "default": 600},
    },
)


def _in_path(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": "percent-encoded, also its slash",
        "schema": _TEXT,
    }


def _get(text: str, schema: Any, parameters: Any = ()) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    answer = {"description": text, "content": content}
    return {"summary": text, "parameters": list(parameters), "responses": {"200": answer}}


def _post(text: str, body: Any, done: Any) -> dict[str, Any]:
    return {
        "summary": text,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {"description": "it is done", "content": {"application/json": {"schema": done}}},
            "409": _fault("it cannot be done now"),
            "413": _fault("the body is too large"),
        },
    }


def _events() -> dict[str, Any]:
    tables = {
        "name": "tables",
        "in": "query",
        "description": "joined by commas (default: all)",
        "schema": _TEXT,
    }
    last = {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "resume after this revision",
        "schema": _TEXT,
    }
    text = "A stream of events: hello, change, stale, reset."
    answer = {"description": text, "content": {"text/event-stream": {"schema": _TEXT}}}
    return {"summary": text, "parameters": [tables, last], "responses": {"200": answer}}


def _fault(text: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name="ErrorAnswer")}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _with_faults(item: Mapping[str, Any]) -> dict[str, Any]:
    faults = {str(code): _fault(text) for code, text in _FAULTS.items()}
    return {
        method: {**operation, "responses": {**operation["responses"], **faults}}
        for method, operation in item.items()
    }
