"""The messages of a kubelet's four APIs that we use, with the names and numbers of its api.proto files.

Fields that we neither read nor set are left out; each side skips fields that it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.kubelet.proto import at, map_at


@dataclass(frozen=True, slots=True)
class Empty:
    """A request or an answer without fields."""


# pluginregistration


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin's type, name, endpoint and versions."""

    type: str = at(1, "")
    name: str = at(2, "")
    endpoint: str = at(3, "")
    supported_versions: tuple[str, ...] = at(4, ())


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """The result of a registration."""

    plugin_registered: bool = at(1, False)
    error: str = at(2, "")


# v1beta1 (device plugins)


@dataclass(frozen=True, slots=True)
class DevicePluginOptions:
    """The optional calls that a device plugin supports."""

    pre_start_required: bool = at(1, False)
    get_preferred_allocation_available: bool = at(2, False)


@dataclass(frozen=True, slots=True)
class Device:
    """A unit of a resource."""

    id: str = at(1, "")
    health: str = at(2, "")


@dataclass(frozen=True, slots=True)
class ListAndWatchResponse:
    """Every unit of a resource."""

    devices: tuple[Device, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class ContainerPreferredAllocationRequest:
    """The units that a container could get."""

    available_device_ids: tuple[str, ...] = at(1, ())
    must_include_device_ids: tuple[str, ...] = at(2, ())
    allocation_size: int = at(3, 0, bits=32)


@dataclass(frozen=True, slots=True)
class PreferredAllocationRequest:
    """The units that some containers could get."""

    container_requests: tuple[ContainerPreferredAllocationRequest, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class ContainerPreferredAllocationResponse:
    """The units that a container should get."""

    device_ids: tuple[str, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class PreferredAllocationResponse:
    """The units that the containers should get, in the order of the request."""

    container_responses: tuple[ContainerPreferredAllocationResponse, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class ContainerAllocateRequest:
    """The units allocated to a container."""

    devices_ids: tuple[str, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class AllocateRequest:
    """The units allocated to some containers."""

    container_requests: tuple[ContainerAllocateRequest, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the node for a container."""

    container_path: str = at(1, "")
    host_path: str = at(2, "")
    read_only: bool = at(3, False)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device node for a container."""

    container_path: str = at(1, "")
    host_path: str = at(2, "")
    permissions: str = at(3, "")


@dataclass(frozen=True, slots=True)
class CDIDevice:
    """A fully qualified CDI device."""

    name: str = at(1, "")


@dataclass(frozen=True, slots=True)
class ContainerAllocateResponse:
    """What a container receives for its units."""

    envs: Mapping[str, str] = map_at(1)
    devices: tuple[DeviceSpec, ...] = at(3, ())
    cdi_devices: tuple[CDIDevice, ...] = at(5, ())
    mounts: tuple[Mount, ...] = at(2, ())


@dataclass(frozen=True, slots=True)
class AllocateResponse:
    """What the containers receive, in the order of the request."""

    container_responses: tuple[ContainerAllocateResponse, ...] = at(1, ())


# k8s.io.kubelet.pkg.apis.dra.v1 and v1beta1, which are the same but for `share_id`


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to prepare or to unprepare."""

    namespace: str = at(1, "")
    uid: str = at(2, "")
    name: str = at(3, "")


@dataclass(frozen=True, slots=True)
class NodeResourcesRequest:
    """The claims to prepare or to unprepare: both requests have the same fields."""

    claims: tuple[Claim, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device of a prepared claim, called `Device` on the wire."""

    request_names: tuple[str, ...] = at(1, ())
    pool_name: str = at(2, "")
    device_name: str = at(3, "")
    cdi_device_ids: tuple[str, ...] = at(4, ())
    share_id: str | None = at(5, None)


@dataclass(frozen=True, slots=True)
class NodePrepareResourceResponse:
    """A claim's devices, or why it cannot be prepared."""

    devices: tuple[PreparedDevice, ...] = at(1, ())
    error: str = at(2, "")


@dataclass(frozen=True, slots=True)
class NodePrepareResourcesResponse:
    """The result for each claim, by its uid."""

    claims: Mapping[str, NodePrepareResourceResponse] = map_at(1)


@dataclass(frozen=True, slots=True)
class NodeUnprepareResourceResponse:
    """Why a claim cannot be unprepared; empty where it is."""

    error: str = at(1, "")


@dataclass(frozen=True, slots=True)
class NodeUnprepareResourcesResponse:
    """The result for each claim, by its uid."""

    claims: Mapping[str, NodeUnprepareResourceResponse] = map_at(1)


# v1 (pod-resources)


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """Units of a resource that a container holds."""

    resource_name: str = at(1, "")
    device_ids: tuple[str, ...] = at(2, ())


@dataclass(frozen=True, slots=True)
class ClaimResource:
    """A device that a container has through a claim."""

    driver_name: str = at(2, "")
    pool_name: str = at(3, "")
    device_name: str = at(4, "")
    share_id: str | None = at(5, None)


@dataclass(frozen=True, slots=True)
class DynamicResource:
    """A claim that a container uses."""

    claim_name: str = at(2, "")
    claim_namespace: str = at(3, "")
    claim_resources: tuple[ClaimResource, ...] = at(4, ())


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What a container holds."""

    name: str = at(1, "")
    devices: tuple[bytes, ...] = at(2, ())
    """Each an encoded `ContainerDevices`: a kubelet writes one for every unit."""
    dynamic_resources: tuple[DynamicResource, ...] = at(5, ())


@dataclass(frozen=True, slots=True)
class PodResources:
    """What the containers of a pod hold."""

    name: str = at(1, "")
    namespace: str = at(2, "")
    containers: tuple[ContainerResources, ...] = at(3, ())


@dataclass(frozen=True, slots=True)
class ListPodResourcesResponse:
    """What the pods of a node hold."""

    pod_resources: tuple[PodResources, ...] = at(1, ())


@dataclass(frozen=True, slots=True)
class EncodedPodResources:
    """What the containers of a pod hold, each still encoded: few change between two reads."""

    name: str = at(1, "")
    namespace: str = at(2, "")
    containers: tuple[bytes, ...] = at(3, ())
    """Each an encoded `ContainerResources`."""


@dataclass(frozen=True, slots=True)
class EncodedListResponse:
    """What the pods of a node hold, each still encoded."""

    pod_resources: tuple[bytes, ...] = at(1, ())
    """Each an encoded `EncodedPodResources`."""
