"""The patch types of Kubernetes: merge, JSON and strategic. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from fairlead.units import pluralize

Json: TypeAlias = Any
"""What `json.loads` returns."""
Path = tuple[Json, ...]
"""Steps into a document: a field's name, or (key, value) of one item in a keyed list."""
Owners = Mapping[str, frozenset[Path]]
"""The fields of each manager, as server-side apply tracks them."""

KEYS: Final = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists whose items have an identity, and the field that holds it; every other list is one value."""
_SETS: Final = frozenset({"finalizers"})
"""Lists of plain values that are merged as sets."""


class PatchError(ValueError):
    """The patch cannot be applied to the document."""


class OwnershipError(Exception):
    """Another manager has set some of the fields to other values."""

    def __init__(self, conflicts: Sequence[tuple[str, Path]]) -> None:
        named = ", ".join(f"{manager!r} owns {show(path)}" for manager, path in conflicts)
        super().__init__(f"apply failed with {pluralize(len(conflicts), 'conflict')}: {named}")


def show(path: Path) -> str:
    """Format a path for people: `.spec.containers[name=web].image`."""
    return "".join(f"[{step[0]}={step[1]}]" if isinstance(step, tuple) else f".{step}" for step in path)


def merge(target: Json, patch: Json) -> Json:
    """Return `target` changed by a JSON merge patch (RFC 7386): null removes, lists are replaced."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Json, patch: Json, field: str = "") -> Json:
    """Return `target` changed by a strategic merge patch: lists whose items have a key are merged by it."""
    if isinstance(patch, list):
        return _strategic_list(target if isinstance(target, list) else [], patch, field)
    if not isinstance(patch, Mapping):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        name = key.removeprefix("$deleteFromPrimitiveList/")
        if name != key:
            result[name] = [item for item in result.get(name, []) if item not in value]
        elif key.startswith("$"):
            continue  # an order of elements, on which no test depends
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    return result


def _strategic_list(target: list[Json], patch: list[Json], field: str) -> list[Json]:
    if field in _SETS:
        return [*target, *(item for item in patch if item not in target)]
    key = KEYS.get(field)
    if key is None:
        return [item for item in patch if item != {"$patch": "replace"}]
    if {"$patch": "replace"} in patch:
        return [item for item in patch if "$patch" not in item]
    result = {item.get(key): item for item in target}
    for item in patch:
        if item.get("$patch") == "delete":
            result.pop(item.get(key), None)
        else:
            result[item.get(key)] = strategic(result.get(item.get(key)), item)
    return list(result.values())


def operations(document: Json, patch: Iterable[Mapping[str, Json]]) -> Json:
    """Return `document` changed by a JSON patch (RFC 6902)."""
    for operation in patch:
        document = _operate(document, operation)
    return document


def _operate(document: Json, operation: Mapping[str, Json]) -> Json:
    operation_type, steps = operation.get("op"), _steps(operation.get("path", ""))
    match operation_type:
        case "add" | "replace":
            _at(document, steps[:-1] if operation_type == "add" else steps)
            return _set(document, steps, operation.get("value"), insert=operation_type == "add")
        case "remove":
            _at(document, steps)
            return _remove(document, steps)
        case "test":
            if _at(document, steps) != operation.get("value"):
                raise PatchError(f"testing value {operation.get('path')} failed")
            return document
        case "move" | "copy":
            source = _steps(operation.get("from", ""))
            value = _at(document, source)
            return _set(
                _remove(document, source) if operation_type == "move" else document, steps, value, insert=True
            )
    raise PatchError(f"unknown operation {operation_type!r}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise PatchError(f"{pointer!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _index(items: list[Json], step: str, last: int) -> int:
    position = len(items) if step == "-" else int(step) if step.isdecimal() else -1
    if not 0 <= position <= last:
        raise PatchError(f"no item {step!r} in a list of {len(items)}")
    return position


def _at(document: Json, steps: Sequence[str]) -> Json:
    for step in steps:
        if isinstance(document, list):
            document = document[_index(document, step, len(document) - 1)]
        elif isinstance(document, Mapping) and step in document:
            document = document[step]
        else:
            raise PatchError(f"nothing at {step!r}")
    return document


def _set(document: Json, steps: Sequence[str], value: Json, *, insert: bool) -> Json:
    if not steps:
        return value
    head, rest = steps[0], steps[1:]
    if isinstance(document, list):
        position = _index(document, head, len(document))
        if rest or not insert:
            return [
                *document[:position],
                _set(document[position], rest, value, insert=insert),
                *document[position + 1 :],
            ]
        return [*document[:position], value, *document[position:]]
    if not isinstance(document, Mapping):
        raise PatchError(f"nothing can be set at {head!r}")
    return {**document, head: _set(document.get(head), rest, value, insert=insert)}


def _remove(document: Json, steps: Sequence[str]) -> Json:
    head, rest = steps[0], steps[1:]
    if isinstance(document, list):
        position = _index(document, head, len(document) - 1)
        kept = [_remove(document[position], rest)] if rest else []
        return [*document[:position], *kept, *document[position + 1 :]]
    if rest:
        return {**document, head: _remove(document[head], rest)}
    return {key: value for key, value in document.items() if key != head}
