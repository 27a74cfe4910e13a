"""The gang of a pod: by pod groups of Kubernetes 1.35 to 1.37, of older schedulers, or by annotation."""

from fairlead import keys
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.types import kubernetes
from fairlead.request import Gang

UNSTATED = 0
"""The size of a gang without a stated size: the number of its pods."""


def gang_of_pod(where: str, pod: kubernetes.Pod, objects: FoundObjects) -> Gang | None:
    """Return the gang of a pod; None where the pod is placed on its own."""
    meta, spec = pod.metadata, pod.spec
    group = spec.scheduling_group.pod_group_name
    if group:
        return _gang_of_group(f"{where}: spec.schedulingGroup.podGroupName", meta.namespace, group, objects)
    if spec.workload_ref.name:
        return _gang_of_workload(where, meta.namespace, spec.workload_ref, objects)
    if name := meta.annotations.get(keys.GANG):
        size = _size(f"{where}: metadata.annotations[{keys.GANG_SIZE}]", meta.annotations.get(keys.GANG_SIZE))
        return Gang(f"{meta.namespace}/{name}", size)
    for group_name in (meta.labels.get(keys.COSCHEDULING), meta.annotations.get(keys.VOLCANO)):
        if group_name:
            return _gang_of_group(f"{where}: its group", meta.namespace, group_name, objects)
    return None


def gang_of_controller(
    where: str, kind: str, controller: kubernetes.Controller, objects: FoundObjects
) -> Gang | None:
    """Return the gang of all pods of a controller: the Job states it, or a Workload does."""
    namespace, name = controller.metadata.namespace, controller.metadata.name
    policy_of_job = controller.spec.scheduling.scheduling_policy.gang
    if policy_of_job is not None:
        count = controller.spec.parallelism or 1
        return Gang(f"{namespace}/{name}", policy_of_job.min_count or count)
    for entry in objects.all("Workload"):
        workload: kubernetes.Workload = entry.body
        ref = workload.spec.controller_ref
        if (ref.kind, ref.name, workload.metadata.namespace) == (kind, name, namespace):
            templates = workload.spec.pod_group_templates or workload.spec.pod_groups
            gangs = [policy for policy in map(_policy, templates) if policy is not None]
            if len(gangs) > 1:
                raise ManifestError(f"{entry.where}: several gangs for {where}", "name the group in each pod")
            return Gang(f"{namespace}/{name}", gangs[0].min_count or UNSTATED) if gangs else None
    return None


def _policy(template: kubernetes.GroupTemplate) -> kubernetes.GangPolicy | None:
    return template.scheduling_policy.gang or template.policy.gang


def _gang_of_group(where: str, namespace: str, name: str, objects: FoundObjects) -> Gang | None:
    group: kubernetes.PodGroup | None = objects.get("PodGroup", namespace, name)
    if group is None:
        raise ManifestError(
            f"{where}: no PodGroup {namespace}/{name}", objects.near("PodGroup", namespace, name)
        )
    stated = group.spec.scheduling_policy.gang
    size = group.spec.min_member if stated is None else stated.min_count
    if size is None:
        return None
    if size < 1:
        raise ManifestError(f"{where}: PodGroup {name}: a gang of {size}", "write 1 or more")
    return Gang(f"{namespace}/{name}", size)


def _gang_of_workload(
    where: str, namespace: str, ref: kubernetes.WorkloadRef, objects: FoundObjects
) -> Gang | None:
    workload: kubernetes.Workload | None = objects.get("Workload", namespace, ref.name)
    if workload is None:
        raise ManifestError(
            f"{where}: spec.workloadRef.name: no Workload {namespace}/{ref.name}",
            objects.near("Workload", namespace, ref.name),
        )
    for group in workload.spec.pod_groups or workload.spec.pod_group_templates:
        if group.name == ref.pod_group:
            policy = _policy(group)
            name = "/".join(filter(None, (namespace, ref.name, ref.pod_group, ref.pod_group_replica_key)))
            return Gang(name, policy.min_count or UNSTATED) if policy else None
    raise ManifestError(f"{where}: spec.workloadRef.podGroup: no group {ref.pod_group!r} in {ref.name}")


def _size(where: str, text: str | None) -> int:
    if text is None:
        return UNSTATED
    number = amounts.whole(where, text, 1_000_000)
    if not number:
        raise ManifestError(
            f"{where}: a gang of 0", "write 1 or more, or leave it out for the number of its pods"
        )
    return number
