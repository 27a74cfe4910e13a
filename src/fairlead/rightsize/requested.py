"""What workloads request of accelerators: read from the objects of a cluster, or from a snapshot."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.catalog import Catalog
from fairlead.cluster.meta import replace as changed
from fairlead.errors import ManifestError
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.pod.demand import MEMORY_KEYS, is_accelerator
from fairlead.manifest.pod.request import ReadContext, memory_by_model, read_request
from fairlead.manifest.types.kubernetes import Container
from fairlead.manifest.types.live import LivePod
from fairlead.placement import DeviceState, Placement
from fairlead.request import Request
from fairlead.rightsize.crashes import Crashes
from fairlead.rightsize.workload import (
    RequestForm,
    SizedContainer,
    SizeField,
    WorkloadKey,
    owner_by_labels,
    owner_of,
)
from fairlead.units import Bytes

NO_CRASHES: Final[Crashes] = {}
NO_CRON_JOBS: Final[Mapping[tuple[str, str], str]] = {}


@dataclass(frozen=True, slots=True)
class PodOwners:
    """What the API server knows of pods beside their requests."""

    cron_jobs: Mapping[tuple[str, str], str] = field(default_factory=lambda: NO_CRON_JOBS)
    """The CronJob of each job, by namespace and name."""
    crashes: Crashes = field(default_factory=lambda: NO_CRASHES)


def of_objects(
    objects: FoundObjects, snapshot: Snapshot, catalog: Catalog, owners: PodOwners
) -> list[SizedContainer]:
    """Return the containers of all pods that request accelerators; `snapshot` is of the same cluster."""
    context = ReadContext(catalog, objects, memory_by_model(snapshot.nodes))
    devices = _devices_by_pod(snapshot)
    pods = sorted(objects.all("Pod"), key=_age_order)
    return _grouped(
        each
        for entry in pods
        for each in _containers(entry.where, entry.body, context, devices.get(_identity(entry.body)), owners)
    )


def of_snapshot(snapshot: Snapshot) -> list[SizedContainer]:
    """Return the pods of a snapshot that request accelerators; it knows neither containers nor owners."""
    devices = _devices_by_pod(snapshot)
    placed = [_placed(placement, devices.get(placement.request.id)) for placement in snapshot.placements]
    return _grouped(each for each in placed if each is not None)


def _age_order(entry: object) -> tuple[bool, str]:
    pod: LivePod = entry.body  # type: ignore[attr-defined]
    return not pod.ended, pod.metadata.creation_timestamp


def _identity(pod: LivePod) -> str:
    return pod.metadata.uid or "/".join(pod.key)


def _devices_by_pod(snapshot: Snapshot) -> dict[str, DeviceState]:
    """Return the first accelerator of each pod; without a known share, one like all others."""
    nodes = {node.name: node for node in snapshot.nodes}
    found: dict[str, DeviceState] = {}
    for placement in snapshot.placements:
        devices = {device.id: device for device in nodes[placement.node].devices}
        held = [devices[share.device] for share in placement.shares[:1] if share.device in devices]
        alike = len({(device.model, device.memory) for device in devices.values()}) == 1
        if held or alike:
            found[placement.request.id] = held[0] if held else next(iter(devices.values()))
    return found


def _containers(
    where: str, pod: LivePod, context: ReadContext, device: DeviceState | None, owners: PodOwners
) -> Iterator[SizedContainer]:
    workload = owner_of(pod.metadata, owners.cron_jobs)
    crashes = owners.crashes.get(pod.key, {})
    with_sizes = [each for each in pod.spec.containers if _size_field(each)]
    parts: list[Container | None] = [*with_sizes] or [None]
    for part in parts:
        name = part.name if part else ""
        alone = _only(pod, part) if len(with_sizes) > 1 and part else pod
        base = SizedContainer(
            workload,
            name,
            _field(pod, part),
            None,
            () if pod.ended else (pod.metadata.name,),
            (pod.metadata.uid,) if pod.metadata.uid else (),
            device_memory=device.memory or None if device else None,
            crashes=crashes.get(name, 0) if part else sum(crashes.values()),
        )
        try:
            request = read_request(where, alone, context)
        except ManifestError as error:
            if part or any(map(is_accelerator, _resources(pod))):
                yield replace(base, note=f"its request cannot be read: {error}")
            continue
        if request.demand.count:
            yield _with_request(base, request, device)


def _only(pod: LivePod, container: Container) -> LivePod:
    return changed(pod, spec=changed(pod.spec, containers=(container,), init_containers=()))


def _resources(pod: LivePod) -> Iterable[str]:
    for container in pod.spec.containers:
        yield from (*container.resources.requests, *container.resources.limits)


def _size_field(container: Container) -> SizeField | None:
    """Return the resource of a container that states a size; an accelerator's number is no size."""
    amounts = {**container.resources.requests, **container.resources.limits}
    key = next((key for key in MEMORY_KEYS if key in amounts), None)
    return SizeField(RequestForm.RESOURCE, key, str(amounts[key])) if key else None


def _field(pod: LivePod, container: Container | None) -> SizeField:
    if container is not None and (by_resource := _size_field(container)):
        return by_resource
    annotations = pod.metadata.annotations
    key = next((key for key in MEMORY_KEYS if annotations.get(key, "").strip()), None)
    if key:
        return SizeField(RequestForm.ANNOTATION, key, annotations[key].strip())
    return SizeField(RequestForm.CLAIM if pod.spec.resource_claims else RequestForm.WHOLE)


def _with_request(base: SizedContainer, request: Request, device: DeviceState | None) -> SizedContainer:
    """Return a container with its request in bytes: a fraction and a whole accelerator by the device."""
    demand = request.demand
    sized = replace(base, accelerators=demand.count, requested=demand.memory)
    if demand.memory is not None:
        return sized
    model = device.model if device else ""
    memory = request.estimates[model].memory if model in request.estimates else None
    if memory is not None:
        return replace(sized, requested=memory)
    if request.whole and device is not None and device.memory:
        return replace(sized, requested=device.memory, field=SizeField(RequestForm.WHOLE))
    if demand.compute is not None:
        return replace(sized, note="it requests compute and no memory")
    return replace(sized, note="the memory of its accelerator is not known")


def _placed(placement: Placement, device: DeviceState | None) -> SizedContainer | None:
    request = placement.request
    if not placement.shares or not request.demand.count:
        return None
    share = placement.shares[0]
    whole = share.whole or request.demand.memory is None
    sized = SizedContainer(
        owner_by_labels(request.namespace, request.name, request.labels),
        "",
        SizeField(RequestForm.WHOLE if share.whole else RequestForm.RESOURCE),
        request.demand.memory,
        (request.name,),
        (request.uid,) if request.uid else (),
        len(placement.shares),
        device.memory or None if device else None,
    )
    if not whole:
        return sized
    memory = share.memory or (device.memory if device and share.whole else 0)
    return replace(sized, requested=Bytes(memory)) if memory else replace(sized, note="its size is not known")


def _grouped(containers: Iterable[SizedContainer]) -> list[SizedContainer]:
    """Return one entry for each container of a workload: the request of its newest pod, and all pods."""
    groups: dict[tuple[WorkloadKey, str], list[SizedContainer]] = {}
    for each in containers:
        groups.setdefault((each.workload, each.container), []).append(each)
    return [
        replace(
            group[-1],
            pods=tuple(name for each in group for name in each.pods),
            uids=tuple(uid for each in group for uid in each.uids),
            crashes=sum(each.crashes for each in group),
        )
        for group in groups.values()
    ]
