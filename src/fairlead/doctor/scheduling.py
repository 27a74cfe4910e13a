"""Checks of who schedules: the lease, the replicas, and pods that wait for somebody who is not there."""

from typing import Final

from fairlead.cluster.objects import Lease
from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import GRACE_SECONDS, ClusterView, Pod, full_name, is_ready
from fairlead.manifest.types.live import SCHEDULED
from fairlead.offer import DRIVER

_STOCK: Final = "default-scheduler"
_LOOK: Final = "see what they say: kubectl logs -l app.kubernetes.io/component=scheduler --all-containers"


def lease(sight: ClusterView) -> list[CheckResult]:
    """Say whether somebody leads, and nobody else does."""
    found, replicas = sight.own_leases, sight.component("scheduler")
    held = [each for each in found if sight.is_held(each)]
    if len(held) > 1:
        where = some("/".join(each.key) for each in held)
        return [
            fail(
                f"{count(held, 'scheduler')} of the name {sight.scheduler!r} lead at once: {where}",
                "keep one, or give each its own scheduler.name: they would give away the same devices",
            )
        ]
    if held:
        return [ok(f"{held[0].spec.holder_identity} leads")]
    if found:
        return [fail(_no_leader(sight, found[0]), _LOOK if replicas else "start one: scheduler.enabled=true")]
    if replicas:
        return [fail(f"{count(replicas, 'replica')}, and none has ever led", _LOOK)]
    return [ok("no scheduler of ours is installed")]


def _no_leader(sight: ClusterView, lease: Lease) -> str:
    holder = lease.spec.holder_identity
    if not holder:
        return "nobody leads: the last one handed over, and no other came"
    return f"nobody leads: {holder} last renewed its lease {sight.age(lease.spec.renew_time):.0f} s ago"


def replicas(sight: ClusterView) -> list[CheckResult]:
    """Say whether one node that fails would take the scheduler with it."""
    found = sight.component("scheduler")
    if not found:
        return [ok("no replica of the scheduler runs in this cluster")]
    ready = [pod for pod in found if is_ready(pod)]
    nodes = {pod.spec.node_name for pod in ready}
    if not ready:
        return [
            fail(f"none of {count(found, 'replica')} is ready", "see why: kubectl describe pod, and its logs")
        ]
    if len(ready) == 1:
        return [warn("one replica is ready: nobody takes over when it goes", "set scheduler.replicas to 2")]
    if len(nodes) == 1:
        text = f"all {len(ready)} replicas are on {some(nodes)}"
        return [
            warn(text, "let them keep apart: leave scheduler.affinity empty, and give them a second node")
        ]
    return [ok(f"{len(ready)} replicas on {len(nodes)} nodes")]


def admission(sight: ClusterView) -> list[CheckResult]:
    """Say whether the webhook answers without which the scheduler may bind nothing."""
    found = sight.component("admission")
    ready = [pod for pod in found if is_ready(pod)]
    if found and not ready:
        return [
            fail(
                f"none of {count(found, 'replica')} of the admission webhook is ready: nothing is placed",
                "see why: kubectl describe pod -l app.kubernetes.io/component=admission, and their logs; "
                "scheduler.admission.enabled=false does without",
            )
        ]
    return [
        ok(f"{count(ready, 'replica')} of the admission webhook ready" if ready else "no admission webhook")
    ]


def scheduler_names(sight: ClusterView) -> list[CheckResult]:
    """Say which pods wait for a scheduler that nobody is."""
    waiting: dict[str, list[str]] = {}
    for pod in sight.pods:
        if pod.spec.scheduler_name and pod.waits_for(pod.spec.scheduler_name) and _is_ignored(sight, pod):
            waiting.setdefault(pod.spec.scheduler_name, []).append(full_name(pod))
    return [
        fail(
            f"nobody looks at {count(pods, 'pod')} with schedulerName: {name} ({some(pods)})",
            _scheduler_hint(sight, name),
        )
        for name, pods in sorted(waiting.items())
    ] or [ok("every waiting pod has been looked at")]


def _is_ignored(sight: ClusterView, pod: Pod) -> bool:
    return not pod.condition(SCHEDULED).status and sight.age(pod.metadata.creation_timestamp) > GRACE_SECONDS


def _scheduler_hint(sight: ClusterView, name: str) -> str:
    if name == sight.scheduler:
        return "see the check `lease`; start the scheduler, or look into its log"
    return f"start that scheduler, or correct the name: ours is {sight.scheduler}, the cluster's own {_STOCK}"


def priority_classes(sight: ClusterView) -> list[CheckResult]:
    """Say which pods could not be made again, because their priority class is gone."""
    known = {priority.metadata.name for priority in sight.priorities}
    gone: dict[str, list[str]] = {}
    for pod in sight.pods:
        if pod.spec.priority_class_name and pod.spec.priority_class_name not in known and not pod.ended:
            gone.setdefault(pod.spec.priority_class_name, []).append(full_name(pod))
    return [
        warn(
            f"priority class {name} is gone, and {count(pods, 'pod')} bear it ({some(pods)})",
            "make it again: without it the server takes no new pod that names it",
        )
        for name, pods in sorted(gone.items())
    ] or [ok("every priority class that pods bear is there")]


def two_schedulers(sight: ClusterView) -> list[CheckResult]:
    """Say whether another scheduler gives out our devices beside ours."""
    others = {pod.metadata.uid: pod.spec.scheduler_name for pod in sight.pods}
    found = [
        (others[uid], "/".join(claim.key))
        for claim in sight.claims
        if any(result.driver == DRIVER for result in claim.results)
        for uid in claim.users
        if others.get(uid, sight.scheduler) != sight.scheduler
    ]
    if not found or not sight.has_leader:
        return [ok("one scheduler gives out our devices")]
    names = some(name or _STOCK for name, _ in found)
    claims = [claim for _, claim in found]
    return [
        warn(
            f"{names} gives out devices of {DRIVER} as well: {count(claims, 'claim')} ({some(claims)})",
            "set schedulerName on those pods too: of two who choose at once, the node's agent refuses one",
        )
    ]
