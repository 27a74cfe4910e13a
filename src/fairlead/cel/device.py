"""A device as selectors see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fairlead.cel.quantity import Quantity
from fairlead.cel.semver import Version
from fairlead.cel.values import Map, domains

Scalar = str | int | bool | Version
Attribute = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True)
class Device:
    """One device of a ResourceSlice: its driver, and what it says of itself, by domain and name."""

    driver: str
    attributes: Mapping[str, Mapping[str, Attribute]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)
    allow_multiple: bool = False
    fault: str = ""
    """What of it cannot be read: then every selector fails on it, as in Kubernetes."""

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
    def of(cls, driver: str, device: Mapping[str, Any]) -> "Device":
        """Read one entry of `spec.devices` of a ResourceSlice; names without a domain are the driver's."""
        attributes: dict[str, dict[str, Attribute]] = {}
        capacity: dict[str, dict[str, Quantity]] = {}
        faults: list[str] = []
        for name, entry in (device.get("attributes") or {}).items():
            domain, plain = _split(name, driver)
            try:
                attributes.setdefault(domain, {})[plain] = _attribute(entry)
            except ValueError as error:
                faults.append(f"attribute {name}: {error}")
        for name, entry in (device.get("capacity") or {}).items():
            domain, plain = _split(name, driver)
            try:
                capacity.setdefault(domain, {})[plain] = _capacity(entry)
            except ValueError as error:
                faults.append(f"capacity {name}: {error}")
        multiple = device.get("allowMultipleAllocations") is True
        return cls(driver, attributes, capacity, multiple, "; ".join(faults))


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, plain = name.partition("/")
    return (domain, plain) if slash else (driver, name)


_KINDS: Mapping[str, type] = {"int": int, "bool": bool, "string": str, "version": str}


def _attribute(entry: object) -> Attribute:
    """Return a value; lists come first, as in Kubernetes."""
    given = entry if isinstance(entry, Mapping) else {}
    for kind in _KINDS:
        listed = given.get(f"{kind}s")
        if listed is not None:
            if not isinstance(listed, list | tuple):
                raise ValueError("unsupported attribute value")
            return tuple(_scalar(kind, value) for value in listed)
    for kind in _KINDS:
        value = given.get(kind)
        if value is not None:
            return _scalar(kind, value)
    raise ValueError("unsupported attribute value")


def _scalar(kind: str, value: object) -> Scalar:
    if type(value) is not _KINDS[kind] or (type(value) is int and not -(2**63) <= value < 2**63):
        raise ValueError(f"{value!r} is no {kind}")
    if kind == "version":
        try:
            return Version.parse(str(value))
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
