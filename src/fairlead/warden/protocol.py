"""The warden's protocol, one JSON line each way: `put`, `remove`, `list`."""

import json
from typing import Any, Final

from fairlead.warden.session import REQUEST_LIMIT
from fairlead.warden.spec import quote
from fairlead.warden.store import Say, Store, StoreResult

_TOO_LONG: Final = f"the request is longer than {REQUEST_LIMIT} bytes"


def answer(line: bytes, store: Store, say: Say) -> bytes:
    """Perform a request if it is allowed, and return the line that answers it."""
    request = _decode(line) if len(line) <= REQUEST_LIMIT else None
    result = StoreResult({}, _TOO_LONG) if len(line) > REQUEST_LIMIT else _perform(request, store)
    if result.error:
        say(f"refused {_request_text(request)}: {result.error}")
        return _encode({"ok": False, "error": result.error})
    return _encode({"ok": True, **result.fields})


def _perform(request: Any, store: Store) -> StoreResult:
    try:
        return _dispatch(request, store)
    except OSError as error:
        return StoreResult({}, f"the CDI folder cannot be used: {error.strerror}")


def _request_text(request: Any) -> str:
    verbs = [verb for verb in ("put", "remove", "list") if isinstance(request, dict) and verb in request]
    return f"{verbs[0]} {quote(request[verbs[0]])}" if verbs else "a request"


def _decode(line: bytes) -> Any:
    """Return the decoded line; None, which is no valid request, where it is not JSON or too deep."""
    try:
        return json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _dispatch(request: Any, store: Store) -> StoreResult:
    if not isinstance(request, dict):
        return StoreResult({}, "the request is not a JSON object")
    keys = sorted(request)
    if keys == ["put", "spec"] and isinstance(request["put"], str):
        return store.put(request["put"], request["spec"])
    if keys == ["remove"] and isinstance(request["remove"], str):
        return store.remove(request["remove"])
    if keys == ["list"] and request["list"] is True:
        return store.names()
    return StoreResult({}, f"{quote(', '.join(keys))}: the requests are put with spec, remove, and list")


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
