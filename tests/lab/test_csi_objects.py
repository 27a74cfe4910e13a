"""The lab's volumes: which are made, enlarged and removed."""

from typing import Any

import pytest

from fairlead.lab.csi.objects import (
    CLASS,
    DRIVER,
    SMALLEST,
    csi_driver,
    next_steps,
    resize_pending,
    size_of,
    storage_class,
)

CLASSES = {
    each["metadata"]["name"]: each for each in (storage_class("now"), storage_class("later", waits=True))
}
Json = dict[str, Any]


def claim(name: str, storage: str = "1Gi", had: str = "", **metadata: Any) -> Json:
    """Return a claim of the class `now`."""
    spec = {
        "storageClassName": "now",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage}},
        **({"volumeName": f"pvc-{name}"} if had else {}),
    }
    status = {"phase": "Bound", "capacity": {"storage": had}} if had else {"phase": "Pending"}
    meta = {"name": name, "namespace": "shop", "uid": name, **metadata}
    return {"metadata": meta, "spec": spec, "status": status}


def volume(
    name: str, phase: str = "Bound", by: str = DRIVER, size: str = "1Gi", keep: str = "Delete"
) -> Json:
    """Return the volume of a claim."""
    notes = {"pv.kubernetes.io/provisioned-by": by}
    spec = {"capacity": {"storage": size}, "persistentVolumeReclaimPolicy": keep}
    return {
        "metadata": {"name": f"pvc-{name}", "annotations": notes},
        "spec": spec,
        "status": {"phase": phase},
    }


def test_a_claim_gets_an_image_of_its_own() -> None:
    (made,) = next_steps([claim("a")], [], CLASSES).create
    assert made["metadata"]["name"] == "pvc-a"
    assert made["spec"]["csi"] == {"driver": DRIVER, "volumeHandle": "pvc-a", "fsType": "xfs"}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop"}
    assert made["spec"]["claimRef"] == {**reference, "name": "a", "uid": "a"}
    assert made["spec"]["capacity"] == {"storage": "1Gi"}


@pytest.mark.parametrize(
    ("asked", "size", "written"),
    [("64Mi", 64 << 20, "64Mi"), ("1Mi", SMALLEST, str(SMALLEST)), ("20000001", 20_000_768, "20000768")],
)
def test_a_volume_is_whole_blocks_and_not_too_small_for_xfs(asked: str, size: int, written: str) -> None:
    assert size_of(asked) == size
    (made,) = next_steps([claim("a", asked)], [], CLASSES).create
    assert made["spec"]["capacity"]["storage"] == written


def test_a_claim_of_a_class_that_waits_gets_one_once_its_pod_has_a_node() -> None:
    waiting = claim("a")
    waiting["spec"]["storageClassName"] = "later"
    assert next_steps([waiting], [], CLASSES).create == ()
    waiting["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    assert len(next_steps([waiting], [], CLASSES).create) == 1


def test_a_block_device_is_not_made() -> None:
    block = claim("a")
    block["spec"]["volumeMode"] = "Block"
    assert next_steps([block], [], CLASSES).create == ()


def test_a_claim_that_asks_for_more_is_enlarged_until_the_kubelet_knows() -> None:
    grown = claim("a", "2Gi", had="1Gi")
    wanted = ((grown, 2 << 30),)
    assert next_steps([grown], [volume("a")], CLASSES).enlarge == wanted
    assert next_steps([grown], [volume("a", size="2Gi")], CLASSES).enlarge == wanted, "not said in the claim"
    grown["status"] |= resize_pending("2Gi")["status"]
    assert next_steps([grown], [volume("a", size="2Gi")], CLASSES).enlarge == ()
    grown["spec"]["resources"]["requests"]["storage"] = "3Gi"
    assert next_steps([grown], [volume("a", size="2Gi")], CLASSES).enlarge == ((grown, 3 << 30),), "once more"
    same = claim("a", "2Gi", had="2Gi")
    assert next_steps([same], [volume("a", size="2Gi")], CLASSES).enlarge == ()


def test_a_claim_that_got_more_than_it_asked_for_is_not_enlarged() -> None:
    small = claim("a", "1Mi", had=str(SMALLEST))
    assert next_steps([small], [volume("a", size=str(SMALLEST))], CLASSES).enlarge == ()


def test_what_others_made_is_left_alone_and_what_is_released_goes_unless_it_is_retained() -> None:
    volumes = [volume("a", "Released"), volume("b", "Released", by="another"), volume("c")]
    volumes.append(volume("d", "Released", keep="Retain"))
    foreign = claim("f")
    foreign["spec"]["storageClassName"] = "other"
    steps = next_steps([foreign, claim("e", deletionTimestamp="now")], volumes, CLASSES)
    assert (steps.create, steps.enlarge, steps.remove) == ((), (), ("pvc-a",))


def test_other_conditions_of_a_claim_stay() -> None:
    used = {"type": "Unused", "status": "False"}
    once = resize_pending("2Gi", [used])["status"]["conditions"]
    assert [each["type"] for each in once] == ["Unused", "FileSystemResizePending"]
    assert resize_pending("3Gi", once)["status"]["conditions"] == once


def test_the_driver_needs_no_attachment_and_its_class_can_grow() -> None:
    assert csi_driver()["spec"]["attachRequired"] is False
    assert (storage_class()["metadata"]["name"], storage_class()["allowVolumeExpansion"]) == (CLASS, True)
