"""Decide for one waiting pod of a live cluster, with its gang, as if nobody else waited."""

from typing import Any

from fairlead.cache.clusterfile import of_objects
from fairlead.catalog import Catalog
from fairlead.manifest.collect import Objects
from fairlead.manifest.seen import Pod
from fairlead.placement import Decision
from fairlead.request import Request
from fairlead.whatif.answer import answer

POLICY = "fairlead"


def decided(objects: Objects, catalog: Catalog, pod: Pod, *, detailed: bool = False) -> dict[str, Any]:
    """Return the decision for a pod; one that cannot be read has that as its reason."""
    complaints: list[str] = []
    cluster = of_objects(objects, catalog, complaints=complaints)
    asked = next((each for each in cluster.pending if each.id == pod.metadata.uid), None)
    if asked is None:
        return _unreadable(pod, complaints)
    members = [each for each in cluster.pending if each.id == asked.id or _together(each, asked)]
    found = answer(cluster, members, POLICY, detailed=detailed).to_json()["decisions"]
    told: dict[str, Any] = found[members.index(asked)]
    return told


def _together(one: Request, other: Request) -> bool:
    return one.gang is not None and one.gang == other.gang and one.namespace == other.namespace


def _unreadable(pod: Pod, complaints: list[str]) -> dict[str, Any]:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    why = next((each for each in complaints if name in each), f"{pod.metadata.name} waits no more")
    none = Decision(Request(pod.metadata.name, pod.metadata.namespace), POLICY).to_json()
    return {**none, "sentence": why}
