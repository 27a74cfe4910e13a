"""The smallest patch of a node, or none."""

from typing import Any

import pytest

from fairlead.keys import ALLOCATED, DEVICES, PLACEMENT_FORMAT, PUBLISHED
from fairlead.publish.node_patch import node_patch, published, unpublish_patch

OURS = {"fairlead.dev/tpu.count": "1", "fairlead.dev/arch": "aarch64"}
LISTED = {PUBLISHED: "fairlead.dev/arch,fairlead.dev/tpu.count"}


def test_nothing_is_written_when_nothing_changed() -> None:
    assert node_patch({**OURS, "zone": "a"}, LISTED, OURS, {}) is None


def test_new_labels_are_added_and_listed() -> None:
    patch = node_patch({"zone": "a"}, {"note": "b"}, OURS, {ALLOCATED: "{}"})
    assert patch == {"metadata": {"labels": OURS, "annotations": {**LISTED, ALLOCATED: "{}"}}}


def test_only_published_labels_are_removed() -> None:
    live = {**OURS, "fairlead.dev/pool": "edge", "zone": "a"}
    patch = node_patch(live, LISTED, {"fairlead.dev/arch": "aarch64"}, {})
    assert patch == {
        "metadata": {
            "labels": {"fairlead.dev/tpu.count": None},
            "annotations": {PUBLISHED: "fairlead.dev/arch"},
        }
    }


def test_a_deleted_label_is_added_again() -> None:
    patch = node_patch({"fairlead.dev/arch": "aarch64"}, LISTED, OURS, {})
    assert patch == {"metadata": {"labels": {"fairlead.dev/tpu.count": "1"}}}


def test_without_labels_the_list_is_removed_too() -> None:
    patch = node_patch(OURS, {**LISTED, ALLOCATED: "{}"}, {}, {})
    assert patch is not None
    assert patch["metadata"]["labels"] == dict.fromkeys(OURS)
    assert patch["metadata"]["annotations"] == {PUBLISHED: None, ALLOCATED: None}


@pytest.mark.parametrize("key", ["kubernetes.io/arch", "node-role.kubernetes.io/control-plane", "zone", ""])
def test_a_forged_list_removes_no_label_of_other_writers(key: str) -> None:
    assert published({PUBLISHED: f"{key},fairlead.dev/arch"}) == ["fairlead.dev/arch"]
    patch = node_patch({key: "x"}, {PUBLISHED: key}, {}, {})
    assert "labels" not in (patch or {"metadata": {}})["metadata"]


@pytest.mark.parametrize(
    ("labels", "annotations", "patch"),
    [
        ({"zone": "a"}, {"note": "b"}, None),
        (
            {**OURS, "zone": "a"},
            LISTED,
            {"metadata": {"labels": dict.fromkeys(OURS), "annotations": {PUBLISHED: None}}},
        ),
        ({}, {ALLOCATED: "{}"}, {"metadata": {"annotations": {ALLOCATED: None}}}),
        ({}, {PLACEMENT_FORMAT: "1"}, {"metadata": {"annotations": {PLACEMENT_FORMAT: None}}}),
        ({}, {DEVICES: "[]"}, {"metadata": {"annotations": {DEVICES: None}}}),
    ],
)
def test_everything_published_can_be_removed(
    labels: dict[str, str], annotations: dict[str, str], patch: dict[str, Any] | None
) -> None:
    assert unpublish_patch(labels, annotations) == patch
