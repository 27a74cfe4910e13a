"""Names, labels, ports and places of the objects of an Augmentation. Pure."""

from typing import Any, Final

from fairlead.keys import AUGMENTATION, DOMAIN
from fairlead.reconcile import Manifest, ResourceKind

AUGMENTATIONS: Final = ResourceKind(f"{DOMAIN}/v1alpha1", "Augmentation", "augmentations")
PORT: Final = 8443
"""Where the store listens."""
METRICS_PORT: Final = 19816
"""Where the store serves its metrics: inside the cluster only, no Service names it."""
LONGEST_NAME: Final = 40
STORE: Final = "store"
APPLICATION: Final = "application"
COPY: Final = "copy"
"""The part of the pod that copies data while the store serves."""
LAST_COPY: Final = "last-copy"
"""The part of the pod that copies what has changed, and compares all."""
DATA: Final = "data"
FAST: Final = "fast"

DATA_VOLUME: Final = "/data"
"""Where the claim is that holds everything, or the slow tier; the same in all pods, for links lead there."""
FAST_VOLUME: Final = "/fast"
FILES: Final = "files"
"""The folder of a volume with the device's files."""
STATE: Final = "state"
"""The folder of a volume with what the store remembers; the application does not see it."""


def labels(name: str) -> dict[str, str]:
    """Return the labels of every object of an Augmentation."""
    return {
        "app.kubernetes.io/name": "fairlead-augmentation",
        "app.kubernetes.io/managed-by": "fairlead",
        AUGMENTATION: name,
    }


def store_name(name: str) -> str:
    """Return the name of the store's pod, its Service and its NetworkPolicy."""
    return f"{name}-store"


def application_name(name: str) -> str:
    """Return the name of the application's pod, and of its Service."""
    return f"{name}-application"


def credentials_name(name: str) -> str:
    """Return the name of the Secret with the token and the invite key."""
    return f"{name}-credentials"


def tls_name(name: str) -> str:
    """Return the name of the Secret with the certificate of the store."""
    return f"{name}-store-tls"


def authority_name(name: str) -> str:
    """Return the name of the Secret with the authority, which no pod mounts."""
    return f"{name}-store-authority"


def settings_name(name: str) -> str:
    """Return the name of the ConfigMap with what the store reads again when it changes."""
    return f"{name}-store-settings"


def claim_name(name: str, part: str, number: int = 1) -> str:
    """Return the name of a claim; data that was moved is in one with a higher number."""
    return f"{name}-{part}" if number == 1 else f"{name}-{part}-{number}"


def service_hosts(namespace: str, name: str) -> tuple[str, ...]:
    """Return the DNS names of the store inside the cluster."""
    host = f"{store_name(name)}.{namespace}.svc"
    return host, f"{host}.cluster.local"


def new_object(kind: ResourceKind, namespace: str, owner: str, name: str, **body: Any) -> dict[str, Any]:
    """Return an object of an Augmentation, with its labels."""
    meta = {"name": name, "namespace": namespace, "labels": labels(owner)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}


def by_name(objects: "tuple[Manifest, ...] | list[Manifest]") -> dict[str, Manifest]:
    """Return objects by their names."""
    return {each["metadata"]["name"]: each for each in objects}
