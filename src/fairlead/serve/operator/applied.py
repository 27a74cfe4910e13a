"""What the operator applied, as objects carry it, and whether another client has changed it since. Pure.

The annotation holds the hash of the applied manifest. Whether the fields still have these values is in the
object's `managedFields`: a client that changes a field takes it from its last manager, so the fields of ours
become fewer. Comparing values instead would fail: the API server fills in and normalises them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead.errors import NewerFormatError
from fairlead.formats import WORDS, Codec, VersionedFormat
from fairlead.keys import APPLIED
from fairlead.reconcile import Manifest
from fairlead.serve.operator.kinds import metadata_of

FIELD_MANAGER: Final = "fairlead-operator"
IMMUTABLE: Final[Mapping[tuple[str, str], str]] = {("v1", "Pod"): "spec"}
"""By API version and kind, the field that does not change after the creation."""


class AppliedHash(NamedTuple):
    """The hash of a manifest, and of its part that cannot be changed later; empty where every part can."""

    whole: str
    immutable: str = ""


def _decode(body: str) -> AppliedHash:
    whole, _, immutable = body.partition(" ")
    return AppliedHash(whole, immutable)


APPLIED_HASHES: Final[VersionedFormat[AppliedHash]] = VersionedFormat(
    "applied", WORDS, {1: Codec(lambda value: " ".join(filter(None, value)), _decode)}
)


def hash_of(manifest: Manifest) -> AppliedHash:
    """Return the hash of a wanted manifest."""
    part = IMMUTABLE.get((manifest.get("apiVersion", ""), manifest.get("kind", "")), "")
    return AppliedHash(digest(manifest), digest(manifest.get(part)) if part else "")


def read_hash(document: Manifest) -> AppliedHash | NewerFormatError | None:
    """Return the hash that a live object carries; None where it carries none."""
    text = (metadata_of(document).get("annotations") or {}).get(APPLIED, "")
    try:
        return APPLIED_HASHES.decode(text)
    except NewerFormatError as error:
        return error
    except ValueError:
        return None


def digest(value: Any) -> str:
    """Return the hash of a document."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def owned_fields(document: Manifest) -> Mapping[str, Any]:
    """Return the fields of a live object that the operator has applied and still manages."""
    for entry in metadata_of(document).get("managedFields") or ():
        ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
        if ours and not entry.get("subresource"):
            fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
            return fields
    return {}


def manages_all(fields: Mapping[str, Any], manifest: Manifest) -> bool:
    """Say whether every field of an applied manifest is among the managed fields."""
    identity = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
    metadata = {
        name: value
        for name, value in metadata_of(manifest).items()
        if name not in ("name", "namespace", "uid")
    }
    return _covers(fields, {**identity, "metadata": metadata})


def _covers(fields: Mapping[str, Any], value: Any) -> bool:
    if not fields:
        return True  # a leaf, or a value that is managed as a whole
    if isinstance(value, Mapping):
        return all(
            f"f:{name}" in fields and _covers(fields[f"f:{name}"], item) for name, item in value.items()
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(_covers_item(fields, item) for item in value)
    return True


def _covers_item(fields: Mapping[str, Any], item: Any) -> bool:
    """Say whether an item of a list is managed: by the keys that identify it, or by its value."""
    for name, below in fields.items():
        sign, _, text = name.partition(":")
        if sign == "v" and json.loads(text) == item:
            return True
        if sign == "k" and isinstance(item, Mapping):
            identity = json.loads(text)  # with defaults that the manifest may leave out
            if all(item.get(key, known) == known for key, known in identity.items()):
                return _covers(below, item)
    return False
