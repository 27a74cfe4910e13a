"""The smallest patch that brings a node's labels and annotations up to date, or none."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.keys import ALLOCATED, BY_USE, DEVICES, PLACEMENT_FORMAT, PUBLISHED
from fairlead.publish.labels import LEGACY_KEYS, is_own_label

_FACTS: Final = (ALLOCATED, BY_USE, DEVICES, PLACEMENT_FORMAT)
"""The annotations by which an agent tells schedulers about its node."""


def node_patch(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    wanted: Mapping[str, str],
    published_facts: Mapping[str, str | None],
) -> dict[str, Any] | None:
    """Return the merge patch that turns a node's labels and annotations into what is wanted.

    Labels of other writers stay, also those with our prefix: only published labels are removed.
    """
    change = {key: value for key, value in wanted.items() if labels.get(key) != value}
    stale = {key: None for key in published(annotations) if key in labels and key not in wanted}
    wanted_annotations: dict[str, str | None] = {
        PUBLISHED: ",".join(sorted(wanted)) or None,
        **dict.fromkeys(_FACTS),
        **published_facts,
    }
    changed = {key: value for key, value in wanted_annotations.items() if annotations.get(key) != value}
    metadata = {
        key: value for key, value in (("labels", {**change, **stale}), ("annotations", changed)) if value
    }
    return {"metadata": metadata} if metadata else None


def published(annotations: Mapping[str, str]) -> list[str]:
    """Return the labels that an agent published on a node; never one that an agent cannot write."""
    keys = annotations.get(PUBLISHED, "").split(",")
    return [key for key in keys if is_own_label(key) or key in LEGACY_KEYS]


def unpublish_patch(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the merge patch that removes everything published."""
    stale = {key: None for key in published(annotations) if key in labels}
    changed = {key: None for key in (PUBLISHED, *_FACTS) if key in annotations}
    metadata = {key: value for key, value in (("labels", stale), ("annotations", changed)) if value}
    return {"metadata": metadata} if metadata else None
