"""The messages of the Container Storage Interface that we use, with the numbers of its csi.proto.

Fields that we neither read nor set are left out; each side skips fields that it does not know.
"""

from dataclasses import dataclass
from typing import Final

from fairlead.kubelet.proto import at

# csi.v1.Identity


@dataclass(frozen=True, slots=True)
class GetPluginInfoResponse:
    """The driver's name and version."""

    name: str = at(1, "")
    vendor_version: str = at(2, "")


@dataclass(frozen=True, slots=True)
class TypedCapability:
    """A capability, by its number in the enumeration of its kind."""

    type: int = at(1, 0, bits=32)


_NO_CAPABILITY: Final = TypedCapability()


@dataclass(frozen=True, slots=True)
class PluginCapability:
    """A capability of the driver; this field is the one of volume expansion."""

    volume_expansion: TypedCapability = at(2, _NO_CAPABILITY)  # noqa: RUF009  # `at` declares a field


@dataclass(frozen=True, slots=True)
class GetPluginCapabilitiesResponse:
    """The driver's capabilities."""

    capabilities: tuple[PluginCapability, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class BoolValue:
    """A bool that can be missing."""

    value: bool = at(1, False)


_FALSE: Final = BoolValue()


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """Whether the driver is ready."""

    ready: BoolValue = at(1, _FALSE)  # noqa: RUF009  # `at` declares a field


# csi.v1.Node


@dataclass(frozen=True, slots=True)
class NodeGetInfoResponse:
    """The name by which the driver knows this node."""

    node_id: str = at(1, "")


@dataclass(frozen=True, slots=True)
class NodeServiceCapability:
    """A call that the node's service has."""

    rpc: TypedCapability = at(1, _NO_CAPABILITY)  # noqa: RUF009  # `at` declares a field


@dataclass(frozen=True, slots=True)
class NodeGetCapabilitiesResponse:
    """The calls that the node's service has."""

    capabilities: tuple[NodeServiceCapability, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class NodeStageVolumeRequest:
    """A volume to mount once on the node."""

    volume_id: str = at(1, "")
    staging_target_path: str = at(3, "")


@dataclass(frozen=True, slots=True)
class NodeUnstageVolumeRequest:
    """A volume that no pod of the node uses any longer."""

    volume_id: str = at(1, "")
    staging_target_path: str = at(2, "")


@dataclass(frozen=True, slots=True)
class NodePublishVolumeRequest:
    """A staged volume to show to a pod."""

    volume_id: str = at(1, "")
    staging_target_path: str = at(3, "")
    target_path: str = at(4, "")
    readonly: bool = at(6, False)


@dataclass(frozen=True, slots=True)
class NodeUnpublishVolumeRequest:
    """A volume to take from a pod."""

    volume_id: str = at(1, "")
    target_path: str = at(2, "")


@dataclass(frozen=True, slots=True)
class NodeGetVolumeStatsRequest:
    """A mounted volume whose use is asked for."""

    volume_id: str = at(1, "")
    volume_path: str = at(2, "")


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """The use of a volume, in a unit."""

    available: int = at(1, 0)
    total: int = at(2, 0)
    used: int = at(3, 0)
    unit: int = at(4, 0, bits=32)


@dataclass(frozen=True, slots=True)
class NodeGetVolumeStatsResponse:
    """The use of a volume, in each unit."""

    usage: tuple[VolumeUsage, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """The capacity that is asked for."""

    required_bytes: int = at(1, 0)
    limit_bytes: int = at(2, 0)


_NO_RANGE: Final = CapacityRange()


@dataclass(frozen=True, slots=True)
class NodeExpandVolumeRequest:
    """A mounted volume whose file system is to fill its enlarged image."""

    volume_id: str = at(1, "")
    volume_path: str = at(2, "")
    capacity_range: CapacityRange = at(3, _NO_RANGE)  # noqa: RUF009  # `at` declares a field
    staging_target_path: str = at(4, "")


@dataclass(frozen=True, slots=True)
class NodeExpandVolumeResponse:
    """The capacity that it has now."""

    capacity_bytes: int = at(1, 0)
