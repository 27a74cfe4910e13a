"""What was applied, and whose fields they are: managed fields as a real API server writes them."""

import json
from typing import Any

import pytest

from fairlead.errors import NewerFormatError
from fairlead.keys import APPLIED
from fairlead.serve.operator.applied import (
    APPLIED_HASHES,
    FIELD_MANAGER,
    hash_of,
    manages_all,
    owned_fields,
    read_hash,
)
from fairlead.serve.operator.plan import status_patch
from fairlead.serve.operator.queue import FailureDelay

SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "a", "labels": {"app": "x"}},
    "spec": {"ports": [{"port": 80, "name": "http"}], "clusterIP": "None"},
}
PORT = "k:" + json.dumps({"port": 80, "protocol": "TCP"})
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {"f:clusterIP": {}, "f:ports": {PORT: {".": {}, "f:port": {}, "f:name": {}}}},
}


def _without(*path: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(FIELDS))
    below = fields
    for step in path[:-1]:
        below = below[step]
    del below[path[-1]]
    return fields


@pytest.mark.parametrize(
    ("fields", "manages"),
    [
        (FIELDS, True),
        ({**FIELDS, "f:spec": {}}, True),
        ({**FIELDS, "f:metadata": {"f:labels": {".": {}}}}, False),
        ({**FIELDS, "f:metadata": {"f:annotations": {".": {}}}}, False),
        (_without("f:spec", "f:clusterIP"), False),
        (_without("f:spec", "f:ports", PORT, "f:name"), False),
        ({**FIELDS, "f:spec": {"f:clusterIP": {}, "f:ports": {'k:{"port":81}': {}}}}, False),
    ],
)
def test_every_field_must_be_managed(fields: dict[str, Any], manages: bool) -> None:
    assert manages_all(fields, SERVICE) is manages


def test_only_what_the_operator_applied_counts() -> None:
    others = (
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:other": {}}},
        {"manager": FIELD_MANAGER, "operation": "Update", "fieldsV1": {"f:update": {}}},
        {
            "manager": FIELD_MANAGER,
            "operation": "Apply",
            "subresource": "status",
            "fieldsV1": {"f:status": {}},
        },
    )
    ours = {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": FIELDS}
    assert owned_fields({"metadata": {"managedFields": [*others, ours]}}) == FIELDS
    assert owned_fields({"metadata": {"managedFields": [*others]}}) == {}


def test_the_hash_of_a_pod_tells_its_spec_apart() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeSelector": {"a": "b"}}}
    labelled = {**pod, "metadata": {"name": "a", "labels": {"c": "d"}}}
    other = {**pod, "spec": {"nodeSelector": {"a": "c"}}}
    assert hash_of(pod).immutable == hash_of(labelled).immutable != hash_of(other).immutable
    assert hash_of(pod).whole != hash_of(labelled).whole
    assert hash_of(SERVICE).immutable == ""


def test_a_newer_hash_is_told_from_none() -> None:
    def noted(text: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {APPLIED: text}}}

    value = hash_of(SERVICE)
    assert read_hash(noted(APPLIED_HASHES.encode(value))) == value
    assert isinstance(read_hash(noted("v2 whatever it is")), NewerFormatError)
    assert read_hash(noted("by hand")) is None
    assert read_hash({"metadata": {}}) is None


@pytest.mark.parametrize(
    ("live", "wanted", "patch"),
    [
        ({}, {}, None),
        ({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [1]}}, None),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"b": 2}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_status_is_patched_where_it_differs(live: Any, wanted: Any, patch: Any) -> None:
    assert status_patch(live, wanted) == patch


def test_delays_double_up_to_a_limit() -> None:
    delay = FailureDelay(0.2, 30.0)
    assert [delay.delay(count, float("inf")) for count in (1, 2, 3, 9, 1000)] == [0.2, 0.4, 0.8, 30.0, 30.0]
    assert delay.delay(9, 5.0) == 5.0
