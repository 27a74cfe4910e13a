"""A Kubernetes node as the scheduler sees it, with the accelerators that one of its sources names.

One source decides, the first that names an accelerator: our agent's list, ResourceSlices, our labels, then
what other plugins publish. Two sources are never merged: a device that only the second source names may be a
device of the first under another name, and would be allocated twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead import keys
from fairlead.annotations import (
    MIG,
    AnnotatedAccelerator,
    catalog_model,
    labelled_models,
    newer_format,
    parse_devices,
)
from fairlead.catalog import Catalog, CatalogDevice
from fairlead.errors import ManifestError
from fairlead.keys import DEVICES
from fairlead.manifest import amounts
from fairlead.manifest.amounts import MIB
from fairlead.manifest.node import selector_devices
from fairlead.manifest.pod import rules
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.pod.effective import CPU, MEMORY, in_bytes
from fairlead.manifest.types import kubernetes
from fairlead.manifest.types.dra import Device, Slice
from fairlead.offer import DRIVER
from fairlead.placement import DeviceState, NodeState
from fairlead.request import WHOLE
from fairlead.units import Bytes

_PODS: Final = "pods"
_OWN_FIELDS: Final = (CPU, MEMORY, _PODS)
_FEATURES: Final = "nvidia.com/gpu."
"""Labels of NVIDIA's feature discovery: product, memory, count."""
_UNHEALTHY: Final = ("present", "driver-bound")
"""States in which an accelerator takes no work."""


def read_node(where: str, manifest: kubernetes.Node, slices: Sequence[Slice], catalog: Catalog) -> NodeState:
    """Return a node; `slices` are the slices of its pools."""
    resources = {**manifest.status.capacity, **manifest.status.allocatable}
    place = f"{where}: status.allocatable"
    memory = amounts.quantity(f"{place}.memory", resources.get(MEMORY, 0))
    labels = dict(manifest.metadata.labels)
    labels.setdefault("kubernetes.io/hostname", manifest.metadata.name)
    named = tuple(_named_devices(where, manifest, slices, catalog).values())
    counted = () if named else tuple(_counted_devices(place, manifest.metadata.labels, resources, catalog))
    return NodeState(
        name=manifest.metadata.name,
        cpu=amounts.milli(f"{place}.cpu", resources.get(CPU, 0)),
        memory=memory,
        pods=amounts.whole(f"{place}.pods", resources.get(_PODS, 110)),
        resources={
            name: _read_resource(f"{place}.{name}", name, resources[name])
            for name in resources
            if _is_other(name)
        },
        labels=labels,
        taints=tuple(
            rules.taint(f"{where}: spec.taints[{at}]", taint) for at, taint in enumerate(manifest.spec.taints)
        ),
        unschedulable=manifest.spec.unschedulable,
        devices=named or counted,
        counted=bool(counted),
    )


def _is_other(name: str) -> bool:
    return name not in _OWN_FIELDS and not is_accelerator(name)


def _read_resource(where: str, name: str, value: object) -> int:
    return amounts.quantity(where, value) if in_bytes(name) else amounts.whole(where, value)


def _named_devices(
    where: str, manifest: kubernetes.Node, slices: Sequence[Slice], catalog: Catalog
) -> dict[str, DeviceState]:
    """Return the accelerators that a source names, by id: our agent's list, else slices."""
    if newer := newer_format(manifest.metadata.annotations):
        raise ManifestError(f"{where}: {newer}", "upgrade fairlead here to the version of the node's agent")
    listed = parse_devices(manifest.metadata.annotations.get(DEVICES, ""))
    ours = [slice_ for slice_ in slices if slice_.spec.driver == DRIVER]
    if listed:
        in_slices = {device.name: device for slice_ in ours for device in slice_.spec.devices}
        return {
            annotated.id: _annotated_device(annotated, in_slices.get(annotated.id), catalog)
            for annotated in listed
        }
    return {
        device.name: _slice_device(device, slice_.spec.driver, catalog)
        for slice_ in ours or slices
        for device in slice_.spec.devices
    }


def _counted_devices(
    where: str, labels: Mapping[str, str], resources: Mapping[str, Any], catalog: Catalog
) -> list[DeviceState]:
    """Return the accelerators that a source only counts; this function makes up their ids."""
    return (
        _labelled_devices(labels, catalog)
        or list(_feature_discovery_devices(where, labels, resources, catalog))
        or list(_gpushare_devices(where, resources))
        or list(_plugin_devices(where, resources))
    )


def _annotated_device(
    annotated: AnnotatedAccelerator, listed: Device | None, catalog: Catalog
) -> DeviceState:
    """Return an accelerator of an agent's list, with the attributes of its slice where there is one."""
    row = catalog.devices.get(catalog_model(annotated.model))
    memory = Bytes(annotated.mebibytes * MIB)
    return DeviceState(
        annotated.id,
        annotated.model,
        annotated.vendor,
        memory,
        healthy=annotated.healthy,
        unified=annotated.unified,
        shareable=annotated.shareable,
        precisions=_precisions(row),
        offered=selector_devices.encode_slice_device(DRIVER, listed, memory)
        if listed
        else selector_devices.encode_catalog_device(row, annotated.model, annotated.vendor, memory),
    )


def _slice_device(device: Device, driver: str, catalog: Catalog) -> DeviceState:
    """Return a device of a slice."""
    attributes = {
        name.rpartition("/")[2]: next(iter(value.values()), None) for name, value in device.attributes.items()
    }
    model = str(attributes.get("model") or "")
    product = str(attributes.get("productName") or "")
    row = catalog.devices.get(catalog_model(model)) or _catalog_row(product, catalog)
    memory = {name.rpartition("/")[2]: value for name, value in device.capacity.items()}.get("memory", {})
    known = row.vendor if row else {"gpu.nvidia.com": "NVIDIA", "gpu.amd.com": "AMD"}.get(driver, "")
    return DeviceState(
        device.name,
        model if MIG in model or not row else row.id,
        str(attributes.get("vendor") or known),
        amounts.quantity(f"{device.name}: capacity.memory", memory.get("value", 0)),
        healthy=attributes.get("state") not in _UNHEALTHY and not device.taints,
        unified=attributes.get("unifiedMemory") is True,
        # A server without consumable capacity drops the field; our attribute stays.
        shareable=attributes.get("shareable", device.allow_multiple_allocations) is True,
        precisions=_precisions(row),
        offered=selector_devices.encode_slice_device(driver, device),
    )


def _labelled_devices(labels: Mapping[str, str], catalog: Catalog) -> list[DeviceState]:
    """Return the accelerators that our labels count; labels do not say which of a model are unhealthy."""
    devices = []
    for labelled in labelled_models(labels):
        row = catalog.devices.get(catalog_model(labelled.model))
        values = {
            name: labels.get(f"{keys.PREFIX}{labelled.model}.{name}", "") for name in ("memory-mib", "vendor")
        }
        memory = Bytes(int(values["memory-mib"]) * MIB) if values["memory-mib"].isdecimal() else Bytes(0)
        unified = labels.get(f"{keys.PREFIX}{labelled.model}.unified-memory") == "true"
        vendor = row.vendor if row else values["vendor"]
        for number in range(labelled.count):
            devices.append(
                DeviceState(
                    f"{labelled.model}-{number}",
                    labelled.model,
                    vendor,
                    memory,
                    healthy=number < labelled.usable,
                    unified=unified,
                    shareable=bool(row and row.shareable and memory),
                    precisions=_precisions(row),
                    offered=selector_devices.encode_catalog_device(row, labelled.model, vendor, memory),
                )
            )
    return devices


def _feature_discovery_devices(
    where: str, labels: Mapping[str, str], resources: Mapping[str, Any], catalog: Catalog
) -> Iterator[DeviceState]:
    """Yield the accelerators that NVIDIA's feature discovery labels."""
    product = labels.get(f"{_FEATURES}product", "")
    count = labels.get(f"{_FEATURES}count") or resources.get("nvidia.com/gpu", 0)
    if not product:
        return
    row = _catalog_row(product.replace("-", " "), catalog)
    memory = amounts.mebibytes(f"{_FEATURES}memory", labels.get(f"{_FEATURES}memory", 0))
    for number in range(amounts.whole(f"{where}: {_FEATURES}count", count, 1024)):
        model = row.id if row else product.lower()
        offered = selector_devices.encode_catalog_device(row, model, "NVIDIA", memory)
        yield DeviceState(
            f"gpu-{number}", model, "NVIDIA", memory, precisions=_precisions(row), offered=offered
        )


def _gpushare_devices(where: str, resources: Mapping[str, Any]) -> Iterator[DeviceState]:
    """Yield the GPUs of gpushare's plugin, which publishes total memory: each GPU gets an equal part."""
    count = amounts.whole(f"{where}.{keys.ALIYUN_COUNT}", resources.get(keys.ALIYUN_COUNT, 0), 1024)
    total = amounts.whole(f"{where}.{keys.ALIYUN_MEM}", resources.get(keys.ALIYUN_MEM, 0))
    for number in range(count):
        per_device = total // count
        unit = MIB if per_device > keys.ALIYUN_GIB_AT_MOST else MIB * 1024
        yield DeviceState(f"gpu-{number}", "", "NVIDIA", Bytes(per_device * unit))


def _plugin_devices(where: str, resources: Mapping[str, Any]) -> Iterator[DeviceState]:
    """Yield the accelerators that stock plugins count: only their number is known, and they go out whole."""
    for name, vendor in keys.WHOLE.items():
        for number in range(amounts.whole(f"{where}.{name}", resources.get(name, 0), 1024)):
            yield DeviceState(f"{vendor.lower()}-{number}", "", vendor, compute=WHOLE, shareable=False)


def _catalog_row(product: str, catalog: Catalog) -> CatalogDevice | None:
    rows = catalog.by_nvml(product) or [row for row in catalog.devices.values() if row.name == product]
    return rows[0] if rows else None


def _precisions(row: CatalogDevice | None) -> tuple[str, ...]:
    peaks = (
        {}
        if row is None
        else row.peak or next((variant.peak for variant in row.variants if variant.peak), {})
    )
    return tuple(sorted(peaks))
