"""Pods that run, and the accelerators that they are on: told by claims or annotations, else worked out."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from fairlead import keys
from fairlead.annotations import parse_allocated
from fairlead.cluster.meta import replace
from fairlead.errors import ManifestError
from fairlead.manifest import holdings
from fairlead.manifest.admitted import admitted
from fairlead.manifest.amounts import MIB
from fairlead.manifest.claims import named
from fairlead.manifest.holdings import Report, Tenant
from fairlead.manifest.pod import Context, request
from fairlead.manifest.seen import Claim, Consumer, Pod
from fairlead.manifest.shapes import Node
from fairlead.offer import Form
from fairlead.placement import DeviceState, NodeState, Placement, Share
from fairlead.request import Request
from fairlead.units import Bytes


def placements(
    context: Context, nodes: Sequence[NodeState], reports: Mapping[str, Report]
) -> list[Placement]:
    """Return what is placed on these nodes; `reports` are what they say of themselves, by name."""
    tenants = _tenants(context, nodes)
    claims = _claims(context, [each for found in tenants.values() for each in found])
    return [
        placed
        for node in nodes
        for placed in holdings.placements(
            node,
            tenants[node.name],
            claims.get(node.name, ()),
            reports.get(node.name, Report()),
            partial(_spec, context),
        ).values()
    ]


def report(given: Node | None, devices: Iterable[DeviceState]) -> Report:
    """Return what a node says of itself: who holds what by its agent's annotation, and its resources."""
    if given is None:
        return Report()
    note = given.metadata.annotations.get(keys.ALLOCATED, "")
    held = annotated(given.metadata.name, note, devices) if note else {}
    return Report(held, {**given.status.capacity, **given.status.allocatable})


def annotated(node: str, text: str, devices: Iterable[DeviceState]) -> dict[str, tuple[Share, ...]]:
    """Return what a node's annotation says that pods hold, by `namespace/name`, also of other devices."""
    known = {each.id: each for each in devices}
    found: dict[str, tuple[Share, ...]] = {}
    for device, forms in (parse_allocated(text) or {}).items():
        for form, holders in forms.items():
            for holder, mebibytes in holders.items():
                if form is not Form.CLAIM and holder.count("/") >= 1:
                    pod = "/".join(holder.split("/")[:2])
                    share = Share(device, Bytes(mebibytes * MIB), whole=not mebibytes)
                    found[pod] = (*found.get(pod, ()), holdings.filled(share, known))
    return found


def _tenants(context: Context, nodes: Iterable[NodeState]) -> dict[str, list[Tenant]]:
    """Return the pods on each node."""
    found: dict[str, list[Tenant]] = {each.name: [] for each in nodes}
    for each in context.objects.all("Pod"):
        pod: Pod = each.body
        if pod.spec.node_name not in found or pod.ended:
            continue
        try:
            asked = request(each.where, pod, context)
        except ManifestError as error:
            if not context.passes_over(error):
                raise
            asked = _spec(context, pod)
        found[pod.spec.node_name].append(Tenant(asked, pod))
    return found


def _spec(context: Context, pod: Pod) -> Request:
    where = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
    return admitted(where, pod, context.catalog, context.sizes)


def _claims(context: Context, tenants: Iterable[Tenant]) -> dict[str, list[Claim]]:
    """Return the claims that were given something on each node, each with those who use it."""
    users: dict[tuple[str, str], set[str]] = {}
    for tenant in tenants:
        assert tenant.pod is not None, "those who run are there"
        for key in named(tenant.pod):
            users.setdefault(key, set()).add(tenant.request.id)
    found: dict[str, list[Claim]] = {}
    for each in context.objects.all("ResourceClaim"):
        claim: Claim = each.body
        known = sorted({*claim.users, *users.get(claim.key, ())})
        kept = tuple(Consumer(resource="pods", uid=uid) for uid in known)
        claim = replace(claim, status=replace(claim.status, reserved_for=kept))
        for pool in {each.pool for each in claim.results}:
            found.setdefault(pool, []).append(claim)
    return found
