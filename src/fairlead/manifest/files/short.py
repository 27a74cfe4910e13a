"""The short form: nodes with catalog ids, and workloads in a few lines, for what-if questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.errors import CatalogError, ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.node import selector_devices
from fairlead.placement import DeviceState, NodeState
from fairlead.request import Taint, TaintEffect
from fairlead.units import Bytes

MOST_NODES: Final = 20_000
MOST_DEVICES: Final = 64
CLUSTER_KEYS: Final = ("nodes", "running")
_NODE: Final = (
    *("name", "count", "cpu", "memory", "pods", "devices", "labels", "taints", "unschedulable", "resources"),
)
_DEVICE: Final = ("model", "count", "memory", "id", "healthy", "shareable", "compute", "vendor")


@dataclass(frozen=True, slots=True)
class CheckedMapping:
    """A mapping of a file whose keys were checked, with its place in the file."""

    where: str
    value: Mapping[str, Any]

    @classmethod
    def of(cls, where: str, value: Any, keys: Sequence[str]) -> "CheckedMapping":
        """Return a checked mapping; an unknown key is rejected."""
        if not isinstance(value, dict):
            raise ManifestError(f"{where}: not a mapping", f"known keys: {', '.join(keys)}")
        for key in value:
            if key not in keys:
                near = get_close_matches(str(key), keys, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(keys)}"
                raise ManifestError(f"{where}: unknown key {key!r}", hint)
        return cls(where, value)

    def at(self, key: str) -> str:
        """Return the place of a key."""
        return f"{self.where}.{key}"

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key; the default where it is missing or null."""
        value = self.value.get(key)
        return default if value is None else value

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self.get(key, default)
        if not isinstance(value, str):
            raise ManifestError(f"{self.at(key)}: {value!r} is not a string", "put it in quotes")
        return value

    def number(self, key: str, default: int, most: int) -> int:
        """Return a whole number."""
        return amounts.whole(self.at(key), self.get(key, default), most)

    def at_least(self, key: str, least: int, most: int) -> int:
        """Return a whole number of at least `least`, which is also the default."""
        number = self.number(key, least, most)
        if number < least:
            raise ManifestError(f"{self.at(key)}: {number} is less than {least}", f"write {least} or more")
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise ManifestError(f"{self.at(key)}: {value!r}", "write true or false")
        return value

    def items(self, key: str) -> list[Any]:
        """Return a list; a single value is a list of one."""
        value = self.get(key, [])
        return value if isinstance(value, list) else [value]

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; commas separate strings as well."""
        values = self.items(key)
        for at, value in enumerate(values):
            if not isinstance(value, str):
                raise ManifestError(f"{self.at(key)}[{at}]: {value!r} is not a string", "put it in quotes")
        return [part.strip() for value in values for part in value.split(",") if part.strip()]

    def mapping(self, key: str) -> dict[str, str]:
        """Return a mapping of strings."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            raise ManifestError(f"{self.at(key)}: not a mapping", "write it like {zone: a}")
        for name, item in value.items():
            if not isinstance(item, str):
                raise ManifestError(f"{self.at(key)}.{name}: {item!r} is not a string", "put it in quotes")
        return value


def read_nodes(where: str, value: Any, catalog: Catalog) -> list[NodeState]:
    """Return the nodes of the short form."""
    if not isinstance(value, list):
        raise ManifestError(f"{where}: not a list", "write nodes: [{name: server, devices: [t4]}]")
    nodes: dict[str, NodeState] = {}
    for at, item in enumerate(value):
        table = CheckedMapping.of(f"{where}[{at}]", item, _NODE)
        for node in _nodes(table, catalog):
            if node.name in nodes:
                raise ManifestError(f"{table.where}: there are two nodes {node.name!r}", "rename one")
            nodes[node.name] = node
            if len(nodes) > MOST_NODES:
                raise ManifestError(f"{table.where}: more than {MOST_NODES} nodes", "ask about fewer")
    return list(nodes.values())


def _nodes(table: CheckedMapping, catalog: Catalog) -> list[NodeState]:
    name = table.text("name")
    if not name:
        raise ManifestError(f"{table.at('name')}: missing", "give it a name")
    count = table.number("count", 1, MOST_NODES)
    template = _node(table, name, catalog)
    if count == 1 and "count" not in table.value:
        return [_with_name(template, name)]
    return [_with_name(template, f"{name}-{number}") for number in range(count)]


def _with_name(node: NodeState, name: str) -> NodeState:
    return replace(node, name=name, labels={"kubernetes.io/hostname": name, **node.labels})


def _node(table: CheckedMapping, name: str, catalog: Catalog) -> NodeState:
    memory = amounts.size(table.at("memory"), table.get("memory", "32GiB"))
    resources = table.get("resources", {})
    if not isinstance(resources, dict):
        raise ManifestError(f"{table.at('resources')}: not a mapping", "write it like {example.com/key: 1}")
    return NodeState(
        name,
        amounts.milli(table.at("cpu"), table.get("cpu", 8)),
        memory,
        table.number("pods", 110, 100_000),
        {key: amounts.whole(f"{table.at('resources')}.{key}", item) for key, item in resources.items()},
        table.mapping("labels"),
        tuple(
            parse_taint(f"{table.at('taints')}[{at}]", item) for at, item in enumerate(table.items("taints"))
        ),
        table.flag("unschedulable", default=False),
        _devices(table, memory, catalog),
    )


def parse_taint(where: str, value: Any) -> Taint:
    """Read a taint as kubectl takes it: `key=value:NoSchedule`."""
    text = value if isinstance(value, str) else ""
    key_value, _, effect = text.rpartition(":")
    key, _, taint_value = key_value.partition("=")
    if not key or effect not in list(TaintEffect):
        raise ManifestError(f"{where}: {value!r} is not a taint", "write it like dedicated=ml:NoSchedule")
    return Taint(key, taint_value, TaintEffect(effect))


def _devices(table: CheckedMapping, memory: Bytes, catalog: Catalog) -> tuple[DeviceState, ...]:
    devices: list[DeviceState] = []
    counts: dict[str, int] = {}
    for at, item in enumerate(table.items("devices")):
        place = f"{table.at('devices')}[{at}]"
        entry = CheckedMapping.of(place, {"model": item} if isinstance(item, str) else item, _DEVICE)
        for _ in range(entry.number("count", 1, MOST_DEVICES)):
            device = _device(entry, memory, catalog)
            number = counts.get(device.model, 0)
            counts[device.model] = number + 1
            devices.append(replace(device, id=entry.text("id") or f"{device.model}-{number}"))
    if len(devices) > MOST_DEVICES:
        raise ManifestError(f"{table.at('devices')}: more than {MOST_DEVICES}", "use more nodes")
    if len({device.id for device in devices}) < len(devices):
        raise ManifestError(
            f"{table.at('devices')}: two devices of one id", "leave out id where count is given"
        )
    return tuple(devices)


def _device(table: CheckedMapping, ram: Bytes, catalog: Catalog) -> DeviceState:
    name = table.text("model")
    row = _catalog_row(table, name, catalog)
    known = catalog_memory(row, ram) if row else Bytes(0)
    vendor = table.text("vendor", row.vendor if row else "")
    size = amounts.size(table.at("memory"), table.get("memory", known))
    return DeviceState(
        "",
        row.id if row else name,
        vendor,
        size,
        table.number("compute", 1000, 100_000),
        healthy=table.flag("healthy", default=True),
        unified=row.unified if row else False,
        shareable=table.flag("shareable", default=row.shareable if row else True),
        precisions=tuple(sorted(row.peak)) if row else (),
        offered=selector_devices.encode_catalog_device(row, row.id if row else name, vendor, size),
    )


def _catalog_row(table: CheckedMapping, name: str, catalog: Catalog) -> CatalogDevice | None:
    """Return the catalog's row for a model; None for an unknown model whose memory the file states."""
    try:
        return catalog.get(name)
    except CatalogError as error:
        if not name or "memory" not in table.value:
            raise ManifestError(f"{table.at('model')}: {error}", error.hint) from None
        return None


def catalog_memory(row: CatalogDevice, ram: Bytes) -> Bytes:
    """Return a model's memory by the catalog; the smallest where the model has several sizes."""
    if row.unified:
        return min(row.memory or ram, ram)
    sizes = [variant.memory for variant in row.variants if variant.memory]
    return row.memory or min(sizes, default=Bytes(0))
