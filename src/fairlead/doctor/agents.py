"""Checks of the agents: a ready agent on every node with accelerators, and one version of all programs."""

from typing import Final

from fairlead.annotations import labelled_models
from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import PROGRAMS, VERSION, ClusterView, is_ready
from fairlead.keys import PREFIX, WHOLE
from fairlead.manifest.types.kubernetes import Node

_GPU_LABELS: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels by which other programs mark a node with a GPU."""


def agents(view: ClusterView) -> list[CheckResult]:
    """Report the nodes that have accelerators and no ready agent."""
    pods = view.component("agent")
    if not pods:
        return [warn("no agent runs in this cluster", "install the chart: fairlead docs install")]
    ready = {pod.spec.node_name for pod in pods if is_ready(pod)}
    published = {slice_.spec.node_name for slice_ in view.own_slices} & {_name(node) for node in view.nodes}
    without_agent = (published | {_name(node) for node in view.nodes if offers_accelerators(node)}) - ready
    foreign = {_name(node) for node in view.nodes if has_other_gpus(node)} - ready - without_agent
    results = []
    if without_agent:
        text = (
            f"{count(without_agent, 'node')} with accelerators without a ready agent: {some(without_agent)}"
        )
        todo = "kubectl describe pod -l app.kubernetes.io/component=agent; these nodes may publish old data"
        results.append(fail(text, todo))
    if foreign:
        text = f"{count(foreign, 'node')} with GPUs, by others' labels, without an agent: {some(foreign)}"
        results.append(warn(text, "check nodeSelector and tolerations of the chart"))
    return results or [
        ok(f"{count(ready, 'agent is', 'agents are')} ready, one on every node with accelerators")
    ]


def versions(view: ClusterView) -> list[CheckResult]:
    """Report whether all of our programs have one version."""
    by_version: dict[str, list[str]] = {}
    for name in PROGRAMS:
        for pod in view.component(name):
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
    """Return whether a node publishes accelerators of ours."""
    amounts = node.status.allocatable.items()
    return bool(labelled_models(node.metadata.labels)) or any(
        name.startswith(PREFIX) and amount != "0" for name, amount in amounts
    )


def has_other_gpus(node: Node) -> bool:
    """Return whether a node has GPUs, by the labels or resources of other programs."""
    labels, has = node.metadata.labels, node.status.allocatable
    return any(labels.get(name) == "true" for name in _GPU_LABELS) or any(
        has.get(name, "0") != "0" for name in WHOLE
    )


def _name(node: Node) -> str:
    return node.metadata.name
