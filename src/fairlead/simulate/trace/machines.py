"""Read the machines of a simulation, in any file form of a cluster, and their power draw."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.cache.clusterfile import read_cluster
from fairlead.catalog import Catalog
from fairlead.errors import CatalogError, SettingsError
from fairlead.manifest.files import short
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.files.text import read
from fairlead.placement import NodeState
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import PowerCurve, SimulatedFleet
from fairlead.simulate.trace.recorded import recorded_nodes
from fairlead.simulate.trace.table import is_table
from fairlead.units import Watts

VERSION: Final = 1
IDLE: Final = 0.10
AWAKE: Final = 0.15
"""Parts of the power on the data sheet: a V100 of 250 W draws 26.5 W without a job, 38.5 W with one idle."""
RECORDED: Final[Mapping[str, str]] = {
    "T4": "t4",
    "P100": "p100",
    "V100M16": "v100",
    "V100M32": "v100",
    "A10": "a10",
}
"""The accelerator names of openb; it hides what its G2 and G3 are, so their energy is not counted."""


def read_fleet(path: str, catalog: Catalog) -> SimulatedFleet:
    """Return the machines of a file: the short form, a snapshot, manifests, or nodes of an openb trace."""
    if is_table(path):
        return fleet_with_power(recorded_nodes(path), catalog)
    documents = read(path)
    if len(documents) == 1 and _is_ours(documents[0][1]):
        table = TraceFields(documents[0][1], documents[0][0])
        fleet = fleet_from_fields(table, catalog)
        table.finish()
    else:
        fleet = fleet_from_snapshot(read_cluster([path], catalog), catalog)
    if not fleet.nodes:
        raise SettingsError(f"{path}: no nodes", "list them under nodes:")
    return fleet


def fleet_from_snapshot(cluster: Snapshot, catalog: Catalog) -> SimulatedFleet:
    """Return the machines of a snapshot, with its running pods."""
    power = fleet_with_power(cluster.nodes, catalog).power
    return SimulatedFleet(cluster.nodes, power, residents=cluster.placements)


def fleet_from_fields(table: TraceFields, catalog: Catalog) -> SimulatedFleet:
    """Return the machines that the fields `nodes` and `power` of a document describe."""
    if table.integer("version", VERSION) != VERSION:
        raise table.wrong("version", f"one that is known: {VERSION}")
    nodes = short.read_nodes(f"{table.where}: nodes", table.raw("nodes"), catalog)
    power = table.table("power")
    contexts = table.table("first-context")
    held = {model: contexts.memory(model) for model in contexts.names()}
    curves = {model: _power(power.table(model)) for model in power.names()}
    return replace(fleet_with_power(nodes, catalog, curves), first_context=held)


def fleet_with_power(
    nodes: Iterable[NodeState], catalog: Catalog, curves: Mapping[str, PowerCurve] | None = None
) -> SimulatedFleet:
    """Return nodes with the power of their accelerators: the given curves, else those of the catalog."""
    listed = tuple(nodes)
    models = dict.fromkeys(device.model for node in listed for device in node.devices)
    from_catalog = {model: power for model in models if (power := power_of(catalog, model)) is not None}
    return SimulatedFleet(listed, {**from_catalog, **(curves or {})})


def power_of(catalog: Catalog, model: str) -> PowerCurve | None:
    """Return the power curve of an accelerator by its data sheet; None: unknown."""
    try:
        full = catalog.get(RECORDED.get(model, model)).power
    except CatalogError:
        return None
    return None if full is None else PowerCurve(Watts(full * IDLE), Watts(full * AWAKE), full)


def _is_ours(value: Any) -> bool:
    """Return whether a document is the short form of nodes, which may carry `power` here."""
    return isinstance(value, dict) and {"nodes", "power"} >= set(value) - {"version"} and "kind" not in value


def _power(table: TraceFields) -> PowerCurve:
    full = table.number("full")
    idle = table.number("idle", full * IDLE)
    awake = Watts(table.number("awake", max(idle, full * AWAKE)))
    sliced = Watts(table.number("sliced")) if "sliced" in table else None
    power = PowerCurve(Watts(idle), awake, Watts(full), sliced)
    table.finish()
    return power
