"""A fleet file: the simulated nodes of a lab, in groups, with devices from the catalog.

    [[group]]
    name = "nano"                     # nodes nano-0, nano-1, nano-2
    count = 3
    devices = ["jetson-nano"]         # catalog ids; a table {id = count} says how many of each
    cpu = 4
    memory = "4GiB"
    arch = "aarch64"                  # as `uname -m` prints it; default: x86_64
    board = "NVIDIA Jetson Nano Developer Kit"
    labels = { "example.com/room" = "attic" }
    resources = { "nvidia.com/gpu" = 1 }

TOML, or YAML with the same keys. `fairlead docs fleet` has every key.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.compat import toml
from fairlead.errors import CatalogError, FleetError
from fairlead.units import Bytes, parse_bytes
from fairlead.yamltext import BadYamlError, parse_documents

MOST_NODES: Final = 20_000
MOST_DEVICES: Final = 64
"""Per node; the largest machines on sale have 16 accelerators."""
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "riscv64": "riscv64"}
"""The kernel's name of an architecture, and Kubernetes' name of it."""
_SIZE_LIMIT: Final = 1 << 20
_KEYS: Final = (
    "name",
    "count",
    "devices",
    "cpu",
    "memory",
    "arch",
    "board",
    "pods",
    "labels",
    "resources",
)
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """Devices of one model in a node."""

    device: CatalogDevice
    count: int
    memory: Bytes | None = None
    """Set if it differs from the catalog's, or the model comes with several sizes."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of equal nodes."""

    name: str
    count: int = 1
    devices: tuple[FleetDevice, ...] = ()
    cpu: int = 8
    memory: Bytes = field(default=parse_bytes("32GiB"))
    arch: str = "x86_64"
    board: str = ""
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)
    """Extended resources beside those of the devices."""

    def node_names(self) -> list[str]:
        """Return the names of the nodes."""
        return [f"{self.name}-{index}" for index in range(self.count)]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All groups of a fleet."""

    groups: tuple[NodeGroup, ...]

    @property
    def size(self) -> int:
        """The number of nodes."""
        return sum(group.count for group in self.groups)


def plain_fleet(count: int) -> Fleet:
    """Return a fleet of nodes without accelerators."""
    return Fleet((NodeGroup("node", count),)) if count else Fleet(())


def load_fleet(path: str, catalog: Catalog) -> Fleet:
    """Read a fleet file."""
    document = _document(path)
    if not isinstance(document, dict) or not isinstance(document.get("group"), list):
        raise FleetError(
            f"{path}: no groups", hint="a fleet is a list of [[group]] tables; see: fairlead docs fleet"
        )
    _check_keys(path, document, ("group",))
    groups = tuple(
        _group(f"{path}: group {index}", table, catalog) for index, table in enumerate(document["group"], 1)
    )
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise FleetError(
                f"{path}: two groups are called {name!r}", hint="their nodes would have the same names"
            )
    fleet = Fleet(groups)
    if fleet.size > MOST_NODES:
        raise FleetError(f"{path}: {fleet.size} nodes", hint=f"at most {MOST_NODES} fit on one machine")
    return fleet


def _document(path: str) -> Any:
    try:
        if os.path.isfile(path) and os.path.getsize(path) > _SIZE_LIMIT:
            raise FleetError(
                f"{path}: larger than 1 MiB", hint="a group has a count: equal nodes need one group"
            )
        with open(path, "rb") as stream:
            text = stream.read(_SIZE_LIMIT + 1).decode()
        return _yaml(path, text) if path.endswith((".yaml", ".yml")) else toml.loads(text)
    except OSError as error:
        raise FleetError(
            f"{path}: {error.strerror}",
            hint="name a readable fleet file; this prints an example: fairlead examples fleet.toml",
        ) from None
    except (toml.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FleetError(f"{path}: not TOML: {error}", hint="a YAML fleet must be called *.yaml") from None


def _yaml(path: str, text: str) -> Any:
    try:
        parsed = [*parse_documents(text.encode())]
    except BadYamlError as error:
        raise FleetError(f"{path}: not YAML: {error}") from None
    if len(parsed) > 1:
        raise FleetError(f"{path}: {len(parsed)} documents", hint="put all groups into one")
    return parsed[0] if parsed else None


def _check_keys(where: str, table: Mapping[Any, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            near = get_close_matches(str(key), keys, 1, 0.5)
            raise FleetError(
                f"{where}: unknown key {key!r}",
                hint=f"did you mean {near[0]}?" if near else f"known: {', '.join(keys)}",
            )


def _group(where: str, table: Any, catalog: Catalog) -> NodeGroup:
    if not isinstance(table, dict):
        raise FleetError(f"{where}: not a table", hint="see: fairlead docs fleet")
    _check_keys(where, table, _KEYS)
    name = table.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise FleetError(
            f"{where}: name: {name!r} cannot begin a node's name",
            hint="use up to 50 lowercase letters, digits and dashes",
        )
    where = f"{where} ({name})"
    arch = table.get("arch", "x86_64")
    if arch not in ARCHITECTURES:
        raise FleetError(f"{where}: arch: unknown {arch!r}", hint=f"known: {', '.join(ARCHITECTURES)}")
    board = table.get("board", "")
    if not isinstance(board, str):
        raise FleetError(f"{where}: board: {board!r} is not text")
    return NodeGroup(
        name=name,
        count=_integer(where, "count", table.get("count", 1), MOST_NODES),
        devices=_devices(where, table.get("devices", {}), catalog),
        cpu=_integer(where, "cpu", table.get("cpu", 8), 4096),
        memory=_memory(where, "memory", table.get("memory", "32GiB")),
        arch=arch,
        board=board,
        pods=_integer(where, "pods", table.get("pods", 110), 10_000),
        labels=_labels(where, table.get("labels", {})),
        resources=_resources(where, table.get("resources", {})),
    )


def _devices(where: str, devices: Any, catalog: Catalog) -> tuple[FleetDevice, ...]:
    """Parse devices: a list of ids, or a table from id to a count or to a count and a memory."""
    if isinstance(devices, list) and all(isinstance(name, str) for name in devices):
        devices = {name: devices.count(name) for name in devices}
    if not isinstance(devices, dict):
        raise FleetError(
            f"{where}: devices: neither a list of ids nor a table", hint='write devices = ["jetson-nano"]'
        )
    parsed = tuple(_device(f"{where}: devices", name, value, catalog) for name, value in devices.items())
    if sum(device.count for device in parsed) > MOST_DEVICES:
        raise FleetError(f"{where}: devices: more than {MOST_DEVICES} in one node", hint="use more nodes")
    return parsed


def _device(where: str, name: Any, value: Any, catalog: Catalog) -> FleetDevice:
    try:
        device = catalog.get(str(name))
    except CatalogError as error:
        raise FleetError(f"{where}: {error}", hint=error.hint) from None
    if isinstance(value, dict):
        _check_keys(f"{where}: {name}", value, ("count", "memory"))
        memory = _memory(f"{where}: {name}", "memory", value["memory"]) if "memory" in value else None
        return FleetDevice(
            device, _integer(f"{where}: {name}", "count", value.get("count", 1), MOST_DEVICES), memory
        )
    return FleetDevice(device, _integer(where, str(name), value, MOST_DEVICES))


def _integer(where: str, key: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise FleetError(f"{where}: {key}: {value!r}", hint=f"write a whole number from 1 to {most}")
    return value


def _memory(where: str, key: str, value: Any) -> Bytes:
    try:
        amount = parse_bytes(value) if isinstance(value, str) else Bytes(0)
    except ValueError as error:
        raise FleetError(f"{where}: {key}: {error}") from None
    if not 1 << 20 <= amount <= 1 << 50:
        raise FleetError(f"{where}: {key}: {value!r}", hint='write it like "4GiB", from 1MiB to 1024TiB')
    return amount


def _labels(where: str, table: Any) -> dict[str, str]:
    if not isinstance(table, dict):
        raise FleetError(f"{where}: labels: not a table")
    for key, value in table.items():
        if not isinstance(key, str) or not _QUALIFIED.fullmatch(key):
            raise FleetError(
                f"{where}: labels: {key!r} is not a label key", hint="write it like example.com/room"
            )
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise FleetError(
                f"{where}: labels: {key}: {value!r} is not a label value",
                hint="use at most 63 letters, digits, dots, dashes and underscores, in quotes",
            )
    return dict(table)


def _resources(where: str, table: Any) -> dict[str, int]:
    if not isinstance(table, dict):
        raise FleetError(f"{where}: resources: not a table")
    for key in table:
        if not isinstance(key, str) or "/" not in key or not _QUALIFIED.fullmatch(key):
            raise FleetError(
                f"{where}: resources: {key!r} is not an extended resource",
                hint="write it like nvidia.com/gpu",
            )
    return {key: _integer(f"{where}: resources", key, value, 1 << 40) for key, value in table.items()}
