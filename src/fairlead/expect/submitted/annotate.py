"""Add annotations to the pods of a manifest by inserting lines, so that comments and order stay.

Every insertion is checked: the new text must read as the old documents with the annotations added. Where it
does not, or where the text has no place for one, the documents are written from their values, and comments
are lost.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from fairlead import yamltext
from fairlead.expect.submitted.workloads import Path, value_at

Additions = Mapping[tuple[int, Path], Mapping[str, str]]
"""By document and place of a pod's template: annotations."""
_INDENT: Final = "  "


def annotate(data: bytes, documents: list[Any], additions: Additions) -> tuple[str, bool]:
    """Return the manifest with annotations, and whether everything else in its text stayed."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and not additions:
        return text, True
    wanted = _annotated(documents, additions)
    if _is_json(text):
        return f"{json.dumps(wanted[0], indent=2)}\n", True
    inserted = _inserted(text, documents, additions)
    if inserted is not None and _reads_as(inserted, wanted):
        return inserted, True
    return _dumped(wanted), False


def _annotated(documents: list[Any], additions: Additions) -> list[Any]:
    wanted = copy.deepcopy(documents)
    for (number, path), annotations in additions.items():
        template = value_at(wanted[number], path)
        metadata = template.get("metadata") or {}
        template["metadata"] = {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
        }
    return wanted


def _inserted(text: str, documents: list[Any], additions: Additions) -> str | None:
    lines = text.splitlines(keepends=True)
    insertions: list[tuple[int, int, str]] = []
    for (number, path), annotations in additions.items():
        target, heads = _target(path, value_at(documents[number], path))
        insertion = _insertion(lines, yamltext.key_places(text, number, target), heads, annotations)
        if insertion is None:
            return None
        insertions.append(insertion)
    for line, column, added in sorted(insertions, reverse=True):
        lines[line] = lines[line][:column] + added + lines[line][column:]
    return "".join(lines)


def _target(path: Path, template: Any) -> tuple[Path, list[str]]:
    """Return the mapping to add to, and the keys that must be added around the annotations."""
    metadata = template.get("metadata")
    if not metadata:
        return path, ["metadata", "annotations"]
    if not metadata.get("annotations"):
        return (*path, "metadata"), ["annotations"]
    return (*path, "metadata", "annotations"), []


def _insertion(
    lines: list[str], keys: yamltext.KeyPlaces, heads: list[str], annotations: Mapping[str, str]
) -> tuple[int, int, str] | None:
    """Return a line, a column and the text for that place; None where no key begins a line."""
    rows = [f"{key}: {json.dumps(value)}" for key, value in annotations.items()]
    if keys.flow:
        line, column = keys.places[0]
        opened, closed = "".join(f"{head}: {{" for head in heads), "}" * len(heads)
        return line, column, f"{opened}{', '.join(rows)}{closed}, "
    own_line = next(
        ((line, column) for line, column in keys.places if not lines[line][:column].strip()), None
    )
    if own_line is None:
        return None
    line, column = own_line
    written = [*(f"{_INDENT * depth}{head}:" for depth, head in enumerate(heads))]
    written += [f"{_INDENT * len(heads)}{row}" for row in rows]
    return line, 0, "".join(f"{' ' * column}{row}\n" for row in written)


def _reads_as(text: str, wanted: list[Any]) -> bool:
    try:
        return [each for each in yamltext.parse_documents(text.encode()) if each is not None] == wanted
    except yamltext.BadYamlError:
        return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _dumped(documents: list[Any]) -> str:
    return "---\n".join(yamltext.dump(document) for document in documents)
