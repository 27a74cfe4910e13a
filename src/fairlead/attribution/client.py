"""The agent's side: one request, and an answer that is checked. Blocking, with a short timeout."""

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairlead.attribution import ANSWER_LIMIT
from fairlead.errors import AttributionError
from fairlead.units import Bytes
from fairlead.warden.client import exchange

_TIMEOUT: Final = 2.0
"""Seconds: the agent measures nothing else meanwhile."""
_POD: Final = re.compile(r"[0-9a-f-]{32,36}")
_CONTAINER: Final = re.compile(r"([0-9a-f]{64})?")
_MOST_BYTES: Final = 2**53
"""More than any device has, and exact in a metric."""
_HINT: Final = "check that the pod fairlead-attribution of this node runs"


class ContainerShare(NamedTuple):
    """What a container uses of a device; None: not measured."""

    pod: str
    container: str
    """Its id; empty for processes of the pod outside its containers."""
    memory: Bytes | None
    busy: float | None


class DeviceShares(NamedTuple):
    """The use of one device."""

    uuid: str
    bus: str
    foreign: Bytes | None
    """Memory of processes outside pods; None: not measured."""
    containers: tuple[ContainerShare, ...]


def read_use(socket: Path, timeout: float = _TIMEOUT) -> tuple[DeviceShares, ...]:
    """Ask for the use of every device; AttributionError if there is no valid answer."""
    try:
        answer = json.loads(exchange(socket, b'{"use":true}\n', timeout, ANSWER_LIMIT + 1))
    except OSError as error:
        raise AttributionError(f"{socket}: {error.strerror or error}", _HINT) from None
    except (ValueError, RecursionError):
        raise AttributionError(f"{socket}: the answer is not JSON, or has no end", _HINT) from None
    try:
        if answer["ok"] is not True:
            raise AttributionError(f"{socket}: {answer['error']}", _HINT)
        return tuple(_device(row) for row in answer["devices"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AttributionError(f"{socket}: the answer has an unexpected form", _HINT) from None


def _device(row: Any) -> DeviceShares:
    containers = tuple(_container(each) for each in row["containers"])
    return DeviceShares(str(row["uuid"]), str(row["bus"]), _bytes(row["foreign"]), containers)


def _container(row: Any) -> ContainerShare:
    pod, container, busy = row["pod"], row["container"], row["busy"]
    if not _POD.fullmatch(pod) or not _CONTAINER.fullmatch(container):
        raise ValueError("not an id")
    if busy is not None and not 0 <= float(busy) <= 1:
        raise ValueError("not a share")
    return ContainerShare(pod, container, _bytes(row["memory"]), None if busy is None else float(busy))


def _bytes(value: Any) -> Bytes | None:
    if value is not None and (type(value) is not int or not 0 <= value < _MOST_BYTES):
        raise ValueError("not an amount of memory")
    return None if value is None else Bytes(value)
