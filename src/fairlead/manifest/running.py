"""Pods that run, and the accelerators that they are on: told by claims or annotations, else worked out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.errors import ManifestError
from fairlead.manifest import claims, keys
from fairlead.manifest.amounts import MIB
from fairlead.manifest.pod import Context, request
from fairlead.manifest.shapes import Pod
from fairlead.offer import Form
from fairlead.placement import DeviceState, NodeState, Placement, Share, share_of
from fairlead.publish.allocated import parse_allocated
from fairlead.request import Demand, Request
from fairlead.units import Bytes

_ENDED = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Left:
    """What is left of an accelerator while pods are put on it."""

    device: DeviceState
    memory: int
    compute: int
    holders: int = 0

    def takes(self, asked: Request) -> bool:
        """Say whether a request fits."""
        demand = asked.demand
        right = not demand.models or self.device.model in demand.models
        if asked.whole:
            return right and not self.holders
        share = share_of(asked, self.device)
        return right and self.memory >= share.memory and self.compute >= share.compute

    def give(self, share: Share) -> None:
        """Take a share off."""
        self.memory -= self.memory if share.whole else share.memory
        self.compute -= self.compute if share.whole else share.compute
        self.holders += 1


@dataclass(slots=True)
class _Books:
    """The accelerators of each node, and what is left of them."""

    nodes: Mapping[str, list[_Left]] = field(default_factory=dict)

    def left(self, node: str, device: str) -> _Left | None:
        """Return one accelerator; None where the node has no such."""
        return next((each for each in self.nodes.get(node, ()) if each.device.id == device), None)


def placements(
    context: Context, nodes: Sequence[NodeState], held: Mapping[str, Mapping[str, tuple[Share, ...]]]
) -> list[Placement]:
    """Return the pods that run on these nodes; `held` is what their annotations say, by node and pod.

    Those whose accelerators nobody tells come last, each on the fullest that can take it: so their plugin
    would have put it, and where it is of no matter, it leaves the most room.
    """
    books = _Books({each.name: [_Left(d, d.memory, d.compute) for d in each.devices] for each in nodes})
    found: list[Placement] = []
    counted: set[claims.Key] = set()
    for each in context.objects.all("Pod"):
        pod: Pod = each.body
        if pod.spec.node_name not in books.nodes or pod.status.phase in _ENDED:
            continue
        try:
            asked = request(each.where, pod, context)
        except ManifestError as error:
            if not context.passes_over(error):
                raise
            continue
        found.append(_told(pod, asked, books, held, claims.given(pod, context.objects, counted)))
    for placement in found:
        for share in placement.shares:
            if left := books.left(placement.node, share.device):
                left.give(share)
    return [each if each.shares else _guess(each, books) for each in found]


def annotated(node: str, text: str, devices: Iterable[DeviceState]) -> dict[str, tuple[Share, ...]]:
    """Return what a node's annotation says that pods hold, by `namespace/name`."""
    known = {each.id for each in devices}
    found: dict[str, tuple[Share, ...]] = {}
    for device, forms in (parse_allocated(text) or {}).items():
        for form, holders in forms.items():
            for holder, mebibytes in holders.items():
                if device in known and form is not Form.CLAIM and holder.count("/") >= 1:
                    pod = "/".join(holder.split("/")[:2])
                    share = Share(device, Bytes(mebibytes * MIB), whole=not mebibytes)
                    found[pod] = (*found.get(pod, ()), share)
    return found


def _told(
    pod: Pod,
    asked: Request,
    books: _Books,
    held: Mapping[str, Mapping[str, tuple[Share, ...]]],
    claimed: tuple[Share, ...] | None,
) -> Placement:
    """Return a pod with what somebody says that it holds."""
    node = pod.spec.node_name
    if claimed == ():  # another pod was counted for the claim that they share
        return Placement(replace(asked, demand=Demand()), node)
    noted = held.get(node, {}).get(f"{asked.namespace}/{asked.name}", ())
    shares = [
        _whole(share, left.device) if share.whole else share
        for share in claimed or noted or _gpushare(pod, asked)
        if (left := books.left(node, share.device))
    ]
    return Placement(asked, node, tuple(shares))


def _whole(share: Share, device: DeviceState) -> Share:
    return replace(share, memory=device.memory, compute=device.compute)


def _gpushare(pod: Pod, asked: Request) -> tuple[Share, ...]:
    index = pod.metadata.annotations.get(keys.ALIYUN_INDEX, "")
    if not index.isdecimal() or asked.demand.memory is None:
        return ()
    return (Share(f"gpu-{index}", asked.demand.memory),)


def _guess(placement: Placement, books: _Books) -> Placement:
    """Return a pod with the accelerators that it is likely on."""
    asked = placement.request
    shares: list[Share] = []
    for _ in range(asked.demand.count):
        taken = {share.device for share in shares}
        lefts = books.nodes[placement.node]
        fitting = [left for left in lefts if left.takes(asked) and left.device.id not in taken]
        if not fitting:
            break
        best = min(fitting, key=lambda left: (left.memory, left.compute, left.device.id))
        share = share_of(asked, best.device)
        best.give(share)
        shares.append(share)
    return replace(placement, shares=tuple(shares))
