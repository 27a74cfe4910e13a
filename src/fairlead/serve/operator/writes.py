"""The requests of the operator: one function for each write. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlead.keys import FINALIZER
from fairlead.serve.machine.requests import APPLY, MERGE, ApiRequest, Get, QueriedRequest
from fairlead.serve.operator.applied import FIELD_MANAGER
from fairlead.serve.operator.kinds import ObjectId, client_kind, metadata_of
from fairlead.serve.operator.plan import Change

Document = Mapping[str, Any]


class Apply(QueriedRequest):
    """Create an object, or change it to what is wanted."""

    __slots__ = ()


class Delete(ApiRequest):
    """Delete an object that is not wanted any more."""

    __slots__ = ()


class SetStatus(QueriedRequest):
    """Write the status of a resource."""

    __slots__ = ()


class SetFinalizers(QueriedRequest):
    """Add our finalizer to a resource, or remove it."""

    __slots__ = ()


class WriteEvent(ApiRequest):
    """Write an event: users read it, and no decision depends on it."""

    __slots__ = ()


def path_of(key: ObjectId, sub: str = "") -> str:
    """Return the path of an object."""
    return client_kind(key.kind).path(key.namespace or None, key.name, sub)


def get(key: ObjectId) -> Get:
    """Return the request that reads an object."""
    return Get("GET", path_of(key))


def apply(change: Change) -> Apply:
    """Return the request that makes an object what is wanted.

    An object that exists must have the uid of the plan, and every field becomes ours. A new one takes no
    field from another client: where one has made an object of this name meanwhile, the request fails.
    """
    body, query = dict(change.body), {"fieldManager": FIELD_MANAGER}
    if change.action == "apply":
        body["metadata"] = {**metadata_of(body), "uid": change.uid}
        query["force"] = "true"
    return Apply("PATCH", path_of(change.key), body, APPLY, query=query)


def delete(change: Change) -> Delete:
    """Return the request that deletes this very object."""
    options = {
        **change.body,
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": change.uid},
    }
    return Delete("DELETE", path_of(change.key), options)


def set_status(key: ObjectId, resource: Document, patch: Document) -> SetStatus:
    """Return the request that changes a status; it fails where the resource has changed since."""
    body = {"metadata": _version(resource), "status": patch}
    return SetStatus("PATCH", path_of(key, "status"), body, MERGE, query={"fieldManager": FIELD_MANAGER})


def set_finalizer(key: ObjectId, resource: Document, *, present: bool) -> SetFinalizers:
    """Return the request that adds our finalizer or removes it, and leaves those of others."""
    others = [one for one in metadata_of(resource).get("finalizers") or () if one != FINALIZER]
    finalizers = [*others, FINALIZER] if present else others
    body = {"metadata": {**_version(resource), "finalizers": finalizers}}
    return SetFinalizers("PATCH", path_of(key), body, MERGE, query={"fieldManager": FIELD_MANAGER})


def _version(resource: Document) -> dict[str, str]:
    metadata = metadata_of(resource)
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
