"""Claims, classes and slices of devices (DRA): the fields that scheduling and selectors need.

v1beta1 has the attributes of a device below `basic`, and the fields of a request beside its name; v1beta2 and
v1 agree here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.cluster import objects
from fairlead.cluster.meta import Object, ObjectPart, field
from fairlead.cluster.objects import Allocation, Consumer
from fairlead.manifest.types.kubernetes import Amounts


class CelExpression(ObjectPart, frozen=True):
    """A condition on devices in the Common Expression Language."""

    expression: str = ""


class DeviceSelector(ObjectPart, frozen=True):
    """A condition that selects devices."""

    cel: CelExpression = CelExpression()


class CapacityRequirements(ObjectPart, frozen=True):
    """The requested capacities of a device."""

    requests: Amounts = field(default_factory=dict)


class DeviceRequest(ObjectPart, frozen=True):
    """Devices of one description."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 1
    capacity: CapacityRequirements = CapacityRequirements()


class ClaimRequest(DeviceRequest, frozen=True):
    """One request of a claim: one description, or several of which the first available one is taken."""

    exactly: DeviceRequest | None = None
    """v1beta1 has its fields beside the name instead."""
    first_available: tuple[DeviceRequest, ...] = ()

    def alternatives(self) -> list[tuple[str, str, DeviceRequest]]:
        """Return each description with its name in an allocation and its field."""
        if self.first_available:
            return [
                (f"{self.name}/{request.name}", f".firstAvailable[{at}]", request)
                for at, request in enumerate(self.first_available)
            ]
        return [(self.name, ".exactly", self.exactly) if self.exactly is not None else (self.name, "", self)]


class DeviceClaim(ObjectPart, frozen=True):
    """The requests of a claim for devices."""

    requests: tuple[ClaimRequest, ...] = ()


class ResourceClaimSpec(ObjectPart, frozen=True):
    """The spec of a claim."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaimStatus(ObjectPart, frozen=True):
    """The state of a claim, and the pods that it is reserved for."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(Object, frozen=True):
    """A claim on devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(ObjectPart, frozen=True):
    """The claim that a template creates for each pod."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A template from which each pod that names it gets a claim."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(ObjectPart, frozen=True):
    """The selectors of a device class."""

    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Object, frozen=True):
    """A named class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceFacts(ObjectPart, frozen=True):
    """The attributes and capacities of a device, each as the driver wrote it."""

    node_name: str = ""
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    allow_multiple_allocations: bool = False


class Device(DeviceFacts, frozen=True):
    """One device that may be claimed."""

    name: str = ""
    basic: DeviceFacts | None = None
    """v1beta1."""
    taints: tuple[objects.Taint, ...] = ()

    @property
    def facts(self) -> DeviceFacts:
        """The attributes and capacities, wherever this API version has them."""
        return self.basic or self


class SliceSpec(ObjectPart, frozen=True):
    """The devices of one driver on one node."""

    driver: str = ""
    node_name: str = ""
    pool: objects.ResourcePool = objects.ResourcePool()
    devices: tuple[Device, ...] = ()


class Slice(Object, frozen=True):
    """A ResourceSlice: devices that a driver offers to claims."""

    spec: SliceSpec = SliceSpec()

    @property
    def node(self) -> str:
        """The node that the devices are on."""
        return self.spec.node_name or self.spec.pool.name

    @property
    def pool(self) -> tuple[str, str]:
        """The driver and the name of the pool."""
        return self.spec.driver, self.spec.pool.name


def pool_generations(slices: Iterable[Slice]) -> dict[tuple[str, str], int]:
    """Return the newest generation of each driver's pool."""
    latest: dict[tuple[str, str], int] = {}
    for slice_ in slices:
        latest[slice_.pool] = max(latest.get(slice_.pool, 0), slice_.spec.pool.generation)
    return latest


def newest_slices(slices: Iterable[Slice]) -> list[Slice]:
    """Return the slices of each pool's newest generation, by name: older slices are about to be deleted."""
    listed = sorted(slices, key=lambda slice_: slice_.key)
    latest = pool_generations(listed)
    return [slice_ for slice_ in listed if slice_.spec.pool.generation == latest[slice_.pool]]
