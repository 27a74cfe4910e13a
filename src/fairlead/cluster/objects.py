"""The fields of Kubernetes objects that this program reads: typed, frozen, every other field ignored.

A list of 50,000 pods is cheap because only these fields are decoded. A field that the server omits or sends
as null has its default. Times stay as the server writes them (RFC 3339, UTC): see `times.py`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from fairlead.cluster.meta import Object, ObjectPart


class Taint(ObjectPart, frozen=True):
    """A taint of a node, which repels the pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Condition(ObjectPart, frozen=True):
    """A condition: one aspect of an object's state."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class NodeSpec(ObjectPart, frozen=True):
    """The desired state of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = field(default="", name="providerID")


class NodeAddress(ObjectPart, frozen=True):
    """One way to reach a node."""

    type: str = ""
    address: str = ""


class NodeInfo(ObjectPart, frozen=True):
    """The operating system and the programs of a node."""

    architecture: str = ""
    operating_system: str = ""
    kernel_version: str = ""
    os_image: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(ObjectPart, frozen=True):
    """The observed state of a node."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(Object, frozen=True):
    """A machine of the cluster."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ResourceRequirements(ObjectPart, frozen=True):
    """The requests and limits of a container."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


class EnvVar(ObjectPart, frozen=True):
    """An environment variable that a container sets."""

    name: str = ""
    value: str = ""


class Container(ObjectPart, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    env: tuple[EnvVar, ...] = ()
    restart_policy: str = ""
    """`Always` marks an init container that runs beside the others (a sidecar)."""
    resources: ResourceRequirements = ResourceRequirements()


class Toleration(ObjectPart, frozen=True):
    """A taint that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Requirement(ObjectPart, frozen=True):
    """One term of a selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ObjectPart, frozen=True):
    """Requirements that a node must meet together."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(ObjectPart, frozen=True):
    """Terms of which a node must meet one."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(ObjectPart, frozen=True):
    """A term that a node should meet, with its weight."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ObjectPart, frozen=True):
    """The nodes that a pod requires or prefers."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(ObjectPart, frozen=True):
    """The affinity of a pod, as far as nodes are concerned."""

    node_affinity: NodeAffinity = NodeAffinity()


class SchedulingGate(ObjectPart, frozen=True):
    """A reason not to schedule a pod yet."""

    name: str = ""


class PodResourceClaim(ObjectPart, frozen=True):
    """A resource claim that a pod names."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(ObjectPart, frozen=True):
    """The desired state of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    affinity: Affinity = Affinity()


class ContainerExtendedResourceRequest(ObjectPart, frozen=True):
    """The container and its extended resource that a request of a claim stands for."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ObjectPart, frozen=True):
    """The claim that stands for the extended resources of a pod."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodStatus(ObjectPart, frozen=True):
    """The observed state of a pod."""

    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    start_time: str = ""
    conditions: tuple[Condition, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus = PodExtendedResourceClaimStatus()


class Pod(Object, frozen=True):
    """A pod: containers that run together on one node."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ObjectReference(ObjectPart, frozen=True):
    """A reference to an object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(ObjectPart, frozen=True):
    """The component that reports an event."""

    component: str = ""
    host: str = ""


class EventSeries(ObjectPart, frozen=True):
    """How often the same event happened."""

    count: int = 0
    last_observed_time: str = ""


class Event(Object, frozen=True):
    """An event, as `kubectl describe` shows it."""

    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    type: str = ""
    reason: str = ""
    action: str = ""
    message: str = ""
    count: int = 0
    source: EventSource = EventSource()
    series: EventSeries | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    event_time: str = ""
    first_timestamp: str = ""
    last_timestamp: str = ""


class LeaseSpec(ObjectPart, frozen=True):
    """The holder of a lease, since when, and for how long."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0
    strategy: str = ""
    preferred_holder: str = ""


class Lease(Object, frozen=True):
    """A lease, which its holder must renew."""

    spec: LeaseSpec = LeaseSpec()


class NamespaceStatus(ObjectPart, frozen=True):
    """Whether a namespace is active or terminating."""

    phase: str = ""


class Namespace(Object, frozen=True):
    """A namespace."""

    status: NamespaceStatus = NamespaceStatus()


class ServiceAccount(Object, frozen=True):
    """A service account: the identity of pods."""


class ConfigMap(Object, frozen=True):
    """A config map."""

    data: Mapping[str, str] = field(default_factory=dict)
    binary_data: Mapping[str, str] = field(default_factory=dict)
    immutable: bool = False


class CrdNames(ObjectPart, frozen=True):
    """The names of a custom kind."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    short_names: tuple[str, ...] = ()


class CrdVersion(ObjectPart, frozen=True):
    """One version of a custom kind."""

    name: str = ""
    served: bool = False
    storage: bool = False


class CrdSpec(ObjectPart, frozen=True):
    """The definition of a custom kind."""

    group: str = ""
    scope: str = ""
    names: CrdNames = CrdNames()
    versions: tuple[CrdVersion, ...] = ()


class CrdStatus(ObjectPart, frozen=True):
    """Whether the server serves a custom kind yet."""

    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(Object, frozen=True):
    """A custom kind of the API."""

    spec: CrdSpec = CrdSpec()
    status: CrdStatus = CrdStatus()


class ResourcePool(ObjectPart, frozen=True):
    """The set of slices that together describe one pool of devices."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Device(ObjectPart, frozen=True):
    """One device that a claim may get; attributes and capacity as the driver wrote them."""

    name: str = ""
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class ResourceSliceSpec(ObjectPart, frozen=True):
    """The devices that one driver offers on one node, or on all."""

    driver: str = ""
    node_name: str = ""
    all_nodes: bool = False
    pool: ResourcePool = ResourcePool()
    devices: tuple[Device, ...] = ()


class ResourceSlice(Object, frozen=True):
    """Devices that a driver offers to claims."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class AllocatedDevice(ObjectPart, frozen=True):
    """A device that is allocated to a claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    consumed_capacity: Mapping[str, str | int | float] = field(default_factory=dict)


class AllocatedDevices(ObjectPart, frozen=True):
    """The devices that are allocated to a claim."""

    results: tuple[AllocatedDevice, ...] = ()


class Allocation(ObjectPart, frozen=True):
    """The allocation of a claim."""

    devices: AllocatedDevices = AllocatedDevices()


class Consumer(ObjectPart, frozen=True):
    """A consumer of a claim: usually a pod."""

    resource: str = ""
    name: str = ""
    uid: str = ""
