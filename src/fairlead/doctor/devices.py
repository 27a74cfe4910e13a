"""Checks of the devices on offer: no other plugin hands out the same ones, and their nodes exist."""

from collections.abc import Iterable
from typing import Final, TypeVar

from fairlead.doctor.agents import offers_accelerators
from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import GRACE_SECONDS, ClusterView, Pod, full_name
from fairlead.keys import ALIYUN_COUNT, ALIYUN_MEM, HAMI_CORES, HAMI_MEM, PREFIX, WHOLE
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.pod.effective import named_resources
from fairlead.manifest.types.dra import Slice, pool_generations
from fairlead.manifest.types.kubernetes import Node
from fairlead.offer import DRIVER

T = TypeVar("T", Pod, Slice)

FOREIGN: Final = {
    **{name: f"{vendor}'s device plugin" for name, vendor in WHOLE.items()},
    **dict.fromkeys((HAMI_MEM, HAMI_CORES), "HAMi"),
    **dict.fromkeys((ALIYUN_MEM, ALIYUN_COUNT), "gpushare"),
    "volcano.sh/vgpu-memory": "Volcano's vGPU plugin",
}
"""Resources by which other plugins hand out the same GPUs, and the names of those plugins."""
DRIVERS: Final = {"gpu.nvidia.com": "NVIDIA's DRA driver", "gpu.amd.com": "AMD's DRA driver"}


def other_plugins(view: ClusterView) -> list[CheckResult]:
    """Report the nodes where another plugin hands out the accelerators that we hand out."""
    pods, slices = _by_node(view.pods), _by_node(view.slices)
    results = [
        _shared(node.metadata.name, providers, pods.get(node.metadata.name, ()))
        for node in view.nodes
        if (providers := _other_providers(node, slices.get(node.metadata.name, ())))
    ]
    return results or [ok("no other plugin hands out our accelerators")]


def _by_node(items: Iterable[T]) -> dict[str, list[T]]:
    grouped: dict[str, list[T]] = {}
    for item in items:
        grouped.setdefault(item.spec.node_name, []).append(item)
    return grouped


def _other_providers(node: Node, slices: Iterable[Slice]) -> set[str]:
    """Return the other plugins that offer accelerators of a node which offers some of ours."""
    if not offers_accelerators(node) and not any(
        slice_.spec.driver == DRIVER and slice_.spec.devices for slice_ in slices
    ):
        return set()
    counted = {
        FOREIGN[name] for name, has in node.status.allocatable.items() if name in FOREIGN and has != "0"
    }
    return counted | {DRIVERS[slice_.spec.driver] for slice_ in slices if slice_.spec.driver in DRIVERS}


def _shared(node: str, providers: set[str], pods: Iterable[Pod]) -> CheckResult:
    running = [pod for pod in pods if not pod.ended]
    theirs = [
        full_name(pod) for pod in running if _requested_resources(pod) & FOREIGN.keys() and not _is_ours(pod)
    ]
    ours = [full_name(pod) for pod in running if _is_ours(pod)]
    todo = "keep one of the two on each node: label the nodes, and set nodeSelector for either"
    if theirs and ours:
        text = f"{node}: {some(theirs)} by {some(providers)} and {some(ours)} by us may hold the same GPU"
        return fail(text, todo)
    offer = "offers" if len(providers) == 1 else "offer"
    return warn(f"{node}: {some(providers)} {offer} the same GPUs as we do", todo)


def _requested_resources(pod: Pod) -> set[str]:
    return set(filter(is_accelerator, named_resources(pod.spec)))


def _is_ours(pod: Pod) -> bool:
    """Return whether we handed out what a pod holds: by our resource, or by a claim of our scheduler."""
    mapped = {
        request_mapping.resource_name
        for request_mapping in pod.status.extended_resource_claim_status.request_mappings
    }
    return bool(mapped) or any(name.startswith(PREFIX) for name in _requested_resources(pod))


def slices(view: ClusterView) -> list[CheckResult]:
    """Report the slices of nodes that are gone, and the slices of an older generation."""
    nodes = {node.metadata.name for node in view.nodes}
    ours = view.own_slices
    orphaned = [
        slice_.metadata.name
        for slice_ in ours
        if slice_.spec.node_name and slice_.spec.node_name not in nodes
    ]
    latest = pool_generations(ours)
    outdated = [slice_.metadata.name for slice_ in ours if slice_.spec.pool.generation < latest[slice_.pool]]
    results = []
    if orphaned:
        text = f"{count(orphaned, 'slice')} of nodes that are gone: {some(orphaned)}"
        results.append(
            warn(text, f"kubectl delete resourceslice {orphaned[0]} (a kubelet that is gone cannot)")
        )
    if outdated:
        text = f"{count(outdated, 'slice')} of an older generation: {some(outdated)}"
        results.append(warn(text, "restart that node's agent: it writes all of its slices again"))
    return results or [ok(f"{count(ours, 'slice')}, all of nodes that exist")]


def orphan_claims(view: ClusterView) -> list[CheckResult]:
    """Report the claims that hold devices for pods that are gone."""
    orphans = _orphan_keys(view)
    if view.earlier is not None:
        orphans &= _orphan_keys(view.earlier)
    names = [name for name, _ in orphans]
    if not names:
        return [ok("no claim is reserved for a pod that is gone")]
    text = f"{count(names, 'claim')} reserved for pods that are gone: {some(names)}"
    return [warn(text, "check kube-controller-manager, which frees them; else kubectl delete resourceclaim")]


def _orphan_keys(view: ClusterView) -> set[tuple[str, str]]:
    """Return names and uids of claims whose pods are gone."""
    alive = {pod.metadata.uid for pod in view.pods}
    return {
        ("/".join(claim.key), claim.metadata.uid)
        for claim in view.claims
        if (claim.results or claim.made_by_scheduler)
        and claim.is_orphaned(alive)
        and view.age(claim.metadata.creation_timestamp) > GRACE_SECONDS
    }
