"""Kubernetes: a thin client, and an informer that keeps a local copy of the objects of one kind."""

from importlib.util import find_spec

from fairlead.errors import MissingPartError

# Checked before any module is imported: the modules of this package need different libraries.
_MISSING = [name for name in ("aiohttp", "msgspec") if find_spec(name) is None]
if _MISSING:
    raise MissingPartError(f"talking to Kubernetes needs {', '.join(_MISSING)}")
