"""Witness: the device tree, which names the board, its module, its SoC and the engines inside."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.detect.chip import CloserChip, find_closer_chip
from fairlead.detect.nodeshape import shape_of
from fairlead.detect.sighting import Sighting, TreeNode
from fairlead.host import Host, printable
from fairlead.inventory import Evidence, Unknown

ROOTS: Final = ("/proc/device-tree", "/sys/firmware/devicetree/base")
_MODULE: Final = re.compile(r"p[0-9]{4}-[0-9]{4}")
_BOARD_ID: Final = re.compile(r"(?<![0-9a-z])p?([0-9]{4})(?:[-:]([0-9]{4}))?(?![0-9])")
_HINT_FILES: Final = ("chosen/ids", "nvidia,boardids", "nvidia,proc-boardid", "nvidia,dtsfilename")
_PLUGINS: Final = "{}/chosen/plugin-manager/ids"
"""On JetPack 4 a folder: the names of its properties are the ids."""
BOOT_CONTROL: Final = "/etc/nv_boot_control.conf"
_TNSPEC: Final = re.compile(r"TNSPEC\s+([0-9]{4})-[^-]*-([0-9]{4})?-")
SOC: Final = "/sys/devices/soc0"
_TEGRAS: Final = {
    "64": "nvidia,tegra124",
    "33": "nvidia,tegra210",
    "24": "nvidia,tegra186",
    "25": "nvidia,tegra194",
    "35": "nvidia,tegra234",
    "38": "nvidia,tegra264",
}
"""Chip ids as the kernel prints them: 0x21 is Tegra210, and so on."""
_DEPTH: Final = 4
_NODE_LIMIT: Final = 4000
_BUSES: Final = (
    "soc",
    "bus",
    "axi",
    "amba",
    "apb",
    "ahb",
    "host1x",
    "cbass",
    "interconnect",
    "fabric",
    "main",
)
"""Prefixes of the names of nodes that contain devices; the rest of the tree is not traversed."""
_NAMED, _NODE, _SOC_CERTAIN, _SOC_ONLY, _MAYBE, _HINTED = 0.97, 0.95, 0.9, 0.7, 0.6, 0.85

Named = dict[str, tuple[CatalogDevice, Evidence]]


@dataclass(frozen=True, slots=True)
class DeviceTree:
    """What the device tree says about the whole board."""

    root: str
    model: str | None
    compatible: tuple[str, ...]
    modules: tuple[str, ...]
    """NVIDIA module ids named by the root `compatible`."""
    hints: tuple[tuple[str, str], ...]
    """Module ids named elsewhere in the tree, with the path: weaker witnesses."""
    nodes: tuple[TreeNode, ...]
    """The nodes that match some catalog row."""
    unlisted: tuple[TreeNode, ...] = ()
    """The nodes that only look like an accelerator."""


def read(host: Host, catalog: Catalog) -> DeviceTree | None:
    """Read the board's device tree; None if there is none."""
    for root in ROOTS:
        compatible = host.strings(f"{root}/compatible")
        model = host.text(f"{root}/model")
        if compatible or model:
            candidates = list(_walk(host, root, catalog))
            nodes = tuple(node for node in candidates if catalog.by_node(node.compatible, node.name))
            unlisted = tuple(node for node in candidates if node not in nodes and node.enabled)
            modules = tuple(dict.fromkeys(_MODULE.findall(" ".join(compatible).lower())))
            return DeviceTree(root, model, compatible, modules, tuple(_hints(host, root)), nodes, unlisted)
    return _masked(host)


def _masked(host: Host) -> DeviceTree | None:
    """Fall back to the SoC bus: container runtimes hide the tree, but not the chip's number."""
    soc = _TEGRAS.get(host.text(f"{SOC}/soc_id") or "")
    if soc is None or not (host.text(f"{SOC}/family") or "").lower().startswith("tegra"):
        return None
    return DeviceTree(SOC, host.text(f"{SOC}/machine"), (soc,), (), tuple(_hints(host, SOC)), ())


def find_sightings(tree: DeviceTree, catalog: Catalog) -> tuple[list[Sighting], list[Unknown]]:
    """Return the accelerators that the tree names, and nodes that only look like one."""
    soc, groups = _soc_groups(tree, catalog)
    products = _products(tree, catalog)
    sightings = [s for group in groups if (s := _from_soc(tree, soc, group, products, catalog))]
    taken = {device.id for group in groups for device in group}
    sightings += _products_alone(tree, products, bool(groups))
    taken |= {device.id for sighting in sightings for device in sighting.devices}
    loose, unknown = _loose_nodes(tree, catalog, taken)
    if not any(_could_own_a_node(sighting) for sighting in sightings):
        unknown += _unlisted_nodes(tree, catalog)
    return sightings + loose, unknown


def _could_own_a_node(sighting: Sighting) -> bool:
    """Return whether a SoC's engine has no known node: an unlisted node is then most likely its own."""
    first = sighting.devices[0]
    return not sighting.nodes and first.kind != "gpu" and bool(first.match.soc)


def _unlisted_nodes(tree: DeviceTree, catalog: Catalog) -> list[Unknown]:
    """Return unlisted nodes that look like an accelerator; the cores of one engine share a `compatible`."""
    first = {node.compatible: node for node in reversed(tree.unlisted)}
    unknown = []
    for node in reversed(first.values()):
        shape = shape_of(node.name, node.compatible, catalog.shapes)
        place = f"{node.address}.{node.name}" if node.address else node.name
        if shape is not None:
            says = f"device-tree node {node.name}: {shape.says}"
            unknown.append(Unknown(f"platform:{place}", printable(node.compatible[0]), None, says))
    return unknown


def _walk(host: Host, root: str, catalog: Catalog) -> Iterator[TreeNode]:
    """Yield the nodes that match some catalog row, or that look like an accelerator."""
    todo = [(root, 0)]
    seen = 0
    while todo:
        folder, depth = todo.pop()
        for entry in host.folders(folder):
            seen += 1
            if seen > _NODE_LIMIT:
                return
            name, _, address = entry.partition("@")
            path = f"{folder}/{entry}"
            compatible = host.strings(f"{path}/compatible")
            if compatible and _is_of_interest(name, compatible, catalog):
                enabled = (host.text(f"{path}/status") or "okay") in ("okay", "ok")
                yield TreeNode(path, printable(name), printable(address), compatible, enabled)
            if depth < _DEPTH and name.startswith(_BUSES):
                todo.append((path, depth + 1))


def _is_of_interest(name: str, compatible: tuple[str, ...], catalog: Catalog) -> bool:
    if catalog.by_node(compatible, name):
        return True
    return not catalog.is_engine(compatible) and shape_of(name, compatible, catalog.shapes) is not None


def _hints(host: Host, root: str) -> Iterator[tuple[str, str]]:
    """Yield module ids that NVIDIA's trees and flash tools write outside the root `compatible`."""
    places = [(f"{root}/{name}", host.text(f"{root}/{name}")) for name in _HINT_FILES]
    places += [(_PLUGINS.format(root), " ".join(host.names(_PLUGINS.format(root))))]
    for place, text in places:
        for number, sku in dict.fromkeys(_BOARD_ID.findall((text or "").lower())):
            yield f"p{number}-{sku}" if sku else f"p{number}", place
    spec = _TNSPEC.search(host.text(BOOT_CONTROL) or "")
    if spec:
        yield f"p{spec[1]}-{spec[2]}" if spec[2] else f"p{spec[1]}", BOOT_CONTROL


def _products(tree: DeviceTree, catalog: Catalog) -> Named:
    """Return the products that the root `compatible` names, each with its witness."""
    where = f"{tree.root}/compatible"
    products: Named = {}
    for entry in tree.compatible:
        for device in catalog.by_board(entry):
            evidence = Evidence("dt", where, f"board {entry} is {device.name}")
            products.setdefault(device.id, (device, evidence))
    for module in tree.modules if not products else ():
        for device in catalog.by_module(module):
            evidence = Evidence("dt", where, f"module {module} is {device.name}")
            products.setdefault(device.id, (device, evidence))
    return products


def _soc_groups(tree: DeviceTree, catalog: Catalog) -> tuple[str, list[list[CatalogDevice]]]:
    """Return the SoC and the devices inside it; rows that share a key are alternatives of one device."""
    for entry in tree.compatible:  # most specific first
        rows = catalog.by_soc(entry)
        if not rows:
            continue
        groups: list[list[CatalogDevice]] = []
        for row in rows:
            alternatives = next((g for g in groups if any(row.id in d.match.shares for d in g)), None)
            if alternatives is None:
                groups.append([row])
            else:
                alternatives.append(row)
        return entry, groups
    return "", []


def _from_soc(
    tree: DeviceTree, soc: str, group: list[CatalogDevice], products: Named, catalog: Catalog
) -> Sighting | None:
    """Return the one device of a SoC whose alternatives are in `group`."""
    ids = {device.id for device in group}
    nodes = tuple(n for n in tree.nodes if ids & {d.id for d in catalog.by_node(n.compatible, n.name)})
    says = Evidence("dt", f"{tree.root}/compatible", f"SoC {soc} has {_names(group)}")
    evidence = [says, *(_node_says(node) for node in nodes)]
    named = tuple(device for device in group if device.id in products)
    conflicting = [says for device, says in products.values() if device.match.soc and device.id not in ids]
    evidence += [_disagrees(says, soc) for says in conflicting]
    if named:
        evidence += [products[device.id][1] for device in named]
        confidence = _NAMED - 0.2 * bool(conflicting) if len(named) == 1 else _MAYBE
        return _sighting(tree, named, confidence, evidence, nodes)
    hinted = _hinted(tree, group)
    if hinted is not None:
        device, hint = hinted
        return _sighting(tree, (device,), _HINTED, [*evidence, hint], nodes)
    if len(group) > 1:
        return _one_of(tree, _by_node_first(group, nodes, catalog), evidence, nodes)
    other = find_closer_chip(tree.compatible, soc, group[0], catalog)
    if other is not None:
        return _fallback(tree, other, group[0], evidence, nodes, catalog)
    return _certainty(tree, group[0], evidence, nodes)


def _one_of(
    tree: DeviceTree, group: tuple[CatalogDevice, ...], evidence: list[Evidence], nodes: tuple[TreeNode, ...]
) -> Sighting | None:
    """Weigh rows that are alternatives of one device."""
    sure = any(node.enabled for node in nodes) or any(device.match.soc_certain for device in group)
    if nodes and not sure:
        return None  # boot loaders disable the node on chips that lack the device
    return _sighting(tree, group, _SOC_ONLY if sure else _MAYBE, evidence, nodes)


def _fallback(
    tree: DeviceTree,
    other: CloserChip,
    device: CatalogDevice,
    evidence: list[Evidence],
    nodes: tuple[TreeNode, ...],
    catalog: Catalog,
) -> Sighting | None:
    """Weigh a SoC entry that follows one of another chip: it names a compatible chip, not the chip itself."""
    where = f"{tree.root}/compatible"
    if other.device is not None:
        says = Evidence("dt", where, f"{other.entry} comes first: {other.device.name}")
        seen = _certainty(tree, other.device, [*evidence, says], nodes)
        return replace(seen, confidence=min(seen.confidence, _HINTED)) if seen else None
    says = Evidence("dt", where, f"{other.entry} comes first, a chip that is not in the catalog")
    seen = _certainty(tree, device, [*evidence, says], nodes)
    kin = [row for name in device.match.shares if (row := catalog.devices.get(name)) and row.generic]
    if seen is None:
        return None
    return replace(seen, devices=(device, *kin), confidence=min(seen.confidence, _MAYBE))


def _certainty(
    tree: DeviceTree, device: CatalogDevice, evidence: list[Evidence], nodes: tuple[TreeNode, ...]
) -> Sighting | None:
    """Weigh the only row that matches a SoC by whether every chip of the SoC has the device."""
    enabled = any(node.enabled for node in nodes)
    if not enabled and (device.match.needs_node or (nodes and not device.match.soc_certain)):
        return None  # boot loaders disable the node on chips that lack the device
    certain = _SOC_CERTAIN if device.match.soc_certain else _MAYBE
    return _sighting(tree, (device,), _NODE if enabled else certain, evidence, nodes)


def _by_node_first(
    group: list[CatalogDevice], nodes: tuple[TreeNode, ...], catalog: Catalog
) -> tuple[CatalogDevice, ...]:
    """Keep the alternatives that a node names, if one does."""
    named = {d.id for n in nodes for d in catalog.by_node(n.compatible, n.name)}
    products = [device for device in group if not device.generic]
    kept = [device for device in products if device.id in named]
    return tuple(kept) if len(kept) < len(products) and kept else tuple(group)


def _hinted(tree: DeviceTree, group: list[CatalogDevice]) -> tuple[CatalogDevice, Evidence] | None:
    """Return the one alternative that the weaker witnesses name, if they agree."""
    hinted: dict[str, tuple[CatalogDevice, Evidence]] = {}
    for module, place in tree.hints:
        for device in group:
            known = [*device.match.module, *(m for v in device.variants for m in v.module)]
            if any(item.startswith(module) for item in known):
                hinted.setdefault(
                    device.id, (device, Evidence("dt", place, f"names module {module}: {device.name}"))
                )
    return next(iter(hinted.values())) if len(hinted) == 1 else None


def _products_alone(tree: DeviceTree, products: Named, soc_known: bool) -> list[Sighting]:
    """Return products that are named by their board rather than by the SoC around them."""
    alone = [(device, says) for device, says in products.values() if not (soc_known and device.match.soc)]
    if not alone:
        return []
    confidence = _NAMED if len(alone) == 1 else _MAYBE
    return [_sighting(tree, tuple(d for d, _ in alone), confidence, [says for _, says in alone], ())]


def _loose_nodes(tree: DeviceTree, catalog: Catalog, taken: set[str]) -> tuple[list[Sighting], list[Unknown]]:
    """Return devices named by a node alone; a node with a common `compatible` is not enough evidence."""
    groups: dict[tuple[str, ...], list[TreeNode]] = {}
    unknown: list[Unknown] = []
    for node in tree.nodes:
        rows = catalog.by_node(node.compatible, node.name)
        if not node.enabled or any(row.id in taken for row in rows):
            continue
        specific = any(
            key.name is None for row in rows for key in row.match.node if key.compatible in node.compatible
        )
        if specific:
            groups.setdefault(tuple(row.id for row in rows), []).append(node)
        else:
            says = f"node {node.name} looks like {_names(rows)}, on a SoC that is not known to have one"
            unknown.append(Unknown(f"platform:{node.address}.{node.name}", node.compatible[0], None, says))
    sightings = [
        _sighting(
            tree,
            tuple(catalog.devices[item] for item in ids),
            _HINTED if len(ids) == 1 else _MAYBE,
            [_node_says(node) for node in nodes],
            tuple(nodes),
        )
        for ids, nodes in groups.items()
    ]
    return sightings, unknown


def _sighting(
    tree: DeviceTree,
    devices: tuple[CatalogDevice, ...],
    confidence: float,
    evidence: list[Evidence],
    nodes: tuple[TreeNode, ...],
) -> Sighting:
    node = next((n for n in nodes if n.enabled), nodes[0] if nodes else None)
    address = f"{node.address}.{node.name}" if node and node.address else node.name if node else devices[0].id
    return Sighting(
        bus="platform",
        address=address,
        devices=devices,
        confidence=confidence,
        evidence=tuple(evidence),
        modules=tree.modules,
        boards=tree.compatible,
        nodes=nodes,
    )


def _node_says(node: TreeNode) -> Evidence:
    off = "" if node.enabled else ", disabled"
    return Evidence("dt", node.path, f"node {node.name} compatible {', '.join(node.compatible)}{off}")


def _disagrees(evidence: Evidence, soc: str) -> Evidence:
    return Evidence(evidence.source, evidence.path, f"{evidence.says}, but the SoC is {soc}: they disagree")


def _names(devices: Iterable[CatalogDevice]) -> str:
    return " or ".join(device.name for device in devices)
