"""Viewer: who looks at the dashboard, and what of each row they may see. Pure.

What a viewer may not see is left out; a share of an accelerator that an invisible pod holds becomes `other`.
Texts are searched for names of namespaces and pods that the viewer may not see: a reason of a scheduler may
name any pod.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from fairlead.dashboard.row_types import ROWS, DeviceRow, NodeRow, Row, ShareOfDevice, WorkloadRow

OTHER: Final = "other"
"""The name of a share, or of an object in a text, that the viewer may not see."""
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9./_-]*[A-Za-z0-9])?")
"""What may be the name of a namespace or of a pod, or both with a slash."""
_TABLES: Final = {kind: name for name, kind in ROWS.items()}
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person or program with a valid credential."""

    name: str
    namespaces: frozenset[str] | None = None
    """None: all."""
    nodes: bool = True
    """Whether they may see nodes and accelerators."""
    actions: tuple[str, ...] = ()
    hidden: frozenset[tuple[str, str]] = frozenset()
    """Tables that are invisible though the namespace is not: table and namespace, or `*` for all."""

    def sees(self, namespace: str, table: str = "") -> bool:
        """Say whether the objects of a namespace are visible, in a table."""
        if self.hidden and not self.hidden.isdisjoint(((table, namespace), (table, "*"))):
            return False
        return self.namespaces is None or namespace in self.namespaces

    @property
    def restricted(self) -> bool:
        """Whether something is invisible."""
        return self.namespaces is not None or not self.nodes or bool(self.hidden)


def visible(row: Row, viewer: Viewer, scrub: Callable[[str], str]) -> Row | None:
    """Return a row as the viewer may see it; None: not at all. `scrub` takes names out of texts."""
    if not viewer.restricted:
        return row
    if isinstance(row, NodeRow | DeviceRow):
        return _of_the_fleet(row, viewer, scrub) if viewer.nodes else None
    if not viewer.sees(getattr(row, "namespace", ""), _TABLES.get(type(row), "")):
        return None
    return row if viewer.namespaces is None else _scrubbed(row, scrub)


def _of_the_fleet(row: NodeRow | DeviceRow, viewer: Viewer, scrub: Callable[[str], str]) -> Row:
    if isinstance(row, NodeRow):
        return replace(row, reason=scrub(row.reason))
    shares = tuple(_visible_share(share, viewer) for share in row.shares)
    return replace(row, shares=shares, reason=scrub(row.reason))


def _visible_share(share: ShareOfDevice, viewer: Viewer) -> ShareOfDevice:
    namespace = (share.holder or "").partition("/")[0]
    if share.holder is not None and viewer.sees(namespace):
        return share
    return replace(share, holder=None, name=OTHER)


def scrub_text(answer: A, scrub: Callable[[str], str]) -> A:
    """Return an answer without invisible names in its sentences."""
    return _scrubbed(answer, scrub)


def _scrubbed(value: A, scrub: Callable[[str], str]) -> A:
    """Return a Struct with its sentences scrubbed; keys and commands are the viewer's own."""
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:  # type: ignore[attr-defined]  # of every Struct
        content = getattr(value, name)
        if isinstance(content, str) and name in _TEXTS:
            changes[name] = scrub(content)
        elif isinstance(content, tuple):
            changes[name] = tuple(
                scrub(item) if isinstance(item, str) and name in _TEXTS else _part(item, scrub)
                for item in content
            )
    replaced: A = replace(value, **changes)  # type: ignore[type-var]  # a Struct
    return replaced


_TEXTS: Final = frozenset(
    {"why", "reason", "reasons", "summary", "text", "example", "notes", "what", "bottleneck"}
)
"""Fields that hold sentences."""


def _part(item: Any, scrub: Callable[[str], str]) -> Any:
    return _scrubbed(item, scrub) if hasattr(item, "__struct_fields__") else item


class TenantNames:
    """Every name of a namespace, or of an object in one, that was on the board, with its namespaces."""

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._namespaces: dict[str, frozenset[str]] = {}

    def on_rows(self, _table: str, put: Iterable[Row], _drop: Iterable[str]) -> None:
        """Keep the names of a batch of rows; names of dropped rows stay: a text may still hold one."""
        for row in put:
            namespace = getattr(row, "namespace", "")
            if namespace:
                self.add(namespace, namespace)
                self.add(getattr(row, "name", ""), namespace)
                if isinstance(row, WorkloadRow) and row.gang:
                    self.add(row.gang, namespace)

    def add(self, name: str, namespace: str) -> None:
        """Keep a name."""
        known = self._namespaces.get(name)
        if known is None:
            self._namespaces[name] = frozenset((namespace,))
            if len(self._namespaces) > self._most:
                del self._namespaces[next(iter(self._namespaces))]
        elif namespace not in known:
            self._namespaces[name] = known | {namespace}

    def scrubber(self, viewer: Viewer) -> Callable[[str], str]:
        """Return what takes the names that a viewer may not see out of a text."""
        if viewer.namespaces is None:
            return str

        def hidden(word: str) -> bool:
            return word in self._namespaces and not any(map(viewer.sees, self._namespaces[word]))

        def replaced(match: "re.Match[str]") -> str:
            word = match[0]
            return OTHER if any(map(hidden, (word, *word.split("/")))) else word

        return lambda text: _WORD.sub(replaced, text)
