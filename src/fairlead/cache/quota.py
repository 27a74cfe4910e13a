"""Enforce the quota of a namespace for what its pods request by annotation. Pure.

The API server counts resources when a pod is created, and does not read annotations. How much a pod takes
that requests devices by annotation is known when it has a place. Then its share is added to the quota's used
amount, as if the pod had requested `fairlead.dev/gpu-mem`, and each such pod counts as one
`fairlead.dev/share`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead import keys
from fairlead.cache.types import LivePod
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ManifestError
from fairlead.manifest.pod.admitted import device_plugin_resources
from fairlead.manifest.pod.effective import effective_requests
from fairlead.manifest.types.kubernetes import Amount
from fairlead.manifest.types.quota import ResourceQuota
from fairlead.placement import Decision, Reason, Rejection
from fairlead.request import Request
from fairlead.schedule import EngineCluster
from fairlead.share import DeviceShare
from fairlead.units import Bytes, parse_quantity

MEMORY: Final = f"requests.{keys.GPU_MEM}"
SHARES: Final = f"requests.{keys.SHARE}"
"""A quota limits extended resources only under names with the prefix `requests.`."""
_MIB: Final = 1 << 20

FindPod = Callable[[str], LivePod | None]
PodShares = tuple[str, Sequence[DeviceShare]]
"""The id of a request, and its shares of accelerators."""


@dataclass(frozen=True, slots=True)
class UncountedUse:
    """Use of accelerators that the API server has not counted."""

    mebibytes: int = 0
    shares: int = 0

    def of(self, resource: str) -> int:
        """Return the amount for a resource of a quota."""
        return {MEMORY: self.mebibytes, SHARES: self.shares}[resource]


ChargedPod = tuple[LivePod, UncountedUse]


def charge(pod: LivePod, shares: Sequence[DeviceShare]) -> UncountedUse:
    """Return what a pod takes by annotation: its shares beyond those that its resources or claims request."""
    by_resource = _by_resource(pod, len(shares))
    largest = sorted((share.memory for share in shares), reverse=True)
    memory = sum(largest[: max(0, len(shares) - by_resource)])
    compute = any(share.compute and not share.whole for share in shares)
    compute = compute and not pod.spec.resource_claims and keys.HAMI_CORES not in device_plugin_resources(pod)
    marked = compute or len(shares) > by_resource
    return UncountedUse(-(-memory // _MIB), int(marked and not _totals(pod).get(keys.SHARE)))


class QuotaCache:
    """The quotas of all namespaces that limit what pods request by annotation."""

    def __init__(self, cluster: EngineCluster, pod: FindPod) -> None:
        self._cluster = cluster
        self._pod = pod
        self._quotas: dict[str, dict[str, ResourceQuota]] = {}
        self._charged: dict[str, list[ChargedPod]] = {}
        """By namespace, for one state of the cluster."""
        self._charged_at = -1

    def on_event(self, change: ObjectChange[ResourceQuota]) -> None:
        """Store a change of a quota."""
        namespace, name = change.key
        named = self._quotas.setdefault(namespace, {})
        named.pop(name, None)
        if change.new is not None and not {MEMORY, SHARES}.isdisjoint(change.new.spec.hard):
            named[name] = change.new
        if not named:
            del self._quotas[namespace]

    def decide_within_quota(
        self, members: Sequence[Request], policy: str, decide: Callable[[Sequence[Request]], list[Decision]]
    ) -> list[Decision]:
        """Decide for a group of requests; refuse all of them where they would exceed a quota.

        Where even the least that they can take exceeds it, no place is searched and no pod is evicted.
        """
        namespace = members[0].namespace
        if namespace not in self._quotas:
            return decide(members)
        charged = self._charged_in(namespace)
        over = self._violation(namespace, charged, ((member.id, self._least(member)) for member in members))
        if over is not None:
            return [Decision(member, policy, rejections=(over,)) for member in members]
        decisions = decide(members)
        placed = [decision.placement for decision in decisions if decision.placement is not None]
        over = self._violation(namespace, charged, ((each.request.id, each.shares) for each in placed))
        if over is None:
            return decisions
        for each in placed:
            self._cluster.release(each.request.id)
        self._charged_at = self._cluster.changes  # placed and released: other pods hold what they held
        return [replace(decision, placement=None, rejections=(over,), among=0) for decision in decisions]

    def _violation(
        self, namespace: str, held: Iterable[ChargedPod], taken: Iterable[PodShares]
    ) -> Rejection | None:
        """Return the rejection by the quota that these requests would exceed together; None where none is."""
        requested = self._charges(taken)
        for name, quota in sorted(self._quotas[namespace].items()) if requested else ():
            for resource in sorted({MEMORY, SHARES}.intersection(quota.spec.hard)):
                more, others = (
                    sum(use.of(resource) for pod, use in charges if quota.covers(pod))
                    for charges in (requested, held)
                )
                used = _amount(quota.status.used.get(resource, 0)) + others
                hard = _amount(quota.spec.hard[resource])
                if more and used + more > hard:
                    return _exceeded(name, resource, more, used, hard)
        return None

    def _charged_in(self, namespace: str) -> list[ChargedPod]:
        """Return what pods of a namespace hold by annotation; computed once for a state of the cluster."""
        if self._charged_at != self._cluster.changes:
            self._charged.clear()
            self._charged_at = self._cluster.changes
        if namespace not in self._charged:
            placements = self._cluster.placements()
            mine = (
                placement
                for placement in placements
                if placement.shares and placement.request.namespace == namespace
            )
            self._charged[namespace] = self._charges((each.request.id, each.shares) for each in mine)
        return self._charged[namespace]

    def _charges(self, taken: Iterable[PodShares]) -> list[ChargedPod]:
        pods = ((self._pod(identity), shares) for identity, shares in taken if shares)
        charges = [(pod, charge(pod, shares)) for pod, shares in pods if pod is not None]
        return [(pod, use) for pod, use in charges if use != UncountedUse()]

    def _least(self, request: Request) -> Sequence[DeviceShare]:
        """Return the least that a request can take, wherever it is placed."""
        demand = request.demand
        known = [estimate.memory for estimate in request.estimates.values() if estimate.memory is not None]
        if request.whole:
            known = [kind.memory for kind in self._cluster.columns.kinds]
        memory = demand.memory or min(known, default=Bytes(0))
        return [DeviceShare("", memory, demand.compute or 0)] * demand.count


def _by_resource(pod: LivePod, most: int) -> int:
    """Return the number of a pod's shares that claims or resources request: the API server counts these."""
    if pod.spec.resource_claims:
        return most
    totals = {name: amount for name in device_plugin_resources(pod) if (amount := _totals(pod).get(name, 0))}
    whole = [amount for name, amount in totals.items() if name not in keys.SIZES]
    return max((*whole, int(bool(totals))))


def _totals(pod: LivePod) -> dict[str, int]:
    try:
        return effective_requests("", pod.spec)
    except ManifestError:
        return {}


def _amount(value: Amount) -> int:
    """Return an amount of a quota; 0 where it cannot be read, as a limit and as a used amount."""
    try:
        return parse_quantity(str(value))
    except ValueError:
        return 0


def _exceeded(name: str, resource: str, more: int, used: int, hard: int) -> Rejection:
    """Return a rejection with the text of the API server's own quota error."""
    amounts = f"requested: {resource}={more}, used: {resource}={used}, limited: {resource}={hard}"
    text = f"exceeded quota: {name}, {amounts} (requested by annotation)"
    return Rejection(Reason.QUOTA, text, need=more, most=max(0, hard - used))
