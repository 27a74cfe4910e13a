"""Kubernetes: a thin client, an informer, and a cluster in memory that behaves like a real one."""

from importlib.util import find_spec

from fairlead.errors import MissingPartError

# Said before any of them is imported: the parts of this package need different ones.
_MISSING = [name for name in ("aiohttp", "msgspec") if find_spec(name) is None]
if _MISSING:
    raise MissingPartError(f"talking to Kubernetes needs {', '.join(_MISSING)}")
