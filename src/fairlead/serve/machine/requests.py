"""Requests to the API server as effects of a state machine. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.serve.machine.flow import Effect

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""


@dataclass(frozen=True, slots=True)
class ApiRequest(Effect):
    """One request to the API server; the answer is the body of the response."""

    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    content_type: str = JSON
    within: float | None = None
    """Seconds after which the driver times the request out; None: the client's own limit."""


class Get(ApiRequest):
    """Read an object."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class QueriedRequest(ApiRequest):
    """A request with parameters in its query, such as the field manager of server-side apply."""

    query: Mapping[str, str] = field(default_factory=dict)
