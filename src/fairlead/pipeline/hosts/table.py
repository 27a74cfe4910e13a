"""The table of other machines in the file of a pipeline."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.pipeline.spec import HostSpec
from fairlead.yamltext import key_places

_KEYS: Final = ("address", "class", "labels", "pod")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})")
_WRITE: Final = 'write hosts: {edge-1: {address: "10.0.0.5:7070"}}'
ErrorAt = Callable[[int, str, str], PipelineError]


def read_hosts(value: Any, text: str | None, error_at: ErrorAt) -> tuple[HostSpec, ...]:
    """Return the hosts of a file; PipelineError where one must be changed."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise error_at(1, "hosts is not a mapping", _WRITE)
    hosts = []
    for name, body in value.items():
        places = key_places(text, 0, ["hosts", name]).places if text is not None else ()
        line = places[0][0] + 1 if places else 1
        hosts.append(_read_host(name, body, line, error_at))
    return tuple(hosts)


def _read_host(name: Any, body: Any, line: int, error_at: ErrorAt) -> HostSpec:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "local":
        hint = "use letters, digits, '-', '_' and '.'; local is the coordinator's own machine"
        raise error_at(line, f"host {name!r} is not a name", hint)
    if not isinstance(body, dict):
        raise error_at(line, f"host {name} is not a mapping", _WRITE)
    for key in body:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(_KEYS)}"
            raise error_at(line, f"host {name} has no key {key!r}", hint)
    labels = body.get("labels") or {}
    host_class = body.get("class", "")
    if not isinstance(labels, dict) or not isinstance(host_class, str):
        raise error_at(line, f"host {name}: labels or class", "write class: jetson, labels: {room: lab}")
    pod = body.get("pod", {})
    if not isinstance(pod, dict):
        raise error_at(line, f"host {name}: pod is not a mapping", "write pod: {nodeSelector: {room: lab}}")
    address = body.get("address")
    texts = {str(key): str(value) for key, value in labels.items()}
    if address is None and (host_class or "pod" in body):  # plans and clusters may count on it, runs cannot
        return HostSpec(name, "", host_class, texts, line, pod)
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None or not 0 < int(match[1]) < 1 << 16:
        raise error_at(line, f"host {name}: address {address!r} is not HOST:PORT", _WRITE)
    return HostSpec(name, str(address), host_class, texts, line, pod)
