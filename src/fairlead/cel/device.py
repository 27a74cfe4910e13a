"""A device as selectors see it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from fairlead.cel.evaluate.values import Map, domains
from fairlead.cel.functions.semver import SemanticVersion
from fairlead.units import Quantity

Scalar = str | int | bool | SemanticVersion
Attribute = Scalar | tuple[Scalar, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class CelDevice:
    """One device of a ResourceSlice: its driver, attributes and capacity, by domain and name."""

    driver: str
    attributes: Mapping[str, Mapping[str, Attribute]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)
    allow_multiple: bool = False
    fault: str = ""
    """The part that cannot be read: then every selector fails on the device, as in Kubernetes."""

    @cached_property
    def value(self) -> Map:
        """The device as expressions see it."""
        return Map(
            (
                ("driver", self.driver),
                ("allowMultipleAllocations", self.allow_multiple),
                ("attributes", domains(self.attributes)),
                ("capacity", domains(self.capacity)),
            )
        )

    @classmethod
    def of(cls, driver: str, device: Mapping[str, Any]) -> "CelDevice":
        """Read one entry of `spec.devices` of a ResourceSlice; names without a domain get the driver's."""
        faults: list[str] = []
        attributes = _by_domain(device.get("attributes"), driver, _attribute, "attribute", faults)
        capacity = _by_domain(device.get("capacity"), driver, _capacity, "capacity", faults)
        multiple = device.get("allowMultipleAllocations") is True
        return cls(driver, attributes, capacity, multiple, "; ".join(faults))


def _by_domain(
    entries: Mapping[str, object] | None,
    driver: str,
    read: Callable[[object], T],
    what: str,
    faults: list[str],
) -> dict[str, dict[str, T]]:
    by_domain: dict[str, dict[str, T]] = {}
    for name, entry in (entries or {}).items():
        domain, slash, plain = name.partition("/")
        try:
            by_domain.setdefault(domain if slash else driver, {})[plain if slash else name] = read(entry)
        except ValueError as error:
            faults.append(f"{what} {name}: {error}")
    return by_domain


_KINDS: Mapping[str, type] = {"int": int, "bool": bool, "string": str, "version": str}


def _attribute(entry: object) -> Attribute:
    """Return the value of an attribute; lists come first, as in Kubernetes."""
    values = entry if isinstance(entry, Mapping) else {}
    for kind in _KINDS:
        listed = values.get(f"{kind}s")
        if listed is not None:
            if not isinstance(listed, list | tuple):
                raise ValueError("unsupported attribute value")
            return tuple(_scalar(kind, value) for value in listed)
    for kind in _KINDS:
        value = values.get(kind)
        if value is not None:
            return _scalar(kind, value)
    raise ValueError("unsupported attribute value")


def _scalar(kind: str, value: object) -> Scalar:
    if type(value) is not _KINDS[kind] or (type(value) is int and not -(2**63) <= value < 2**63):
        raise ValueError(f"{value!r} is not of type {kind}")
    if kind == "version":
        try:
            return SemanticVersion.parse(str(value))
        except ValueError as error:
            raise ValueError(f"parse semantic version: {error}") from None
    assert isinstance(value, str | int)
    return value


def _capacity(entry: object) -> Quantity:
    value = entry.get("value") if isinstance(entry, Mapping) else entry
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        raise ValueError("no value")
    return Quantity.parse(value.strip())
