"""What the agent may ask for, one JSON line each way: `put`, `remove`, `list`."""

import json
from typing import Any, Final

from fairlead.warden.spec import quote
from fairlead.warden.store import Say, Store, StoreResult

REQUEST_LIMIT: Final = 256 * 1024
_TOO_LONG: Final = f"the request is longer than {REQUEST_LIMIT} bytes"


def answer(line: bytes, store: Store, say: Say) -> bytes:
    """Return the line that answers a request, after doing what it asks for if that is allowed."""
    request = _parsed(line) if len(line) <= REQUEST_LIMIT else None
    result = StoreResult({}, _TOO_LONG) if len(line) > REQUEST_LIMIT else _done(request, store)
    if result.error:
        say(f"refused {_what(request)}: {result.error}")
        return _encoded({"ok": False, "error": result.error})
    return _encoded({"ok": True, **result.fields})


def _done(request: Any, store: Store) -> StoreResult:
    try:
        return _asked(request, store)
    except OSError as error:
        return StoreResult({}, f"the CDI folder cannot be used: {error.strerror}")


def _what(request: Any) -> str:
    asked = [verb for verb in ("put", "remove", "list") if isinstance(request, dict) and verb in request]
    return f"{asked[0]} {quote(request[asked[0]])}" if asked else "a request"


def _parsed(line: bytes) -> Any:
    """Return what a line says; None, which asks for nothing, when it is not JSON or is too deep for us."""
    try:
        return json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _asked(request: Any, store: Store) -> StoreResult:
    if not isinstance(request, dict):
        return StoreResult({}, "the request is not a JSON object")
    keys = sorted(request)
    if keys == ["put", "spec"] and isinstance(request["put"], str):
        return store.put(request["put"], request["spec"])
    if keys == ["remove"] and isinstance(request["remove"], str):
        return store.remove(request["remove"])
    if keys == ["list"] and request["list"] is True:
        return store.names()
    return StoreResult({}, f"{quote(', '.join(keys))}: ask for put with spec, for remove, or for list")


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
