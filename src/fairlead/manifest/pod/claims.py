"""The accelerators that the claims of a pod (DRA) request."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fairlead.cluster.objects import PodResourceClaim
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.node import selector_devices
from fairlead.manifest.pod.claim_names import claims_named
from fairlead.manifest.types import kubernetes
from fairlead.manifest.types.dra import ClaimRequest, DeviceRequest, ResourceClaim, ResourceClaimSpec
from fairlead.offer import DRIVER
from fairlead.request import WHOLE, Demand
from fairlead.units import Bytes

_VENDOR_OF: Final = {"gpu.nvidia.com": "NVIDIA", "gpu.amd.com": "AMD", "gpu.intel.com": "Intel"}
"""Vendors' drivers, each with a device class of the same name."""
_KINDS: Final = ("dsp", "fpga", "gpu", "npu", "tpu", "vpu")
_LONGEST: Final = 200
"""The most characters of an expression in a message."""


def demand(where: str, pod: kubernetes.Pod, objects: FoundObjects) -> Demand:
    """Return the total demand of the claims; a Demand of no accelerators where the pod has no claims."""
    specs = [
        (place := f"{where}: spec.resourceClaims[{at}]", _spec(place, pod, named, objects))
        for at, named in enumerate(pod.spec.resource_claims)
    ]
    demands = [
        _request(f"{place}: devices.requests[{at}]", request, objects)
        for place, spec in specs
        for at, request in enumerate(spec.devices.requests)
    ]
    if not demands:
        return Demand()
    first, *others = demands
    if any(replace(other, count=first.count) != first for other in others):
        raise ManifestError(
            f"{where}: its claims request accelerators of different sizes or models",
            "use one pod for each of them",
        )
    return replace(first, count=sum(demand.count for demand in demands))


def _plain(name: str) -> str:
    return name.rpartition("/")[2]


def _spec(
    where: str, pod: kubernetes.Pod, named: PodResourceClaim, objects: FoundObjects
) -> ResourceClaimSpec:
    """Return the spec of a claim: of the claim itself where it exists, else of its template."""
    namespace = pod.metadata.namespace
    claim: ResourceClaim | None = objects.get("ResourceClaim", *claims_named(pod).get(named.name, ("", "")))
    if claim is not None:
        return claim.spec  # its template may have changed since
    kind = "ResourceClaim" if named.resource_claim_name else "ResourceClaimTemplate"
    name = named.resource_claim_name or named.resource_claim_template_name
    object_ = objects.get(kind, namespace, name)
    if object_ is None:
        raise ManifestError(f"{where}: no {kind} {namespace}/{name}", objects.near(kind, namespace, name))
    spec: ResourceClaimSpec = object_.spec if kind == "ResourceClaim" else object_.spec.spec
    return spec


def _request(where: str, request: ClaimRequest, objects: FoundObjects) -> Demand:
    if not (request.exactly or request.first_available or request.device_class_name):
        raise ManifestError(f"{where}: neither exactly nor firstAvailable", "write exactly or firstAvailable")
    demands = [
        _exactly(f"{where}{field}", alternative, objects) for _, field, alternative in request.alternatives()
    ]
    first = demands[0]
    # Alternatives that differ in selectors alone become one demand for any of them; else the first counts.
    similar = [demand for demand in demands if replace(demand, selectors=first.selectors) == first]
    if len(similar) > 1 and all(demand.selectors for demand in similar):
        return replace(first, selectors=(_selector(where, _any_of(similar)),))
    return first


def _any_of(demands: Iterable[Demand]) -> str:
    """Return one selector that matches where all selectors of at least one demand match."""
    # A line break before each bracket: a selector may end in a comment.
    conditions = (" && ".join(f"({text}\n)" for text in demand.selectors) for demand in demands)
    return " || ".join(f"({text})" for text in conditions)


def _exactly(where: str, request: DeviceRequest, objects: FoundObjects) -> Demand:
    if request.allocation_mode not in ("", "ExactCount"):
        raise ManifestError(f"{where}.allocationMode: {request.allocation_mode!r}", "write ExactCount")
    if not 1 <= request.count <= 32:
        raise ManifestError(f"{where}.count: {request.count}", "a claim may have 1 to 32 devices")
    expressions = [
        *_class(where, request.device_class_name, objects),
        *(
            (f"{where}.selectors[{at}].cel.expression", selector.cel.expression)
            for at, selector in enumerate(request.selectors)
        ),
    ]
    demand = Demand(request.count, *_capacity(f"{where}.capacity.requests", request))
    vendor = _VENDOR_OF.get(request.device_class_name)
    if vendor and objects.get("DeviceClass", "", request.device_class_name) is None:
        demand = replace(demand, vendors=(vendor,))
    return replace(demand, selectors=tuple(_selector(*expression) for expression in expressions))


def _selector(where: str, text: str) -> str:
    """Return a selector that compiles and names no attribute that differs from device to device."""
    # Pods without claims never get here, and need not import the evaluator.
    from fairlead.cel import CompileError, compile_selector  # noqa: PLC0415

    try:
        compile_selector(text)
    except CompileError as error:
        raise ManifestError(f"{where}: {error}", f"the expression: {text[:_LONGEST]}") from None
    if name := selector_devices.per_device_attribute(text):
        raise ManifestError(
            f"{where}: a condition on {name!r}, which differs from device to device",
            "select by what devices of a kind have in common: model, vendor, capacity",
        )
    return text


def _class(where: str, name: str, objects: FoundObjects) -> list[tuple[str, str]]:
    """Return the selectors of a class with their places; the files may lack our chart's classes."""
    if not name:
        raise ManifestError(f"{where}.deviceClassName: missing", f"write deviceClassName: {DRIVER}")
    device_class = objects.get("DeviceClass", "", name)
    if device_class is not None:
        return [
            (f"DeviceClass {name}: spec.selectors[{at}].cel.expression", selector.cel.expression)
            for at, selector in enumerate(device_class.spec.selectors)
        ]
    kind, _, rest = name.partition(".")
    if kind in _KINDS and rest == DRIVER:
        ours = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == "{kind}"'
        return [(where, ours)]
    if name in (DRIVER, *_VENDOR_OF):
        return []
    raise ManifestError(
        f"{where}.deviceClassName: no DeviceClass {name!r}", objects.near("DeviceClass", "", name)
    )


def _capacity(where: str, request: DeviceRequest) -> tuple[Bytes | None, int | None]:
    """Return memory and compute; a claim without capacity requests the whole device."""
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
