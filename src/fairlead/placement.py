"""Nodes and accelerators as the scheduler sees them, placements, and decisions with their reasons."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.errors import NewerFormatError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.inventory import Accelerator, Inventory
from fairlead.keys import DOMAIN
from fairlead.need import effective_size
from fairlead.request import NO_BYTES, WHOLE, Request, Selector, Taint
from fairlead.share import DeviceShare
from fairlead.units import Bytes, format_bytes

EMPTY: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class DeviceState:
    """An accelerator as the scheduler sees it: its total capacity, not what is free."""

    id: str
    model: str = ""
    """The catalog id; empty: unknown."""
    vendor: str = ""
    memory: Bytes = NO_BYTES
    """0: unknown; then it is allocated whole, or by compute."""
    compute: int = WHOLE
    """In thousandths; more than 1000 if the accelerator may be over-committed."""
    healthy: bool = True
    unified: bool = False
    """The memory is the node's own RAM: an allocation of one takes from the other."""
    shareable: bool = True
    precisions: tuple[str, ...] = ()
    """The precisions that it supports; empty: unknown, so no request is refused for its precision."""
    offered: str = ""
    """What device selectors are evaluated on, as JSON: the driver, and a device of a ResourceSlice without
    the attributes that distinguish it from others of its kind; empty: no selector matches it."""

    @classmethod
    def of(cls, accelerator: Accelerator) -> "DeviceState":
        """Return a discovered accelerator as the scheduler sees it."""
        return cls(
            accelerator.id,
            accelerator.model or "",
            accelerator.vendor,
            accelerator.memory or NO_BYTES,
            healthy=accelerator.state.allocatable,
            unified=accelerator.unified_memory,
            shareable=accelerator.shareable,
            precisions=tuple(sorted(accelerator.peak)),
            offered=offered_device(
                accelerator.model or "", accelerator.vendor, accelerator.kind, accelerator.memory or NO_BYTES
            ),
        )


def offered_device(model: str, vendor: str, kind: str, memory: Bytes, more: Mapping[str, Any] = EMPTY) -> str:
    """Return what selectors see of an accelerator without a ResourceSlice: what our driver would list."""
    texts = {"model": model, "vendor": vendor, "kind": kind}
    attributes = {name: {"string": text} for name, text in texts.items() if text} | dict(more)
    capacity = {"memory": {"value": str(memory)}} if memory else {}
    device = {"attributes": attributes, "capacity": capacity, "allowMultipleAllocations": bool(memory)}
    return json.dumps({"driver": DOMAIN, "device": device}, sort_keys=True)


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as the scheduler sees it: its total allocatable capacity."""

    name: str
    cpu: int = 0
    """Thousandths of a core."""
    memory: Bytes = NO_BYTES
    pods: int = 110
    resources: Mapping[str, int] = field(default_factory=dict)
    """Other extended resources, by name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    devices: tuple[DeviceState, ...] = ()
    counted: bool = False
    """Its source only counts accelerators: ids are invented; one held under another id is one of these."""

    @classmethod
    def of(cls, name: str, inventory: Inventory) -> "NodeState":
        """Return a discovered machine as the scheduler sees it, with nothing allocated."""
        machine = inventory.machine
        return cls(
            name,
            WHOLE * machine.cpus,
            machine.memory or NO_BYTES,
            labels={"kubernetes.io/hostname": name},
            devices=tuple(DeviceState.of(accelerator) for accelerator in inventory.accelerators),
        )


def _encode_shares(shares: tuple[DeviceShare, ...]) -> dict[str, Any]:
    return {"shares": [share.to_json() for share in shares]}


def _decode_shares(body: Mapping[str, Any]) -> tuple[DeviceShare, ...]:
    return tuple(
        DeviceShare(
            str(share["device"]), Bytes(_count(share["memory_bytes"])), _count(share["compute_milli"])
        )
        if share["whole"] is False
        else DeviceShare(str(share["device"]), whole=True)
        for share in body["shares"]
    )


PLACEMENTS: Final[VersionedFormat[tuple[DeviceShare, ...]]] = VersionedFormat(
    "placement", JSON, {1: Codec(_encode_shares, _decode_shares)}
)
"""The annotation that a pod's binding carries: the pod's shares of accelerators."""


def parse_shares(text: str) -> tuple[DeviceShare, ...] | None:
    """Read the annotation of a bound pod; None for a text that this program did not write or cannot read."""
    try:
        return PLACEMENTS.decode(text)
    except (ValueError, NewerFormatError):
        return None


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{value!r} is not an amount")
    return value


def share_of(request: Request, device: DeviceState, *, whole: bool = False) -> DeviceShare:
    """Return what a request takes of an accelerator; `whole`: the policy gives all of it."""
    if whole or request.whole or taken_whole(request, device):
        return DeviceShare(device.id, device.memory, device.compute, whole=True)
    memory, soft = request.demand.memory, False
    if request.need is not None and device.memory:
        memory, soft = effective_size(request.need, device.memory), not request.need.firm
    elif request.sized_by_estimate and device.model in request.estimates:
        memory = request.estimates[device.model].memory
    return DeviceShare(device.id, memory or NO_BYTES, request.demand.compute or 0, soft=soft)


def taken_whole(request: Request, device: DeviceState) -> bool:
    """Return whether a request sized by its estimates gets all of it, because no share of it is possible."""
    return request.sized_by_estimate and (not device.shareable or _has_unknown_size(request, device))


def _has_unknown_size(request: Request, device: DeviceState) -> bool:
    expected = request.estimates.get(device.model)
    return expected is not None and bool(expected.unknown) and expected.memory is None


@dataclass(frozen=True, slots=True)
class Placement:
    """A request and its place."""

    request: Request
    node: str
    shares: tuple[DeviceShare, ...] = ()

    def where(self) -> str:
        """Return the place as text for people: `server (t4-0, 3.0 GiB)`."""
        shares = ", ".join(f"{share.device}{_size(share)}" for share in self.shares)
        return f"{self.node} ({shares})" if shares else self.node


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many more of the selected pods may be evicted: a PodDisruptionBudget of Kubernetes."""

    namespace: str
    name: str
    selector: Selector
    allowed: int = 0

    def covers(self, request: Request) -> bool:
        """Return whether evicting this request's pod counts against the budget."""
        return request.namespace == self.namespace and self.selector.selects(request.labels)

    def after(self, evictions: int) -> "DisruptionBudget":
        """Return the budget that remains after that many evictions."""
        return replace(self, allowed=max(0, self.allowed - evictions))


class Reason(StrEnum):
    """A reason code for programs; the text beside it is for people."""

    INVALID = "invalid"
    UNSCHEDULABLE = "unschedulable"
    TAINT = "taint"
    SELECTOR = "node-selector"
    AFFINITY = "node-affinity"
    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    RESOURCE = "resource"
    PORT = "host-port"
    POD_AFFINITY = "pod-affinity"
    POD_ANTI_AFFINITY = "pod-anti-affinity"
    TOPOLOGY_SPREAD = "topology-spread"
    NO_DEVICE = "no-accelerator"
    HEALTH = "unhealthy"
    MODEL = "model"
    VENDOR = "vendor"
    DEVICE_SELECTOR = "device-selector"
    PRECISION = "precision"
    ESTIMATE = "does-not-run"
    SLO = "slo"
    UNSHARED = "not-shareable"
    BUSY = "busy"
    DEVICE_MEMORY = "accelerator-memory"
    MEMORY_BOUND = "out-of-memory-bound"
    DEVICE_COMPUTE = "accelerator-compute"
    SLOWDOWN = "slowdown"
    CORRELATION = "correlation"
    DEVICES = "accelerator-count"
    GANG = "gang"
    BUDGET = "disruption-budget"
    QUOTA = "quota"


_WHOLE_REQUEST: Final = (Reason.INVALID, Reason.GANG, Reason.QUOTA)
"""Reasons about the whole request, not about single accelerators or nodes."""
_SINGULAR: Final = {"are": "is", "do": "does", "have": "has", "lack": "lacks", "take": "takes"}
_VERBS: Final = re.compile(rf"(^|on a node that )({'|'.join(_SINGULAR)})\b")
"""The verbs of a reason: the first word, and the one after `on a node that`."""


def _singular(match: re.Match[str]) -> str:
    return match[1] + _SINGULAR[match[2]]


def reason_text(text: str, count: int) -> str:
    """Return a reason with verbs for that count: `lack memory`, for one `lacks memory`."""
    if count != 1:
        return text
    return _VERBS.sub(_singular, text.replace("on nodes ", "on a node ", 1))


@dataclass(frozen=True, slots=True)
class Rejection:
    """One reason, with its amounts and the number of accelerators that it rules out."""

    reason: Reason
    text: str
    """For a person, without the count: `lack memory (need 3.1 GiB, most 2.0 GiB free)`."""
    count: int = 0
    """Accelerators that it rules out; nodes, if the request asks for no accelerator."""
    nodes: int = 0
    """Nodes on which it rules out at least one accelerator."""
    need: float | None = None
    most: float | None = None
    """The most that is free there, in the unit of `need`: bytes, thousandths, a count, or seconds."""

    def with_count(self) -> str:
        """Return the text with its count, if any: `4 lack memory`, `1 lacks memory`."""
        return f"{self.count} {reason_text(self.text, self.count)}" if self.count else self.text

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "reason": self.reason.value,
            "text": self.text,
            "count": self.count,
            "nodes": self.nodes,
            "need": self.need,
            "most": self.most,
        }


@dataclass(frozen=True, slots=True)
class SuggestedChange:
    """One change that would let a refused request fit."""

    field: str
    """What to change: `demand.memory`, `selector`, `priority`, `cluster`, ..."""
    text: str
    """For a person: `ask for 2.0 GiB instead of 3.1 GiB`."""
    amount: float | None = None
    """The amount to ask for or to free, in the field's own unit."""
    share: float = 0.0
    """The size of the change relative to the request: 0.35 is about a third less. It orders suggestions."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"field": self.field, "text": self.text, "amount": self.amount}


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one request: a placement, or every reason against one."""

    request: Request
    policy: str
    placement: Placement | None = None
    score: float = 0.0
    rejections: tuple[Rejection, ...] = ()
    among: int = 0
    """How many accelerators were considered; nodes, if the request asks for no accelerator."""
    victims: tuple[str, ...] = ()
    """Ids of the requests that must be evicted first."""
    changes: tuple[SuggestedChange, ...] = ()
    """Smallest first; filled only on demand."""
    unknown: tuple[str, ...] = ()
    """What is not known of the accelerators taken, and what the policy did with that."""

    @property
    def placed(self) -> bool:
        """Whether there is a place."""
        return self.placement is not None

    @property
    def unit(self) -> str:
        """What was considered, in the plural."""
        return "accelerators" if self.request.demand.count else "nodes"

    def sentence(self) -> str:
        """Return the decision in one sentence."""
        if self.placement is not None:
            return "; ".join((_placed(self.placement, self.victims), *self.unknown))
        reasons = ("; " if self._whole_request else ", ").join(self.reasons())
        why = f": {reasons}" if reasons else ""
        fit = f"; smallest change that would fit: {self.changes[0].text}" if self.has_suggestion else ""
        return f"{self.headline()}{why}{fit}"

    def headline(self) -> str:
        """Return the refusal without its reasons."""
        if self._whole_request:
            return f"{self.request.name} cannot be placed"
        return f"0 of {self.among} {self.unit} can take {self.request.name}"

    def reasons(self) -> list[str]:
        """Return the reasons, each with its count."""
        if self._whole_request:
            return [
                rejection.text
                for rejection in self.rejections
                if rejection.reason is self.rejections[0].reason
            ]
        return [rejection.with_count() for rejection in self.rejections]

    @property
    def _whole_request(self) -> bool:
        return bool(self.rejections) and self.rejections[0].reason in _WHOLE_REQUEST

    @property
    def has_suggestion(self) -> bool:
        """Whether a change is known that would let the request fit."""
        return bool(self.changes) and not self._whole_request

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        placed = self.placement
        return {
            "name": self.request.name,
            "namespace": self.request.namespace,
            "policy": self.policy,
            "placed": self.placed,
            "node": placed.node if placed else None,
            "shares": [share.to_json() for share in placed.shares] if placed else [],
            "score": round(self.score, 6),
            "among": self.among,
            "rejections": [rejection.to_json() for rejection in self.rejections],
            "victims": list(self.victims),
            "changes": [change.to_json() for change in self.changes],
            "sentence": self.sentence(),
            "unknown": list(self.unknown),
        }


def _placed(placement: Placement, victims: tuple[str, ...]) -> str:
    after = f" once {', '.join(victims)} {'is' if len(victims) == 1 else 'are'} evicted" if victims else ""
    return f"{placement.request.name} goes to {placement.where()}{after}"


def _size(share: DeviceShare) -> str:
    if share.whole:
        return ", whole"
    parts = [format_bytes(share.memory)] if share.memory else []
    parts += [f"{share.compute / 10:g} % of its compute"] if share.compute else []
    return f", {' and '.join(parts)}" if parts else ""
