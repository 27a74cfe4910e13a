"""Read a problem from JSON; every error has the path of its field and what to write. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.pipeline.plan.cut import CutLink, CutNode, CutProblem, CutStage

_TOP: Final = ("source", "nodes", "links", "stages", "max_latency_s")
_NODE: Final = ("name", "memory_bytes")
_LINK: Final = ("from", "to", "bytes_per_s", "delay_s")
_STAGE: Final = ("name", "memory_bytes", "input_bytes", "seconds")
_OPTIONAL: Final = ("max_latency_s",)
_LARGEST: Final = 1e30
_LEAST_RATE: Final = 1e-30
"""Between these, sums and quotients of bytes and seconds stay finite."""
_SHOWN: Final = 40


class _Object(dict[str, Any]):
    """An object of JSON that knows a key that it has twice."""

    repeated: str | None = None


def parse_problem(data: bytes, path: str) -> CutProblem:
    """Return the problem of a JSON text; PipelineError, with `path`, where it must be changed."""
    try:
        document = json.loads(data, object_pairs_hook=_object)
    except RecursionError:
        raise PipelineError(f"{path}: not a problem: nested too deeply", _write_problem()) from None
    except ValueError as error:
        raise PipelineError(f"{path}: not JSON: {error}", _write_problem()) from None
    return _Reading(path).problem(document)


def _write_problem() -> str:
    return f"write an object with {', '.join(_TOP)}: fairlead docs pipeline-plan"


def _object(pairs: Sequence[tuple[str, Any]]) -> _Object:
    entry = _Object(pairs)
    keys = [key for key, _ in pairs]
    entry.repeated = (
        next((key for key in keys if keys.count(key) > 1), None) if len(entry) < len(keys) else None
    )
    return entry


class _Reading:
    """One text, for the name in its errors."""

    def __init__(self, path: str) -> None:
        self._path = path

    def problem(self, document: Any) -> CutProblem:
        entry = self._entry(document, "", _TOP)
        nodes = tuple(self._node(*each) for each in self._entries(entry, "nodes", _NODE))
        if not nodes:
            raise self._error("nodes", "there is no node", 'write {"name": "edge", "memory_bytes": 8e9}')
        self._check_unique("nodes", [node.name for node in nodes], "node")
        names = [node.name for node in nodes]
        source = self._known(entry["source"], "source", names)
        links = tuple(self._link(*each, names) for each in self._entries(entry, "links", _LINK))
        self._check_unique("links", [link.name for link in links], "link")
        stages = tuple(self._stage(*each, names) for each in self._entries(entry, "stages", _STAGE))
        if not stages:
            raise self._error("stages", "there is no stage", "write at least one stage")
        self._check_unique("stages", [stage.name for stage in stages], "stage")
        latency = entry.get("max_latency_s")
        limit = None if latency is None else self._number(entry, "max_latency_s", "")
        return CutProblem(source, nodes, links, stages, limit)

    def _node(self, entry: Mapping[str, Any], where: str) -> CutNode:
        return CutNode(self._name(entry, where), self._number(entry, "memory_bytes", where))

    def _link(self, entry: Mapping[str, Any], where: str, names: list[str]) -> CutLink:
        source, target = (self._known(entry[key], f"{where}.{key}", names) for key in ("from", "to"))
        rate = self._number(entry, "bytes_per_s", where)
        if rate < _LEAST_RATE:
            hint = "write the rate of the link, above 0, or leave the link out"
            raise self._error(f"{where}.bytes_per_s", f"{_shown(rate)} is not a rate", hint)
        return CutLink(source, target, rate, self._number(entry, "delay_s", where))

    def _stage(self, entry: Mapping[str, Any], where: str, names: list[str]) -> CutStage:
        path = f"{where}.seconds"
        seconds = entry["seconds"]
        if not isinstance(seconds, _Object):
            hint = f'write {{"{names[0]}": 0.02}}'
            raise self._error(path, f"{_shown(seconds)} is not an object of seconds by node", hint)
        self._check_repeated(seconds, path)
        for node in seconds:
            self._known(node, path, names)
        return CutStage(
            self._name(entry, where),
            self._number(entry, "memory_bytes", where),
            self._number(entry, "input_bytes", where),
            {node: self._number(seconds, node, path) for node in seconds},
        )

    def _entries(
        self, document: Mapping[str, Any], key: str, known: tuple[str, ...]
    ) -> Iterable[tuple[Mapping[str, Any], str]]:
        entries = document[key]
        if not isinstance(entries, list):
            raise self._error(key, f"{_shown(entries)} is not a list", f'write "{key}": [...]')
        for index, entry in enumerate(entries):
            yield self._entry(entry, f"{key}[{index}]", known), f"{key}[{index}]"

    def _entry(self, entry: Any, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(entry, _Object):
            hint = f"write an object with {', '.join(known)}"
            raise self._error(where, f"{_shown(entry)} is not an object", hint)
        self._check_repeated(entry, where)
        for key in entry:
            if key not in known:
                near = get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                raise self._error(where, f"there is no field {_shown(key)}", hint)
        missing = [key for key in known if key not in entry and key not in _OPTIONAL]
        if missing:
            raise self._error(where, f"{missing[0]} is missing", f"write all of {', '.join(known)}")
        return entry

    def _name(self, entry: Mapping[str, Any], where: str) -> str:
        name = entry["name"]
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise self._error(
                f"{where}.name", f"{_shown(name)} is not a name", "write a text of printable letters"
            )
        return name

    def _number(self, entry: Mapping[str, Any], key: str, where: str) -> float:
        value, path = entry[key], f"{where}.{key}".lstrip(".")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(path, f"{_shown(value)} is not a number", "write 0 or more, without quotes")
        if not 0 <= value <= _LARGEST:  # also refuses NaN
            raise self._error(
                path, f"{_shown(value)} is not a possible value", "write 0 or more, and no infinity"
            )
        return value

    def _known(self, name: Any, where: str, names: list[str]) -> str:
        if not isinstance(name, str) or name not in names:
            near = get_close_matches(name, names, 1) if isinstance(name, str) else []
            hint = f"did you mean {near[0]}?" if near else f"nodes: {', '.join(names)}"
            raise self._error(where, f"{_shown(name)} is not a node", hint)
        return name

    def _check_unique(self, where: str, names: list[str], what: str) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                raise self._error(
                    f"{where}[{index}]", f"a {what} {_shown(name)} exists already", "keep one of them"
                )

    def _check_repeated(self, entry: _Object, where: str) -> None:
        if entry.repeated is not None:
            raise self._error(where, f"{_shown(entry.repeated)} is there twice", "keep one of them")

    def _error(self, where: str, text: str, hint: str) -> PipelineError:
        return PipelineError(f"{self._path}: {where}: {text}" if where else f"{self._path}: {text}", hint)


def _shown(value: Any) -> str:
    """Return a value as JSON, at most 40 characters of it; lists and objects by their kind."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
