"""Label and field selectors as Kubernetes writes them: parse once, match many documents."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Document = Mapping[str, Any]
Match = Callable[[Document], bool]

_SET: Final = re.compile(r"\s*([\w./-]+)\s+(in|notin)\s+\(([^()]*)\)\s*")
_EQUAL: Final = re.compile(r"\s*([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)\s*")
_EXISTS: Final = re.compile(r"\s*(!?)\s*([\w./-]+)\s*")
_COMMAS: Final = re.compile(r",(?![^()]*\))")
"""Commas between requirements, not those inside the brackets of a set."""


def by_labels(selector: str | None) -> Match:
    """Return the predicate of a label selector: `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""
    parts = [_requirement(part) for part in _COMMAS.split(selector or "") if part.strip()]

    def match(document: Document) -> bool:
        labels = document.get("metadata", {}).get("labels") or {}
        return all(part(labels) for part in parts)

    return match


def by_fields(selector: str | None) -> Match:
    """Return the predicate of a field selector: `metadata.name=a,spec.nodeName!=b`."""
    parts = [_field(part) for part in (selector or "").split(",") if part.strip()]
    return lambda document: all(part(document) for part in parts)


def fields_of(selector: str | None) -> list[str]:
    """Return the fields that a field selector names."""
    return [re.split(r"==|=|!=", part, maxsplit=1)[0].strip() for part in (selector or "").split(",") if part]


def _requirement(part: str) -> Callable[[Mapping[str, str]], bool]:
    if parsed := _SET.fullmatch(part):
        key, operator, names = parsed.groups()
        values = frozenset(name.strip() for name in names.split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if parsed := _EQUAL.fullmatch(part):
        key, operator, value = parsed.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if parsed := _EXISTS.fullmatch(part):
        absent, key = parsed.groups()
        return lambda labels: (key in labels) is not bool(absent)
    raise ValueError(f"{part!r} is not a label requirement; write it like app=web or app in (web,db)")


def _field(part: str) -> Match:
    path, operator, value = re.split(r"(==|=|!=)", part, maxsplit=1) if "=" in part else (part, "", "")
    if not operator:
        raise ValueError(f"{part!r} is not a field requirement; write it like spec.nodeName=worker")
    keys = path.strip().split(".")
    wanted = value.strip()
    return lambda document: (_at(document, keys) == wanted) is not (operator == "!=")


def _at(document: Document, keys: list[str]) -> str:
    """Return a field as text; an absent field is empty, as for the API server."""
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
