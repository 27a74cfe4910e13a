"""The requests of the agent, one JSON line each: `start`, `stop`, `list`. Whatever is not allowed is refused.

The agent may be compromised. All that it can have is a daemon for GPUs of this node, in a folder with a name
of hexadecimal digits, and the end of such a daemon.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

IDENTITY: Final = re.compile(r"[0-9a-f]{32}")
_DEVICE: Final = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_DEVICES: Final = 32
_MOST_MEBIBYTES: Final = 1 << 24
_WHOLE: Final = 100
_NEEDED: Final = frozenset({"start", "devices", "memory"})


class Limit(NamedTuple):
    """What one daemon serves: its name, its GPUs, and what a client may take of each of them."""

    identity: str
    devices: tuple[str, ...]
    """Their uuids."""
    memory: int
    """MiB."""
    percent: int | None = None
    """Hundredths of the multiprocessors; None: all of them."""

    def to_json(self) -> dict[str, Any]:
        """Return the request that starts it."""
        compute = {} if self.percent is None else {"percent": self.percent}
        return {"start": self.identity, "devices": list(self.devices), "memory": self.memory, **compute}


class StopDaemon(NamedTuple):
    """The end of a daemon."""

    identity: str


class ListDaemons(NamedTuple):
    """The names of all daemons, and whether they live."""


class Refused(NamedTuple):
    """Why a request is refused."""

    reason: str


Request = Limit | StopDaemon | ListDaemons | Refused


def parse_request(line: bytes) -> Request:
    """Return a request, or why it is refused."""
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return Refused("the request is not JSON")
    if not isinstance(request, dict):
        return Refused("the request is not a JSON object")
    keys = set(request)
    if keys == {"list"} and request["list"] is True:
        return ListDaemons()
    if keys == {"stop"}:
        return (
            StopDaemon(request["stop"])
            if _is_identity(request["stop"])
            else Refused("stop: not the name of one")
        )
    if keys >= _NEEDED and keys <= _NEEDED | {"percent"}:
        return _limit(request)
    return Refused("the requests are start with devices, memory and percent; stop; and list")


def _limit(request: dict[str, Any]) -> Limit | Refused:
    identity, devices = request["start"], request["devices"]
    if not _is_identity(identity):
        return Refused("start: a name has 32 hexadecimal digits")
    if not isinstance(devices, list) or not 0 < len(devices) <= _MOST_DEVICES or not _are_devices(devices):
        return Refused(f"devices: 1 to {_MOST_DEVICES} different uuids of GPUs or MIG instances are allowed")
    if not _within(request["memory"], _MOST_MEBIBYTES):
        return Refused(f"memory: 1 to {_MOST_MEBIBYTES} MiB are allowed")
    if not _within(request.get("percent", 1), _WHOLE):
        return Refused(f"percent: 1 to {_WHOLE} are allowed")
    return Limit(identity, tuple(devices), request["memory"], request.get("percent"))


def _is_identity(value: Any) -> bool:
    return isinstance(value, str) and IDENTITY.fullmatch(value) is not None


def _are_devices(values: Iterable[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str) and _DEVICE.fullmatch(value)]
    return len(set(texts)) == len(list(values))


def _within(value: Any, most: int) -> bool:
    return type(value) is int and 0 < value <= most
