"""Pods and small clusters for tests: manifests, read as a user's file is read."""

from typing import Any

from fairlead.catalog import Catalog
from fairlead.manifest.files.collect import FoundObjects, collect, read_object
from fairlead.manifest.pod.request import ReadContext, read_request
from fairlead.request import Request
from tests import catalogs

CATALOG: Catalog = catalogs.shipped()


def pod(
    limits: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    name: str = "web",
    **spec: Any,
) -> dict[str, Any]:
    """Return the manifest of a pod."""
    containers = [{"name": "main", "resources": {"limits": limits or {}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": {"app": name}},
        "spec": {"containers": containers, **spec},
    }


def read_pod(manifest: dict[str, Any], *others: dict[str, Any]) -> Request:
    """Return the request of a pod, read together with other objects."""
    objects = collect([("file", other) for other in others])
    entry = read_object("file", "Pod", manifest)
    return read_request(entry.where, entry.body, ReadContext(CATALOG, objects))


def collect_objects(*manifests: dict[str, Any]) -> FoundObjects:
    """Return the objects of manifests, by kind."""
    return collect([("file", each) for each in manifests])
