"""Server-side apply: the owners of fields, conflicts, and removal with the last owner. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from tests.fakecluster.patches import KEYS, Json, Owners, OwnershipError, Path

_IDENTITY: Final = frozenset(
    {
        ("apiVersion",),
        ("kind",),
        *(
            ("metadata", name)
            for name in (
                "creationTimestamp", "deletionTimestamp", "generation", "managedFields", "name", "namespace",
                "resourceVersion", "uid",
            )
        ),
    }
)  # fmt: skip
"""Fields that identify an object or that the server writes: no manager owns them."""


def leaves(document: Mapping[str, Json]) -> dict[Path, Json]:
    """Return every value of a document under its path; lists without a key are values."""
    return {
        path: value
        for path, value in _walk(document, ())
        if path and path[:2] not in _IDENTITY and path[:1] not in _IDENTITY
    }


def _walk(value: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _walk(item, (*path, name))
    elif isinstance(value, list) and (key := _key(value, path)):
        for item in value:
            yield from _walk(item, (*path, (key, item[key])))
    else:
        yield path, value


def _key(items: list[Json], path: Path) -> str | None:
    """Return the field that identifies the items of a list."""
    key = KEYS.get(path[-1]) if path and isinstance(path[-1], str) else None
    keyed = items and all(isinstance(item, Mapping) and key in item for item in items)
    return key if keyed else None


def owners_after_write(
    owners: Owners, manager: str, before: Mapping[str, Json], after: Mapping[str, Json]
) -> Owners:
    """Return the owners after a plain write: the changed fields belong to its manager alone."""
    old, new = leaves(before), leaves(after)
    changed = frozenset(path for path, value in new.items() if path not in old or old[path] != value)
    return _with_owner(owners, manager, changed, changed | (old.keys() - new.keys()))


def apply(
    live: Mapping[str, Json], config: Mapping[str, Json], manager: str, owners: Owners, *, force: bool
) -> tuple[dict[str, Json], Owners]:
    """Return the document and its owners after `manager` has applied its configuration."""
    wanted, present = leaves(config), leaves(live)
    conflicts = [
        (other, path)
        for other, paths in sorted(owners.items())
        for path, value in wanted.items()
        if other != manager and path in paths and path in present and present[path] != value
    ]
    if conflicts and not force:
        raise OwnershipError(conflicts)
    result: Json = dict(live)
    elsewhere = frozenset().union(*(paths for other, paths in owners.items() if other != manager))
    for path in owners.get(manager, frozenset()) - wanted.keys() - elsewhere:
        result = _without_leaf(result, path)
    for path, value in wanted.items():
        result = _set_leaf(result, path, value)
    return result, _with_owner(
        {**owners, manager: frozenset()}, manager, frozenset(wanted), {path for _, path in conflicts}
    )


def _with_owner(
    owners: Owners, manager: str, gained: frozenset[Path], lost: frozenset[Path] | set[Path]
) -> Owners:
    kept = {other: paths - lost for other, paths in owners.items() if other != manager}
    kept[manager] = (owners.get(manager, frozenset()) - lost) | gained
    return {other: paths for other, paths in kept.items() if paths}


def _set_leaf(value: Json, path: Path, leaf: Json) -> Json:
    if not path:
        # An empty map requires a map to exist; it does not remove the fields of other managers.
        return value if leaf == {} and isinstance(value, Mapping) else leaf
    step, rest = path[0], path[1:]
    if isinstance(step, tuple):
        key, identity = step
        items = list(value) if isinstance(value, list) else []
        for position, item in enumerate(items):
            if item.get(key) == identity:
                items[position] = _set_leaf(item, rest, leaf)
                return items
        return [*items, _set_leaf({key: identity}, rest, leaf)]
    fields = value if isinstance(value, Mapping) else {}
    return {**fields, step: _set_leaf(fields.get(step), rest, leaf)}


def _without_leaf(value: Json, path: Path) -> Json:
    """Return `value` without the leaf at `path`, and without parents that become empty."""
    step, rest = path[0], path[1:]
    if isinstance(step, tuple):
        key, identity = step
        items = list(value or [])
        if rest != (key,):  # the key identifies an item as long as it has other fields
            items = [_without_leaf(item, rest) if item.get(key) == identity else item for item in items]
        return [item for item in items if item.keys() - {key} or item.get(key) != identity]
    if not isinstance(value, Mapping) or step not in value:
        return value
    left = _without_leaf(value[step], rest) if rest else None
    return {
        name: item if name != step else left
        for name, item in value.items()
        if name != step or left not in (None, {}, [])
    }
