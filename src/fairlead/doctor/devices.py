"""Checks of what is offered: by nobody else as well, and by nodes that are there."""

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
"""Resources by which others hand out the same GPUs, and who they are."""
DRIVERS: Final = {"gpu.nvidia.com": "NVIDIA's DRA driver", "gpu.amd.com": "AMD's DRA driver"}


def other_plugins(sight: ClusterView) -> list[CheckResult]:
    """Say where somebody else hands out the accelerators that we hand out."""
    pods, slices = _by_node(sight.pods), _by_node(sight.slices)
    said = [
        _shared(node.metadata.name, rivals, pods.get(node.metadata.name, ()))
        for node in sight.nodes
        if (rivals := _other_providers(node, slices.get(node.metadata.name, ())))
    ]
    return said or [ok("nobody else hands out our accelerators")]


def _by_node(found: Iterable[T]) -> dict[str, list[T]]:
    grouped: dict[str, list[T]] = {}
    for each in found:
        grouped.setdefault(each.spec.node_name, []).append(each)
    return grouped


def _other_providers(node: Node, slices: Iterable[Slice]) -> set[str]:
    """Return who else offers accelerators of a node that offers some of ours."""
    if not offers_accelerators(node) and not any(
        slice_.spec.driver == DRIVER and slice_.spec.devices for slice_ in slices
    ):
        return set()
    counted = {
        FOREIGN[name] for name, has in node.status.allocatable.items() if name in FOREIGN and has != "0"
    }
    return counted | {DRIVERS[slice_.spec.driver] for slice_ in slices if slice_.spec.driver in DRIVERS}


def _shared(node: str, rivals: set[str], pods: Iterable[Pod]) -> CheckResult:
    here = [pod for pod in pods if not pod.ended]
    theirs = [
        full_name(pod) for pod in here if _requested_resources(pod) & FOREIGN.keys() and not _is_ours(pod)
    ]
    ours = [full_name(pod) for pod in here if _is_ours(pod)]
    todo = "keep one of the two on each node: label the nodes, and set nodeSelector for either"
    if theirs and ours:
        text = f"{node}: {some(theirs)} by {some(rivals)} and {some(ours)} by us may hold the same GPU"
        return fail(text, todo)
    offer = "offers" if len(rivals) == 1 else "offer"
    return warn(f"{node}: {some(rivals)} {offer} the same GPUs as we do", todo)


def _requested_resources(pod: Pod) -> set[str]:
    return set(filter(is_accelerator, named_resources(pod.spec)))


def _is_ours(pod: Pod) -> bool:
    """Say whether what a pod holds was handed out by us: by our resource, or by a claim of our making."""
    mapped = {
        request_mapping.resource_name
        for request_mapping in pod.status.extended_resource_claim_status.request_mappings
    }
    return bool(mapped) or any(name.startswith(PREFIX) for name in _requested_resources(pod))


def slices(sight: ClusterView) -> list[CheckResult]:
    """Say which slices tell of what is no more."""
    nodes = {node.metadata.name for node in sight.nodes}
    ours = sight.own_slices
    lost = [each.metadata.name for each in ours if each.spec.node_name and each.spec.node_name not in nodes]
    latest = pool_generations(ours)
    old = [each.metadata.name for each in ours if each.spec.pool.generation < latest[each.pool]]
    said = []
    if lost:
        text = f"{count(lost, 'slice')} of nodes that are gone: {some(lost)}"
        said.append(warn(text, f"kubectl delete resourceslice {lost[0]} (a kubelet that is gone cannot)"))
    if old:
        text = f"{count(old, 'slice')} of an older generation: {some(old)}"
        said.append(warn(text, "restart that node's agent: it writes all of them anew"))
    return said or [ok(f"{count(ours, 'slice')}, all of nodes that are there")]


def orphan_claims(sight: ClusterView) -> list[CheckResult]:
    """Say which claims hold devices for pods that are no more."""
    left = _orphan_keys(sight)
    if sight.earlier is not None:
        left &= _orphan_keys(sight.earlier)
    names = [name for name, _ in left]
    if not names:
        return [ok("no claim is kept for a pod that is gone")]
    text = f"{count(names, 'claim')} kept for pods that are gone: {some(names)}"
    return [warn(text, "is kube-controller-manager well? it frees them; else kubectl delete resourceclaim")]


def _orphan_keys(sight: ClusterView) -> set[tuple[str, str]]:
    """Return names and uids of claims whose pods are not there."""
    alive = {pod.metadata.uid for pod in sight.pods}
    return {
        ("/".join(claim.key), claim.metadata.uid)
        for claim in sight.claims
        if (claim.results or claim.made_by_scheduler)
        and claim.is_orphaned(alive)
        and sight.age(claim.metadata.creation_timestamp) > GRACE_SECONDS
    }
