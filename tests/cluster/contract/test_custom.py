"""The contract, on custom kinds: when they are served, how generations count, which versions are gone."""

import asyncio
from typing import Any

import pytest

from fairlead.cluster.kinds import CRDS, Kind
from fairlead.cluster.meta import Raw
from fairlead.errors import GoneError, InvalidError, MissingApiError
from tests.cluster.contract.arena import Place, contract, first_events
from tests.labs import LABEL


async def defined(place: Place) -> Kind[Raw]:
    """Define a kind for this test alone, and wait until it is served."""
    group = f"{place.namespace}.example"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    body = {
        "metadata": {"name": f"rockets.{group}", "labels": {LABEL: place.namespace}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "rockets", "singular": "rocket", "kind": "Rocket", "listKind": "RocketList"},
            "versions": [version],
        },
    }
    await place.cluster.create(CRDS, body)
    kind = Kind.of(group, "v1", "rockets", namespaced=True, name="Rocket")
    while not await served(place, kind):
        await asyncio.sleep(0.05)
    return kind


async def served(place: Place, kind: Kind[Raw]) -> bool:
    """Return whether the server serves a kind."""
    try:
        await place.cluster.list(kind, place.namespace)
    except MissingApiError:
        return False
    return True


def rocket(name: str, **spec: Any) -> dict[str, Any]:
    """Return an object of that kind."""
    return {"metadata": {"name": name}, "spec": spec}


@contract
async def test_a_custom_kind_behaves_like_the_others(place: Place) -> None:
    kind, namespace = await defined(place), place.namespace
    definition = await place.cluster.get(CRDS, kind.resource)
    assert {item.type: item.status for item in definition.status.conditions}["Established"] == "True"
    made = await place.cluster.create(kind, rocket("a", stages=3), namespace)
    assert (made.kind, made.api_version) == ("Rocket", kind.api_version)
    assert made.metadata.generation == 1
    assert made.document()["spec"] == {"stages": 3}
    new = await place.cluster.patch_status(kind, "a", {"status": {"phase": "Flying"}}, namespace)
    assert new.metadata.generation == 1
    new = await place.cluster.patch(kind, "a", {"spec": {"stages": 2}, "status": {"phase": "?"}}, namespace)
    assert new.metadata.generation == 2
    assert new.document()["status"] == {"phase": "Flying"}
    with pytest.raises(InvalidError):
        await place.cluster.update(kind, rocket("a"), namespace)  # without a version
    with pytest.raises(InvalidError):
        await place.cluster.patch(kind, "a", {"spec": {}}, namespace, patch_type="strategic")
    applied = rocket("a", crew=1)
    new = await place.cluster.patch(kind, "a", applied, namespace, patch_type="apply", field_manager="me")
    assert new.document()["spec"] == {"stages": 2, "crew": 1}


@contract
async def test_a_compacted_version_is_gone(place: Place) -> None:
    kind = await defined(place)
    await place.cluster.create(kind, rocket("a"), place.namespace)
    await place.forget()
    with pytest.raises(GoneError):
        await first_events(place, kind, 1, resource_version="1")
