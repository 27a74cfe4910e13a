"""The lab's volumes: which are made, enlarged and removed."""

from pathlib import Path
from typing import Any

from fairlead.lab.volumes import next_steps, storage_class

ROOT = Path("/volumes")
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


def volume(name: str, phase: str = "Bound", by: str = "lab.fairlead.dev/directories") -> Json:
    """Return the volume of a claim."""
    notes = {"pv.kubernetes.io/provisioned-by": by}
    return {"metadata": {"name": f"pvc-{name}", "annotations": notes}, "status": {"phase": phase}}


def test_a_claim_gets_a_directory_of_its_own() -> None:
    (made,) = next_steps([claim("a")], [], CLASSES, ROOT).create
    assert made["metadata"]["name"] == "pvc-a"
    assert made["spec"]["hostPath"] == {"path": "/volumes/pvc-a", "type": "Directory"}
    assert made["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "shop",
        "name": "a",
        "uid": "a",
    }
    assert made["spec"]["capacity"] == {"storage": "1Gi"}


def test_a_claim_of_a_class_that_waits_gets_one_on_the_node_of_its_pod() -> None:
    waiting = claim("a")
    waiting["spec"]["storageClassName"] = "later"
    assert next_steps([waiting], [], CLASSES, ROOT).create == ()
    waiting["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    (made,) = next_steps([waiting], [], CLASSES, ROOT).create
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["n1"]


def test_a_claim_that_asks_for_more_is_enlarged_once() -> None:
    grown = claim("a", "2Gi", had="1Gi")
    assert next_steps([grown], [volume("a")], CLASSES, ROOT).enlarge == ((grown, "2Gi"),)
    assert next_steps([claim("a", "2Gi", had="2Gi")], [volume("a")], CLASSES, ROOT).enlarge == ()


def test_what_others_made_is_left_alone_and_what_is_released_goes() -> None:
    volumes = [volume("a", "Released"), volume("b", "Released", by="another"), volume("c")]
    foreign = claim("d")
    foreign["spec"]["storageClassName"] = "other"
    steps = next_steps([foreign, claim("e", deletionTimestamp="now")], volumes, CLASSES, ROOT)
    assert (steps.create, steps.enlarge, steps.remove) == ((), (), ("pvc-a",))
