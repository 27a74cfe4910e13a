"""The chart as tests see it: rendered by the lab's helm, read as documents, and what is asked of them."""

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
"""By the path of the value, as `--set` has it."""

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
    "scheduler for nobody": {"scheduler": {"enabled": True, "networkPolicy": {"enabled": True}}},
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
"""Ways to install, each with what sets it apart; every one of them must be sound."""


RUNNING = ("DaemonSet", "Deployment", "Job")
"""Kinds that make pods."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart, and the helm that renders it."""

    helm: Path

    def render(self, values: Values, *flags: str, namespace: str = render.NAMESPACE) -> list[Document]:
        """Return the documents that the chart makes of these values."""
        text = render.template(self.helm, *_set(values), *flags, namespace=namespace)
        return [document for document in yaml.safe_load_all(text) if document]

    def refusal(self, values: Values) -> str:
        """Return what is said to somebody who sets these values."""
        try:
            self.render(values)
        except subprocess.CalledProcessError as error:
            return str(error.stderr)
        return ""


def _set(values: Values) -> list[str]:
    return [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]


def one(documents: list[Document], kind: str, name: str = "") -> Document:
    """Return the only document of a kind, and of a name where one is given."""
    found = [each for each in documents if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def pods(documents: list[Document]) -> Iterator[Document]:
    """Yield the spec of every pod that the documents lead to."""
    for document in documents:
        if document["kind"] in RUNNING:
            yield document["spec"]["template"]["spec"]


def containers(pod: Document) -> dict[str, Document]:
    """Return a pod's containers, those that only begin among them."""
    return {each["name"]: each for each in [*pod.get("initContainers", []), *pod["containers"]]}


def shown(pod: Document, container: str) -> dict[str, str]:
    """Return what a container sees at each path: `ro` or `rw`, and a path of the node or a volume's kind."""
    volumes = {each["name"]: each for each in pod["volumes"]}
    found = {}
    for mount in containers(pod)[container]["volumeMounts"]:
        volume = volumes[mount["name"]]
        node = volume.get("hostPath", {}).get("path")
        kind = next(key for key in volume if key != "name")
        found[mount["mountPath"]] = f"{'ro' if mount.get('readOnly') else 'rw'} {node or kind}"
    return found
