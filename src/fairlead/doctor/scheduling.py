"""Checks of the scheduler: the lease, the replicas, and pods whose scheduler does not run."""

from typing import Final

from fairlead.cluster.objects import Lease
from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import GRACE_SECONDS, ClusterView, Pod, full_name, is_ready
from fairlead.manifest.types.live import SCHEDULED
from fairlead.offer import DRIVER

_STOCK: Final = "default-scheduler"
_LOGS_HINT: Final = "read their logs: kubectl logs -l app.kubernetes.io/component=scheduler --all-containers"


def lease(view: ClusterView) -> list[CheckResult]:
    """Report whether exactly one replica leads."""
    leases, replicas = view.own_leases, view.component("scheduler")
    held = [held_lease for held_lease in leases if view.is_held(held_lease)]
    if len(held) > 1:
        where = some("/".join(held_lease.key) for held_lease in held)
        return [
            fail(
                f"{count(held, 'scheduler')} of the name {view.scheduler!r} lead at once: {where}",
                "keep one, or give each its own scheduler.name: they would allocate the same devices",
            )
        ]
    if held:
        return [ok(f"{held[0].spec.holder_identity} leads")]
    if leases:
        return [
            fail(_no_leader(view, leases[0]), _LOGS_HINT if replicas else "start one: scheduler.enabled=true")
        ]
    if replicas:
        return [fail(f"{count(replicas, 'replica')}, and none has ever led", _LOGS_HINT)]
    return [ok("no scheduler of ours is installed")]


def _no_leader(view: ClusterView, lease: Lease) -> str:
    holder = lease.spec.holder_identity
    if not holder:
        return "no replica leads: the last leader released the lease, and no other took it"
    return f"no replica leads: {holder} last renewed its lease {view.age(lease.spec.renew_time):.0f} s ago"


def replicas(view: ClusterView) -> list[CheckResult]:
    """Report whether the failure of one node would stop the scheduler."""
    pods = view.component("scheduler")
    if not pods:
        return [ok("no replica of the scheduler runs in this cluster")]
    ready = [pod for pod in pods if is_ready(pod)]
    nodes = {pod.spec.node_name for pod in ready}
    if not ready:
        return [
            fail(
                f"none of {count(pods, 'replica')} is ready",
                "find the reason: kubectl describe pod, and its logs",
            )
        ]
    if len(ready) == 1:
        return [
            warn("one replica is ready: no other takes over when it stops", "set scheduler.replicas to 2")
        ]
    if len(nodes) == 1:
        text = f"all {len(ready)} replicas are on {some(nodes)}"
        return [warn(text, "spread them: leave scheduler.affinity empty, and provide a second node")]
    return [ok(f"{len(ready)} replicas on {len(nodes)} nodes")]


def admission(view: ClusterView) -> list[CheckResult]:
    """Report whether the admission webhook is ready; without it the scheduler may bind nothing."""
    pods = view.component("admission")
    ready = [pod for pod in pods if is_ready(pod)]
    if pods and not ready:
        return [
            fail(
                f"none of {count(pods, 'replica')} of the admission webhook is ready: nothing is placed",
                "find the reason: kubectl describe pod -l app.kubernetes.io/component=admission, and logs; "
                "scheduler.admission.enabled=false turns it off",
            )
        ]
    return [
        ok(f"{count(ready, 'replica')} of the admission webhook ready" if ready else "no admission webhook")
    ]


def scheduler_names(view: ClusterView) -> list[CheckResult]:
    """Report the pods whose `schedulerName` no running scheduler handles."""
    waiting: dict[str, list[str]] = {}
    for pod in view.pods:
        if pod.spec.scheduler_name and pod.waits_for(pod.spec.scheduler_name) and _is_ignored(view, pod):
            waiting.setdefault(pod.spec.scheduler_name, []).append(full_name(pod))
    return [
        fail(
            f"no scheduler handles {count(pods, 'pod')} with schedulerName: {name} ({some(pods)})",
            _scheduler_hint(view, name),
        )
        for name, pods in sorted(waiting.items())
    ] or [ok("a scheduler handles every pending pod")]


def _is_ignored(view: ClusterView, pod: Pod) -> bool:
    return not pod.condition(SCHEDULED).status and view.age(pod.metadata.creation_timestamp) > GRACE_SECONDS


def _scheduler_hint(view: ClusterView, name: str) -> str:
    if name == view.scheduler:
        return "see the check `lease`; start the scheduler, or read its log"
    return f"start that scheduler, or correct the name: ours is {view.scheduler}, the cluster's own {_STOCK}"


def priority_classes(view: ClusterView) -> list[CheckResult]:
    """Report the pods that could not be recreated, because their priority class is gone."""
    known = {priority.metadata.name for priority in view.priorities}
    pods_by_class: dict[str, list[str]] = {}
    for pod in view.pods:
        if pod.spec.priority_class_name and pod.spec.priority_class_name not in known and not pod.ended:
            pods_by_class.setdefault(pod.spec.priority_class_name, []).append(full_name(pod))
    return [
        warn(
            f"priority class {name} is gone, and {count(pods, 'pod')} name it ({some(pods)})",
            "create it again: without it the server accepts no new pod that names it",
        )
        for name, pods in sorted(pods_by_class.items())
    ] or [ok("every priority class that pods name exists")]


def two_schedulers(view: ClusterView) -> list[CheckResult]:
    """Report whether another scheduler allocates our devices beside ours."""
    scheduler_of = {pod.metadata.uid: pod.spec.scheduler_name for pod in view.pods}
    foreign = [
        (scheduler_of[uid], "/".join(claim.key))
        for claim in view.claims
        if any(result.driver == DRIVER for result in claim.results)
        for uid in claim.users
        if scheduler_of.get(uid, view.scheduler) != view.scheduler
    ]
    if not foreign or not view.has_leader:
        return [ok("one scheduler allocates our devices")]
    names = some(name or _STOCK for name, _ in foreign)
    claims = [claim for _, claim in foreign]
    return [
        warn(
            f"{names} allocates devices of {DRIVER} as well: {count(claims, 'claim')} ({some(claims)})",
            "set schedulerName on those pods too: of two allocations at once, the node's agent refuses one",
        )
    ]
