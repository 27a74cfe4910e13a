"""Names, ports and labels of the objects of a Pipeline. Pure."""

from typing import Final

from fairlead.keys import DOMAIN, PIPELINE
from fairlead.ownedobjects.kinds import digest
from fairlead.reconcile import ResourceKind

PIPELINES: Final = ResourceKind(f"{DOMAIN}/v1alpha1", "Pipeline", "pipelines")

LOCAL: Final = "local"
"""The coordinator's pod as a host: stages without `on` are there."""
PORT: Final = 7070
"""Where the worker of each host listens."""
PAGES_PORT: Final = 9090
"""Where each pod answers probes, and the coordinator serves metrics."""
SLOTS: Final = ("a", "b")
"""A host has two: its new pod starts in one while the other one still works. The coordinator has none."""
LONGEST_NAME: Final = 40
LONGEST_HOST: Final = 20
"""Characters of the names of a Pipeline and of a host: together with a digest they fit into a DNS label."""
_DIGEST: Final = 5


def labels(pipeline: str) -> dict[str, str]:
    """Return the labels of every object of a Pipeline."""
    return {
        "app.kubernetes.io/name": "fairlead-pipeline",
        "app.kubernetes.io/managed-by": "fairlead",
        PIPELINE: pipeline,
    }


def slotted(host: str, slot: str) -> str:
    """Return the name of a host in one of its slots, which is the host name of its pod."""
    return f"{host}-{slot}" if slot else host


def pod_name(pipeline: str, host: str, slot: str = "") -> str:
    """Return the name of a pod; the digest tells host b-c of pipeline a from host c of pipeline a-b."""
    return f"{pipeline}-{slotted(host, slot)}-{digest([pipeline, host], _DIGEST)}"


def tls_name(pipeline: str, host: str) -> str:
    """Return the name of the Secret with the certificate of a host."""
    return f"{pod_name(pipeline, host)}-tls"


def authority_name(pipeline: str) -> str:
    """Return the name of the Secret with the authority, which no pod mounts."""
    return f"{pipeline}-authority-{digest([pipeline], _DIGEST)}"


def service_name(pipeline: str) -> str:
    """Return the name of the headless Service, and of the NetworkPolicy."""
    return f"{pipeline}-pipeline"


def host_name(namespace: str, pipeline: str, host: str, slot: str = "") -> str:
    """Return the DNS name of a host, as its peers dial it."""
    return f"{slotted(host, slot)}.{service_name(pipeline)}.{namespace}.svc"
