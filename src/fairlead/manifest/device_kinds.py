"""Slices, classes and claims of devices as selectors need them, in every version of resource.k8s.io.

v1beta1 has what a device says of itself below `basic`, and what a request wants beside its name; v1beta2 and
v1 agree here.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import field

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, Part
from fairlead.cluster.objects import ResourcePool
from fairlead.manifest.deviceshapes import DeviceSelector

GROUP: Final = "resource.k8s.io"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""The newest first: a server is asked for them in this order."""


class DeviceFacts(Part, frozen=True):
    """What a device says of itself; each attribute and capacity as the driver wrote it."""

    node_name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, Any] = field(default_factory=dict)
    allow_multiple_allocations: bool = False


class SliceDevice(DeviceFacts, frozen=True):
    """One device of a slice."""

    name: str = ""
    basic: DeviceFacts | None = None
    """v1beta1."""

    @property
    def facts(self) -> DeviceFacts:
        """What it says of itself, wherever this version has it."""
        return self.basic or self


class SliceSpec(Part, frozen=True):
    """The devices of one driver in one place."""

    driver: str = ""
    node_name: str = ""
    pool: ResourcePool = ResourcePool()
    devices: tuple[SliceDevice, ...] = ()


class Slice(Object, frozen=True):
    """Devices that a driver offers to claims."""

    spec: SliceSpec = SliceSpec()


class DeviceClassSpec(Part, frozen=True):
    """Which devices a class holds."""

    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Object, frozen=True):
    """A kind of devices with a name."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceRequest(Part, frozen=True):
    """Devices of one description."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


class ClaimRequest(DeviceRequest, frozen=True):
    """One request of a claim: one description, or several of which the first that can be had is taken."""

    exactly: DeviceRequest | None = None
    """v1beta1 has its fields beside the name instead."""
    first_available: tuple[DeviceRequest, ...] = ()


class DeviceClaim(Part, frozen=True):
    """The devices that a claim wants."""

    requests: tuple[ClaimRequest, ...] = ()


class ClaimSpec(Part, frozen=True):
    """What a claim wants."""

    devices: DeviceClaim = DeviceClaim()


class Claim(Object, frozen=True):
    """A ResourceClaim."""

    spec: ClaimSpec = ClaimSpec()


class ClaimTemplateSpec(Part, frozen=True):
    """The claim that a template makes for each pod."""

    spec: ClaimSpec = ClaimSpec()


class ClaimTemplate(Object, frozen=True):
    """A ResourceClaimTemplate."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


SLICE: Final = "ResourceSlice"
CLASS: Final = "DeviceClass"
CLAIM: Final = "ResourceClaim"
TEMPLATE: Final = "ResourceClaimTemplate"
KINDS: Final[Mapping[str, type[Object]]] = {
    SLICE: Slice,
    CLASS: DeviceClass,
    CLAIM: Claim,
    TEMPLATE: ClaimTemplate,
}
_PLURALS: Final = {
    SLICE: "resourceslices",
    CLASS: "deviceclasses",
    CLAIM: "resourceclaims",
    TEMPLATE: "resourceclaimtemplates",
}


def served(kind: str, version: str) -> Kind[Any]:
    """Return where a server keeps a kind in one version of the API."""
    return Kind(GROUP, version, _PLURALS[kind], kind in (CLAIM, TEMPLATE), KINDS[kind], kind)
