"""Which devices of ResourceSlices match: a user's selector, the selectors of a class, or of a claim.

As in kube-scheduler, the selectors of a request are evaluated in order, its class's first; the first selector
that does not match, or fails, ends the evaluation. An error is never a match.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cel import CelDevice, CompiledSelector, CompileError, EvaluationError, compile_selector
from fairlead.errors import ManifestError
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.types import dra
from fairlead.manifest.types.dra import DeviceFacts, DeviceRequest, ResourceClaimSpec, SliceSpec
from fairlead.manifest.types.kinds import CLAIM, CLASS, SLICE, TEMPLATE

_WIDTH: Final = 96
"""Characters of an expression's line that an error message shows."""
_HINT: Final = "correct the expression; `fairlead docs devices` lists what it may use"


@dataclass(frozen=True, slots=True)
class SlicedDevice:
    """A device of a ResourceSlice, with its node, driver and pool."""

    node: str | None
    """None: the slice belongs to no single node."""
    driver: str
    pool: str
    name: str
    outdated: bool
    """A slice of its pool has a later generation, so that kube-scheduler ignores this one."""
    facts: DeviceFacts
    device: CelDevice


@dataclass(frozen=True, slots=True)
class Alternative:
    """Selectors that must all hold; `request` is the claim's request that they belong to, or empty."""

    request: str
    selectors: tuple[CompiledSelector, ...]


@dataclass(frozen=True, slots=True)
class SelectorMatch:
    """The result of selectors on one device."""

    matches: bool
    error: str | None = None
    requests: tuple[str, ...] = ()
    """The requests of a claim that the device satisfies."""


def sliced_devices(objects: FoundObjects) -> list[SlicedDevice]:
    """Return the devices of all slices, in the order of the slices and of the devices in each."""
    newest = dra.pool_generations(entry.body for entry in objects.all(SLICE))
    return [
        _sliced_device(f"{entry.where}: spec.devices[{at}]", entry.body.spec, device, newest)
        for entry in objects.all(SLICE)
        for at, device in enumerate(_check_driver(entry.where, entry.body.spec).devices)
    ]


def compile_at(where: str, expression: str) -> CompiledSelector:
    """Compile a selector; the error shows the place of the fault in the expression."""
    try:
        return compile_selector(expression)
    except CompileError as error:
        raise ManifestError(
            f"{where}: {error}\n{_show_fault(expression, error.line, error.column)}", _HINT
        ) from None


def class_selectors(objects: FoundObjects, name: str, where: str = "--class") -> tuple[CompiledSelector, ...]:
    """Return the selectors of a DeviceClass."""
    device_class = objects.get(CLASS, "", name)
    if device_class is None:
        raise ManifestError(f"{where}: no DeviceClass {name!r}", objects.near(CLASS, "", name))
    return tuple(
        compile_at(f"DeviceClass {name}: spec.selectors[{at}]", selector.cel.expression)
        for at, selector in enumerate(device_class.spec.selectors)
    )


def claim_alternatives(objects: FoundObjects, namespace: str, name: str) -> tuple[Alternative, ...]:
    """Return the requests of a ResourceClaim, or of a ResourceClaimTemplate of that name."""
    for kind in (CLAIM, TEMPLATE):
        claim = objects.get(kind, namespace, name)
        if claim is not None:
            spec: ResourceClaimSpec = claim.spec if kind == CLAIM else claim.spec.spec
            return tuple(_requests(f"{kind} {namespace}/{name}", spec, objects))
    raise ManifestError(
        f"--claim: neither a ResourceClaim nor a ResourceClaimTemplate {namespace}/{name}",
        _suggest(objects, namespace, name),
    )


def match_device(alternatives: Sequence[Alternative], device: CelDevice) -> SelectorMatch:
    """Return whether a device satisfies one of the alternatives, and the first evaluation error."""
    matching: list[str] = []
    errors: list[str] = []
    for alternative in alternatives:
        try:
            if all(selector.matches(device) for selector in alternative.selectors):
                matching.append(alternative.request)
        except EvaluationError as error:
            errors.append(f"request {alternative.request}: {error}" if len(alternatives) > 1 else str(error))
    return SelectorMatch(bool(matching), errors[0] if errors else None, tuple(filter(None, matching)))


def _check_driver(where: str, spec: SliceSpec) -> SliceSpec:
    if not spec.driver:
        raise ManifestError(f"{where}: spec.driver: missing", "name the driver that offers the devices")
    return spec


def _sliced_device(
    where: str, spec: SliceSpec, device: dra.Device, newest: Mapping[tuple[str, str], int]
) -> SlicedDevice:
    if not device.name:
        raise ManifestError(f"{where}.name: missing", "give the device a name")
    facts, pool = device.facts, spec.pool
    body = {
        "attributes": facts.attributes,
        "capacity": facts.capacity,
        "allowMultipleAllocations": facts.allow_multiple_allocations,
    }
    return SlicedDevice(
        node=spec.node_name or facts.node_name or None,
        driver=spec.driver,
        pool=pool.name,
        name=device.name,
        outdated=pool.generation < newest[spec.driver, pool.name],
        facts=facts,
        device=CelDevice.of(spec.driver, body),
    )


def _requests(where: str, spec: ResourceClaimSpec, objects: FoundObjects) -> Iterator[Alternative]:
    for at, request in enumerate(spec.devices.requests):
        for name, field, device_request in request.alternatives():
            yield _alternative(f"{where}: spec.devices.requests[{at}]{field}", name, device_request, objects)


def _alternative(where: str, name: str, device_request: DeviceRequest, objects: FoundObjects) -> Alternative:
    if not device_request.device_class_name:
        raise ManifestError(f"{where}.deviceClassName: missing", "name a DeviceClass")
    own = [
        compile_at(f"{where}.selectors[{at}]", selector.cel.expression)
        for at, selector in enumerate(device_request.selectors)
    ]
    return Alternative(
        name, (*class_selectors(objects, device_request.device_class_name, f"{where}.deviceClassName"), *own)
    )


def _suggest(objects: FoundObjects, namespace: str, name: str) -> str:
    namespaces = [
        entry.body.metadata.namespace
        for kind in (CLAIM, TEMPLATE)
        for entry in objects.all(kind)
        if entry.body.metadata.name == name
    ]
    if namespaces:
        return f"there is one in the namespace {namespaces[0]}: add -n {namespaces[0]}"
    hints = [objects.near(kind, namespace, name) for kind in (CLAIM, TEMPLATE)]
    return next((hint for hint in hints if not hint.startswith("add the")), "name one that exists")


def _show_fault(expression: str, line: int, column: int) -> str:
    """Return the line of a fault with a mark below its place; of a long line, the part around the fault."""
    lines = expression.splitlines() or [""]
    text = lines[line - 1] if 1 <= line <= len(lines) else ""
    start = max(0, column - 1 - _WIDTH // 2) if len(text) > _WIDTH else 0
    shown = "".join(char if char.isprintable() else " " for char in text[start : start + _WIDTH])
    return f"    {shown}\n    {' ' * (column - 1 - start)}^"


def format_device(facts: DeviceFacts) -> tuple[str, str]:
    """Return the attributes and the capacities of a device for people: `kind=gpu, model=a100`."""
    return _join(facts.attributes.items()), _join(facts.capacity.items())


def _join(items: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={_value(entry)}" for name, entry in items) or "-"


def _value(entry: Any) -> str:
    """Return the value of an attribute or a capacity, which is a mapping from its type to the value."""
    if isinstance(entry, Mapping):
        entry = entry.get("value", next(iter(entry.values()), ""))
    if isinstance(entry, bool):
        return str(entry).lower()
    return f"[{' '.join(map(_value, entry))}]" if isinstance(entry, list | tuple) else str(entry)
