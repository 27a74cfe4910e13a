"""The chart for tests: rendered by the lab's helm and parsed into documents, with helpers to query them."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy import render

Document = dict[str, Any]
Values = Mapping[str, Any]
"""By the path of the value, in the form of `--set`."""

PEERS = [
    {"ipBlock": {"cidr": "10.0.0.1/32"}},
    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
]
"""An API server, and a Prometheus."""
OPTIONS: dict[str, Values] = {
    "default": {},
    "legacy labels": {"publish.legacyLabels": True},
    "labels only": {"publish.devicePlugin": False, "publish.claims": False, "warden.enabled": False},
    "metrics only": {
        "publish.labels": False,
        "publish.devicePlugin": False,
        "publish.claims": False,
        "warden.enabled": False,
    },
    "without warden": {"publish.claims": False, "warden.enabled": False},
    "without CDI": {"publish.claims": False, "warden.cdi.enabled": False},
    "without attribution": {"attribution.enabled": False},
    "attribution on a Jetson": {"attribution.debugfs": True},
    "limiter": {"limiter.enabled": True},
    "limiter for HAMi": {
        "limiter": {"enabled": True, "hami": True, "nodeSelector": {"gpu": "yes"}},
        "nvidia.runtimeClassName": "nvidia",
    },
    "limiter of a replayed machine": {"limiter.enabled": True, "replay.root": "/opt/machines/server-t4"},
    "gibibytes": {"memoryUnit": "GiB"},
    "nvidia": {"nvidia.runtimeClassName": "nvidia", "nvidia.mode": "env"},
    "user namespaces": {"userNamespaces": True},
    "replay": {"replay.root": "/opt/machines/jetson-nano"},
    "tls and token": {"metrics.tls.secretName": "fairlead-tls", "metrics.token.secretName": "fairlead-token"},
    "monitoring": {
        "metrics.tls.secretName": "fairlead-tls",
        "metrics.tls.serverName": "fairlead.example.org",
        "metrics.token.secretName": "fairlead-token",
        "metrics.service.enabled": True,
        "metrics.podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheus.rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "grafana.dashboard.enabled": True,
    },
    "own account": {"serviceAccount": {"create": False, "name": "mine"}, "rbac.create": False},
    "without guard": {"policy.enabled": False, "deviceClasses.enabled": False, "cleanup.enabled": False},
    "profiles of agents": {"profiles.agentsWrite": True},
    "without profiles": {"profiles.enabled": False},
    "scheduler": {"scheduler.enabled": True},
    "extender": {"extender.enabled": True},
    "operator": {"operator.enabled": True},
    "operator, watched": {
        "operator": {"enabled": True, "replicas": 1, "inFlight": 8, "tls": {"secretName": "operator-tls"}},
        "metrics.podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "dashboard": {"dashboard.enabled": True},
    "dashboard, with actions": {
        "dashboard": {
            "enabled": True,
            "allow": ["cancel"],
            "hosts": ["page.example.org"],
            "tls": {"secretName": "t"},
        },
        "scheduler.usage.prometheus": {"url": "http://prometheus:9090", "secretName": "usage", "token": True},
    },
    "analyser": {"analyser": {"enabled": True, "claims": ["models"], "extraArgs": ["--namespace=edge"]}},
    "both, watched": {
        "scheduler": {"enabled": True, "name": "edge", "policy": "spread", "replicas": 1, "inFlight": 8},
        "extender": {
            "enabled": True,
            "extraArgs": ["--catalog=/etc/fairlead/catalog.d"],
            "tls": {"secretName": "extender-tls", "clients": True},
        },
        "metrics.service.enabled": True,
        "metrics.podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "scheduler for few": {"scheduler": {"enabled": True, "networkPolicy": {"enabled": True, "from": PEERS}}},
    "scheduler without clients": {"scheduler": {"enabled": True, "networkPolicy": {"enabled": True}}},
    "scheduler of annotations": {
        "publish.claims": False,
        "scheduler": {
            "enabled": True,
            "image": {"repository": "registry.example.org/s", "digest": f"sha256:{'0' * 64}"},
            "podDisruptionBudget": {"enabled": False},
            "priorityClassName": "",
            "tolerations": [],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        },
    },
    "elsewhere": {
        "image": {"repository": "registry.example.org:5000/edge/fairlead", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "registry"}],
        "kubeletDir": "/var/snap/kubelet",
        "warden.cdi.folder": "/etc/cdi",
        "priorityClassName": "",
        "maxUnavailable": 1,
        "metrics.port": 9444,
        "nodeSelector": {"edge": "yes"},
        "tolerations": [],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "agent.extraArgs": ["--catalog=/etc/fairlead/catalog.d"],
        "serviceAccount.annotations": {"example.org/owner": "edge"},
    },
}
"""Sets of values by name; the chart must be valid with each."""


RUNNING = ("DaemonSet", "Deployment", "Job")
"""Kinds that create pods."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart, and the helm that renders it."""

    helm: Path

    def render(self, values: Values, *flags: str, namespace: str = render.NAMESPACE) -> list[Document]:
        """Return the documents that the chart renders with these values."""
        text = render.template(self.helm, *_set(values), *flags, namespace=namespace)
        return [document for document in yaml.safe_load_all(text) if document]

    def error(self, values: Values) -> str:
        """Return helm's error for these values; empty if it accepts them."""
        try:
            self.render(values)
        except subprocess.CalledProcessError as error:
            return str(error.stderr)
        return ""


def _set(values: Values) -> list[str]:
    return [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]


def one(documents: list[Document], kind: str, name: str = "") -> Document:
    """Return the only document of a kind, and of a name if one is set."""
    matching = [
        document
        for document in documents
        if document["kind"] == kind and name in ("", document["metadata"]["name"])
    ]
    assert len(matching) == 1, f"{len(matching)} of {kind} {name}"
    return matching[0]


def pods(documents: list[Document]) -> Iterator[Document]:
    """Yield the spec of every pod that the documents create."""
    for document in documents:
        if document["kind"] in RUNNING:
            yield document["spec"]["template"]["spec"]


def containers(pod: Document) -> dict[str, Document]:
    """Return a pod's containers by name, init containers included."""
    return {
        container["name"]: container for container in [*pod.get("initContainers", []), *pod["containers"]]
    }


def mounts(pod: Document, container: str) -> dict[str, str]:
    """Return a container's mounts by path: `ro` or `rw`, and the node's path or the volume's kind."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    by_path = {}
    for mount in containers(pod)[container]["volumeMounts"]:
        volume = volumes[mount["name"]]
        node = volume.get("hostPath", {}).get("path")
        kind = next(key for key in volume if key != "name")
        by_path[mount["mountPath"]] = f"{'ro' if mount.get('readOnly') else 'rw'} {node or kind}"
    return by_path
