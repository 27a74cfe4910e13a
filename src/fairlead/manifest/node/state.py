"""A node of Kubernetes as a scheduler sees it, with the accelerators that somebody says it has.

One source decides, the first that names an accelerator: our agent's list, ResourceSlices, our labels, then
what other plugins publish. Two sources are never merged: a device that only the second names may be a device
of the first under another name, and would be given away twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead import keys
from fairlead.annotations import AnnotatedAccelerator, models, newer_format, parse_devices
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
from fairlead.manifest.types.dra import Device as Listed
from fairlead.manifest.types.dra import Slice
from fairlead.offer import DRIVER
from fairlead.placement import DeviceState, NodeState
from fairlead.request import WHOLE
from fairlead.units import Bytes

_PODS: Final = "pods"
_OWN_FIELDS: Final = (CPU, MEMORY, _PODS)
_FEATURES: Final = "nvidia.com/gpu."
"""Labels of NVIDIA's feature discovery: product, memory, count."""
_UNHEALTHY: Final = ("present", "driver-bound")
"""States in which no work may be sent to an accelerator."""


def read_node(where: str, given: kubernetes.Node, slices: Sequence[Slice], catalog: Catalog) -> NodeState:
    """Return a node; `slices` are those of its pools."""
    has = {**given.status.capacity, **given.status.allocatable}
    place = f"{where}: status.allocatable"
    memory = amounts.quantity(f"{place}.memory", has.get(MEMORY, 0))
    labels = dict(given.metadata.labels)
    labels.setdefault("kubernetes.io/hostname", given.metadata.name)
    named = tuple(_named_devices(where, given, slices, catalog).values())
    counted = () if named else tuple(_counted_devices(place, given.metadata.labels, has, catalog))
    return NodeState(
        name=given.metadata.name,
        cpu=amounts.milli(f"{place}.cpu", has.get(CPU, 0)),
        memory=memory,
        pods=amounts.whole(f"{place}.pods", has.get(_PODS, 110)),
        resources={
            name: _read_resource(f"{place}.{name}", name, has[name]) for name in has if _is_other(name)
        },
        labels=labels,
        taints=tuple(
            rules.taint(f"{where}: spec.taints[{at}]", each) for at, each in enumerate(given.spec.taints)
        ),
        unschedulable=given.spec.unschedulable,
        devices=named or counted,
        counted=bool(counted),
    )


def _is_other(name: str) -> bool:
    return name not in _OWN_FIELDS and not is_accelerator(name)


def _read_resource(where: str, name: str, value: object) -> int:
    return amounts.quantity(where, value) if in_bytes(name) else amounts.whole(where, value)


def _named_devices(
    where: str, given: kubernetes.Node, slices: Sequence[Slice], catalog: Catalog
) -> dict[str, DeviceState]:
    """Return the accelerators that a source calls by their names, by id; our agent's list, else slices."""
    if newer := newer_format(given.metadata.annotations):
        raise ManifestError(f"{where}: {newer}", "upgrade fairlead here to the version of the node's agent")
    listed = parse_devices(given.metadata.annotations.get(DEVICES, ""))
    ours = [slice_ for slice_ in slices if slice_.spec.driver == DRIVER]
    if listed:
        in_slices = {device.name: device for each in ours for device in each.spec.devices}
        return {each.id: _annotated_device(each, in_slices.get(each.id), catalog) for each in listed}
    return {
        device.name: _slice_device(device, each.spec.driver, catalog)
        for each in ours or slices
        for device in each.spec.devices
    }


def _counted_devices(
    where: str, labels: Mapping[str, str], has: Mapping[str, Any], catalog: Catalog
) -> list[DeviceState]:
    """Return the accelerators that a source counts; their ids are made up here."""
    return (
        _labelled_devices(labels, catalog)
        or list(_feature_discovery_devices(where, labels, has, catalog))
        or list(_gpushare_devices(where, has))
        or list(_plugin_devices(where, has))
    )


def _annotated_device(said: AnnotatedAccelerator, listed: Listed | None, catalog: Catalog) -> DeviceState:
    """Return an accelerator of an agent's list, as a slice lists it where one does."""
    row = catalog.devices.get(said.model)
    memory = Bytes(said.mebibytes * MIB)
    return DeviceState(
        said.id,
        said.model,
        said.vendor,
        memory,
        healthy=said.healthy,
        unified=said.unified,
        shareable=said.shareable,
        precisions=_precisions(row),
        offered=selector_devices.encode_slice_device(DRIVER, listed, memory)
        if listed
        else selector_devices.encode_catalog_device(row, said.model, said.vendor, memory),
    )


def _slice_device(device: Listed, driver: str, catalog: Catalog) -> DeviceState:
    """Return a device of a slice."""
    said = {
        name.rpartition("/")[2]: next(iter(value.values()), None) for name, value in device.attributes.items()
    }
    model = str(said.get("model") or "")
    row = catalog.devices.get(model) or _catalog_row(str(said.get("productName") or ""), catalog)
    memory = {name.rpartition("/")[2]: value for name, value in device.capacity.items()}.get("memory", {})
    known = row.vendor if row else {"gpu.nvidia.com": "NVIDIA", "gpu.amd.com": "AMD"}.get(driver, "")
    return DeviceState(
        device.name,
        row.id if row else model,
        str(said.get("vendor") or known),
        amounts.quantity(f"{device.name}: capacity.memory", memory.get("value", 0)),
        healthy=said.get("state") not in _UNHEALTHY and not device.taints,
        unified=said.get("unifiedMemory") is True,
        # A server that knows no consumable capacity drops the field; our attribute stays.
        shareable=said.get("shareable", device.allow_multiple_allocations) is True,
        precisions=_precisions(row),
        offered=selector_devices.encode_slice_device(driver, device),
    )


def _labelled_devices(labels: Mapping[str, str], catalog: Catalog) -> list[DeviceState]:
    """Return the accelerators that our labels name; which of a model are unwell they do not say."""
    found = []
    for each in models(labels):
        row = catalog.devices.get(each.model)
        told = {
            name: labels.get(f"{keys.PREFIX}{each.model}.{name}", "") for name in ("memory-mib", "vendor")
        }
        memory = Bytes(int(told["memory-mib"]) * MIB) if told["memory-mib"].isdecimal() else Bytes(0)
        unified = labels.get(f"{keys.PREFIX}{each.model}.unified-memory") == "true"
        vendor = row.vendor if row else told["vendor"]
        for number in range(each.count):
            found.append(
                DeviceState(
                    f"{each.model}-{number}",
                    each.model,
                    vendor,
                    memory,
                    healthy=number < each.usable,
                    unified=unified,
                    shareable=bool(row and row.shareable and memory),
                    precisions=_precisions(row),
                    offered=selector_devices.encode_catalog_device(row, each.model, vendor, memory),
                )
            )
    return found


def _feature_discovery_devices(
    where: str, labels: Mapping[str, str], has: Mapping[str, Any], catalog: Catalog
) -> Iterator[DeviceState]:
    """Yield what NVIDIA's feature discovery says."""
    product = labels.get(f"{_FEATURES}product", "")
    count = labels.get(f"{_FEATURES}count") or has.get("nvidia.com/gpu", 0)
    if not product:
        return
    row = _catalog_row(product.replace("-", " "), catalog)
    memory = amounts.mebibytes(f"{_FEATURES}memory", labels.get(f"{_FEATURES}memory", 0))
    for number in range(amounts.whole(f"{where}: {_FEATURES}count", count, 1024)):
        model = row.id if row else product.lower()
        seen = selector_devices.encode_catalog_device(row, model, "NVIDIA", memory)
        yield DeviceState(f"gpu-{number}", model, "NVIDIA", memory, precisions=_precisions(row), offered=seen)


def _gpushare_devices(where: str, has: Mapping[str, Any]) -> Iterator[DeviceState]:
    """Yield what gpushare's plugin says: memory in all, on GPUs that are taken to be alike."""
    count = amounts.whole(f"{where}.{keys.ALIYUN_COUNT}", has.get(keys.ALIYUN_COUNT, 0), 1024)
    total = amounts.whole(f"{where}.{keys.ALIYUN_MEM}", has.get(keys.ALIYUN_MEM, 0))
    for number in range(count):
        each = total // count
        unit = MIB if each > keys.ALIYUN_GIB_AT_MOST else MIB * 1024
        yield DeviceState(f"gpu-{number}", "", "NVIDIA", Bytes(each * unit))


def _plugin_devices(where: str, has: Mapping[str, Any]) -> Iterator[DeviceState]:
    """Yield what stock plugins count: accelerators of which nothing else is known, given whole."""
    for name, vendor in keys.WHOLE.items():
        for number in range(amounts.whole(f"{where}.{name}", has.get(name, 0), 1024)):
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
