"""Kinds of Kubernetes' own that controllers make or watch, and digests of documents. Pure."""

import hashlib
import json
from typing import Any, Final

from fairlead.reconcile import ResourceKind

PODS: Final = ResourceKind("v1", "Pod", "pods")
SECRETS: Final = ResourceKind("v1", "Secret", "secrets")
CONFIG_MAPS: Final = ResourceKind("v1", "ConfigMap", "configmaps")
SERVICES: Final = ResourceKind("v1", "Service", "services")
NETWORK_POLICIES: Final = ResourceKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
VOLUME_CLAIMS: Final = ResourceKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NODES: Final = ResourceKind("v1", "Node", "nodes", namespaced=False)
STORAGE_CLASSES: Final = ResourceKind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)


def digest(value: Any, length: int = 16) -> str:
    """Return a short digest of a JSON value; equal values have equal digests."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]
