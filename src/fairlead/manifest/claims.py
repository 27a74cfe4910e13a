"""What the claims of a pod (DRA) ask of accelerators."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from fairlead.catalog import Catalog
from fairlead.cluster.objects import PodResourceClaim
from fairlead.errors import ManifestError
from fairlead.manifest import amounts, cel, seen, shapes, wanted
from fairlead.manifest.collect import Objects
from fairlead.manifest.deviceshapes import ClaimRequest, ClaimSpec, DeviceRequest
from fairlead.offer import DRIVER
from fairlead.request import WHOLE, Demand
from fairlead.units import Bytes

_VENDOR_OF: Final = {"gpu.nvidia.com": "NVIDIA", "gpu.amd.com": "AMD", "gpu.intel.com": "Intel"}
"""Drivers, and device classes of the same name, of vendors that have one."""
_KINDS: Final = ("dsp", "fpga", "gpu", "npu", "tpu", "vpu")
Key = tuple[str, str]
"""A claim's namespace and name."""


@dataclass(frozen=True, slots=True)
class Around:
    """What claims are read against."""

    objects: Objects
    catalog: Catalog
    models: tuple[str, ...] = ()
    """Of the accelerators in the cluster."""


def demand(where: str, pod: shapes.Pod, around: Around) -> Demand:
    """Return what the claims ask for together; a Demand of no accelerators where there are none."""
    found = [
        each
        for at, named in enumerate(pod.spec.resource_claims)
        for each in _asked(f"{where}: spec.resourceClaims[{at}]", pod.metadata.namespace, named, around)
    ]
    if not found:
        return Demand()
    first, *others = found
    if any(replace(each, count=first.count) != first for each in others):
        raise ManifestError(
            f"{where}: its claims ask for accelerators of different sizes or models",
            "use a pod for each of them",
        )
    return replace(first, count=sum(each.count for each in found))


def named(pod: seen.Pod) -> list[Key]:
    """Return the claims that a pod uses, as it and its status name them."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    found = [each.resource_claim_name or made.get(each.name, "") for each in pod.spec.resource_claims]
    own = pod.status.extended_resource_claim_status.resource_claim_name
    return [(pod.metadata.namespace, name) for name in (*found, own) if name]


def _plain(name: str) -> str:
    return name.rpartition("/")[2]


def _asked(where: str, namespace: str, named: PodResourceClaim, around: Around) -> Iterator[Demand]:
    spec = _spec(where, namespace, named, around.objects)
    for at, request in enumerate(spec.devices.requests):
        yield _request(f"{where}: devices.requests[{at}]", request, around)


def _spec(where: str, namespace: str, named: PodResourceClaim, objects: Objects) -> ClaimSpec:
    kind = "ResourceClaim" if named.resource_claim_name else "ResourceClaimTemplate"
    name = named.resource_claim_name or named.resource_claim_template_name
    found = objects.get(kind, namespace, name)
    if found is None:
        raise ManifestError(f"{where}: no {kind} {namespace}/{name}", objects.near(kind, namespace, name))
    spec: ClaimSpec = found.spec if kind == "ResourceClaim" else found.spec.spec
    return spec


def _request(where: str, request: ClaimRequest, around: Around) -> Demand:
    if request.exactly is not None:
        return _exactly(f"{where}.exactly", request.exactly, around)
    found = [
        _exactly(f"{where}.firstAvailable[{at}]", each, around)
        for at, each in enumerate(request.first_available)
    ]
    if not found:
        raise ManifestError(f"{where}: neither exactly nor firstAvailable", "say what is wanted")
    first = found[0]
    # Alternatives that differ in model alone are one demand for any of them; otherwise the first one counts.
    alike = [each for each in found if replace(each, models=first.models, vendors=first.vendors) == first]
    if all(each.models for each in alike):
        return replace(first, models=tuple(dict.fromkeys(name for each in alike for name in each.models)))
    return first


def _exactly(where: str, request: DeviceRequest, around: Around) -> Demand:
    if request.allocation_mode not in ("", "ExactCount"):
        raise ManifestError(f"{where}.allocationMode: {request.allocation_mode!r}", "write ExactCount")
    if not 1 <= request.count <= 32:
        raise ManifestError(f"{where}.count: {request.count}", "a claim may have 1 to 32 devices")
    expressions = [
        *_class(where, request.device_class_name, around.objects),
        *(each.cel.expression for each in request.selectors),
    ]
    found = Demand(request.count, *_capacity(f"{where}.capacity.requests", request))
    vendor = _VENDOR_OF.get(request.device_class_name)
    found = replace(found, vendors=(vendor,)) if vendor else found
    for at, expression in enumerate(expressions):
        place = f"{where}.selectors[{at}]"
        found = _narrowed(place, found, cel.parse(place, expression), around)
    return found


def _class(where: str, name: str, objects: Objects) -> list[str]:
    """Return the conditions of a class; those that our chart brings need not be in the files."""
    if not name:
        raise ManifestError(f"{where}.deviceClassName: it has none", f"write deviceClassName: {DRIVER}")
    found = objects.get("DeviceClass", "", name)
    if found is not None:
        return [each.cel.expression for each in found.spec.selectors]
    kind, _, rest = name.partition(".")
    if kind in _KINDS and rest == DRIVER:
        return [f'device.attributes["{DRIVER}"].kind == "{kind}"']
    if name in (DRIVER, *_VENDOR_OF):
        return []
    raise ManifestError(
        f"{where}.deviceClassName: no DeviceClass {name!r}", objects.near("DeviceClass", "", name)
    )


def _capacity(where: str, request: DeviceRequest) -> tuple[Bytes | None, int | None]:
    """Return memory and compute; a claim without capacity wants the whole device."""
    memory = compute = None
    for name, value in request.capacity.requests.items():
        match _plain(name):
            case "memory":
                memory = amounts.quantity(f"{where}[{name}]", value)
            case "compute":
                compute = amounts.whole(f"{where}[{name}]", value, WHOLE)
            case other:
                raise ManifestError(f"{where}[{name}]: no capacity {other!r}", "known: memory, compute")
    return memory, compute


def _narrowed(where: str, found: Demand, asked: cel.Wanted, around: Around) -> Demand:
    for name, values in asked.attributes:
        if name == "model":
            found = _of_models(where, found, wanted.models(where, values, around.catalog))
        elif name == "vendor":
            found = replace(found, vendors=wanted.vendors(where, values, around.catalog))
        elif name == "kind":
            found = _of_kinds(found, values, around)
        else:
            raise ManifestError(f"{where}: a condition on {name!r}", "known: kind, model, vendor")
    vendors = tuple(_VENDOR_OF[each] for each in asked.drivers if each in _VENDOR_OF)
    return replace(found, vendors=vendors) if vendors else found


def _of_models(where: str, found: Demand, names: tuple[str, ...]) -> Demand:
    """Return a demand for models that all conditions allow."""
    left = tuple(name for name in names if not found.models or name in found.models)
    if not left:
        raise ManifestError(f"{where}: no model fits all conditions", f"others say {', '.join(found.models)}")
    return replace(found, models=left)


def _of_kinds(found: Demand, kinds: tuple[str, ...], around: Around) -> Demand:
    """Return a demand that rules out what the cluster has of other kinds: the catalog has hundreds."""
    rows = around.catalog.devices
    others = tuple(name for name in around.models if name in rows and rows[name].kind not in kinds)
    return replace(found, excluded=tuple(dict.fromkeys((*found.excluded, *others))))
