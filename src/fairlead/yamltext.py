"""The door to the YAML library, imported only when there is YAML to read.

Documents are built from the parser's events, so that hostile text can be neither too deep nor too large: the
library's own loaders follow any nesting until the stack is full, and anchors until memory is full. Scalars
follow the YAML 1.2 core schema, so `no` is a string and a time stays as it was written.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, NamedTuple

from fairlead.errors import MissingPartError

DEEPEST: Final = 64
"""Levels of nesting; the deepest field of a pod is at 12."""
MOST_VALUES: Final = 4_000_000
"""Values in one text; a value that an alias repeats counts each time."""
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_TEXT: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "<<"


class BadYamlError(ValueError):
    """A text is not YAML, or not the subset that is read here; the message names the line."""


@dataclass(slots=True)
class _Open:
    """A mapping or a list that has not ended yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    line: int
    key: str | None = None
    """Of a mapping: the key whose value comes next."""
    merged: list[dict[str, Any]] = field(default_factory=list)
    """The mappings that `<<` merges in; the mapping's own keys win."""


@dataclass(slots=True)
class _Builder:
    """The values under construction."""

    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """By name: the value, and how many values it contains."""
    count: int = 0
    starts: list[int] = field(default_factory=list)
    """For each open collection: the count at its start."""
    root: Any = None

    def begin(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if len(self.stack) >= DEEPEST:
            raise BadYamlError(f"nested deeper than {DEEPEST} in line {_line(event)}")
        self.starts.append(self.count)
        self.stack.append(_Open(value, event.anchor, _line(event)))

    def end(self) -> None:
        done, start = self.stack.pop(), self.starts.pop()
        for mapping in done.merged:
            done.value = {**mapping, **done.value}  # type: ignore[dict-item]  # only mappings have merged ones
        self._add(done.value, done.line, 1)
        if done.anchor:
            self.anchors[done.anchor] = (done.value, self.count - start)

    def scalar(self, event: Any) -> None:
        value = _scalar(event)
        self._add(value, _line(event), 1)
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise BadYamlError(f"no anchor &{event.anchor} before line {_line(event)}")
        self._add(*_with_line(self.anchors[event.anchor], _line(event)))

    def _add(self, value: Any, line: int, count: int) -> None:
        self.count += count
        if self.count > MOST_VALUES:
            raise BadYamlError(f"more than {MOST_VALUES} values, by line {line}")
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            top.key = _key(value, line)
        else:
            if top.key == _MERGE:
                top.merged += _mappings(value, line)
            elif top.key in top.value:
                raise BadYamlError(f"the key {top.key!r} is there twice, again by line {line}")
            else:
                top.value[top.key] = value
            top.key = None


def parse_documents(text: bytes) -> Iterator[Any]:
    """Yield the value of each document of a text; BadYamlError if it is not YAML."""
    yaml = _library()
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_loader(yaml)):
            match type(event).__name__:
                case "DocumentStartEvent":
                    builder = _Builder(count=builder.count)
                case "DocumentEndEvent":
                    yield builder.root
                case "MappingStartEvent":
                    builder.begin({}, event)
                case "SequenceStartEvent":
                    builder.begin([], event)
                case "MappingEndEvent" | "SequenceEndEvent":
                    builder.end()
                case "ScalarEvent":
                    builder.scalar(event)
                case "AliasEvent":
                    builder.alias(event)
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        raise _bad_yaml(error) from None


def parse(text: bytes) -> Any:
    """Return the value of the user's own file, in YAML 1.1 as Kubernetes' programs read it: `yes` is true."""
    yaml = _library()
    try:
        return yaml.load(text, Loader=_loader(yaml))
    except (yaml.YAMLError, UnicodeError) as error:
        raise _bad_yaml(error) from None


class KeyPlaces(NamedTuple):
    """Where the keys of a mapping stand in a text."""

    places: tuple[tuple[int, int], ...] = ()
    """The line and the column of each key, from 0."""
    flow: bool = False
    """The mapping is written in braces."""


def key_places(text: str, document: int, path: Iterable[str | int]) -> KeyPlaces:
    """Return where the keys of a mapping stand; none where there is no such mapping, or an empty one.

    The text was parsed by `parse_documents` before, which bounds its depth.
    """
    yaml = _library()
    nodes = [node for node in yaml.compose_all(text, Loader=_loader(yaml)) if node and node.value]
    node: Any = nodes[document] if document < len(nodes) else None
    for part in path:
        if isinstance(part, int):
            node = node.value[part] if _is_kind(node, "sequence") and part < len(node.value) else None
        else:
            pairs = node.value if _is_kind(node, "mapping") else ()
            node = next((value for key, value in pairs if key.value == part), None)
    if not _is_kind(node, "mapping"):
        return KeyPlaces()
    marks = (key.start_mark for key, _ in node.value)
    return KeyPlaces(tuple((mark.line, mark.column) for mark in marks), bool(node.flow_style))


def _is_kind(node: Any, kind: str) -> bool:
    return node is not None and node.id == kind


def dump(value: Any) -> str:
    """Return a value as YAML."""
    return str(_library().safe_dump(value, sort_keys=False))


def _library() -> ModuleType:
    try:
        import yaml  # noqa: PLC0415 - imported only for YAML: JSON and the agent need none
    except ModuleNotFoundError:
        raise MissingPartError("reading YAML needs pyyaml") from None
    return yaml


def _loader(yaml: ModuleType) -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _bad_yaml(error: Exception) -> BadYamlError:
    """Return the library's error, with the line if it names one."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return BadYamlError(getattr(error, "problem", None) or " ".join(str(error).split()))
    return BadYamlError(f"{getattr(error, 'problem', '')} in line {mark.line + 1}, column {mark.column + 1}")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _with_line(anchored: tuple[Any, int], line: int) -> tuple[Any, int, int]:
    value, count = anchored
    return value, line, count


def _scalar(event: Any) -> Any:
    text: str = event.value
    if not event.implicit[0] or event.tag == _TEXT:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _key(value: Any, line: int) -> str:
    if isinstance(value, dict | list):
        raise BadYamlError(f"a key that is not a text in line {line}")
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    return str(value)


def _mappings(value: Any, line: int) -> list[dict[str, Any]]:
    mappings = value if isinstance(value, list) else [value]
    if not all(isinstance(mapping, dict) for mapping in mappings):
        raise BadYamlError(f"<< of something that is not a mapping by line {line}")
    return mappings
