"""Checks of the agents: one on every node with accelerators, ready, and all of one version."""

from typing import Final

from fairlead.annotations import models
from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import PROGRAMS, VERSION, ClusterView, is_ready
from fairlead.keys import PREFIX, WHOLE
from fairlead.manifest.types.kubernetes import Node

_GPU_LABELS: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels of others by which a node says that it has a GPU."""


def agents(sight: ClusterView) -> list[CheckResult]:
    """Say which nodes have accelerators and no agent that is ready."""
    found = sight.component("agent")
    if not found:
        return [warn("no agent runs in this cluster", "install the chart: fairlead docs install")]
    ready = {pod.spec.node_name for pod in found if is_ready(pod)}
    told = {each.spec.node_name for each in sight.own_slices} & {_name(node) for node in sight.nodes}
    silent = (told | {_name(node) for node in sight.nodes if offers_accelerators(node)}) - ready
    unknown = {_name(node) for node in sight.nodes if has_other_gpus(node)} - ready - silent
    said = []
    if silent:
        text = f"{count(silent, 'node')} with accelerators without a ready agent: {some(silent)}"
        todo = "kubectl describe pod -l app.kubernetes.io/component=agent; what these publish may be outdated"
        said.append(fail(text, todo))
    if unknown:
        text = f"{count(unknown, 'node')} with GPUs, by others' labels, without an agent: {some(unknown)}"
        said.append(warn(text, "look at nodeSelector and tolerations of the chart"))
    return said or [
        ok(f"{count(ready, 'agent is', 'agents are')} ready, one on every node with accelerators")
    ]


def versions(sight: ClusterView) -> list[CheckResult]:
    """Say whether all of our programs are of one version."""
    by_version: dict[str, list[str]] = {}
    for name in PROGRAMS:
        for pod in sight.component(name):
            number = pod.metadata.labels.get(VERSION, "unknown")
            by_version.setdefault(number, []).append(pod.metadata.name)
    if len(by_version) < 2:
        return [
            ok(f"all of version {next(iter(by_version))}" if by_version else "none of our programs runs here")
        ]
    rows = "; ".join(f"{number}: {some(pods)}" for number, pods in sorted(by_version.items()))
    todo = "an update is under way, or stuck: kubectl get pods -A -l app.kubernetes.io/name=fairlead"
    return [warn(f"programs of {len(by_version)} versions run ({rows})", todo)]


def offers_accelerators(node: Node) -> bool:
    """Say whether a node shows accelerators of ours."""
    amounts = node.status.allocatable.items()
    return bool(models(node.metadata.labels)) or any(
        name.startswith(PREFIX) and amount != "0" for name, amount in amounts
    )


def has_other_gpus(node: Node) -> bool:
    """Say whether a node has GPUs, in the words of others."""
    labels, has = node.metadata.labels, node.status.allocatable
    return any(labels.get(name) == "true" for name in _GPU_LABELS) or any(
        has.get(name, "0") != "0" for name in WHOLE
    )


def _name(node: Node) -> str:
    return node.metadata.name
