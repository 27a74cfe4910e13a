"""Read the machines of a simulation, in any form that a cluster has in files, and what they draw."""

from collections.abc import Iterable, Mapping
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
"""Of the power on the data sheet. A V100 of 250 W draws 26.5 W without a job, and 38.5 W with one at rest."""
RECORDED: Final[Mapping[str, str]] = {
    "T4": "t4",
    "P100": "p100",
    "V100M16": "v100",
    "V100M32": "v100",
    "A10": "a10",
}
"""What openb calls accelerators; it hides what its G2 and G3 are, so their energy is not counted."""


def read_fleet(path: str, catalog: Catalog) -> SimulatedFleet:
    """Return the machines of a file: the short form, a snapshot, manifests, or nodes of an openb trace."""
    if is_table(path):
        return fleet_with_power(recorded_nodes(path), catalog)
    documents = read(path)
    if len(documents) == 1 and _is_ours(documents[0][1]):
        table = TraceFields(documents[0][1], documents[0][0])
        found = fleet_from_fields(table, catalog)
        table.finish()
    else:
        found = fleet_from_snapshot(read_cluster([path], catalog), catalog)
    if not found.nodes:
        raise SettingsError(f"{path}: no nodes", "list them under nodes:")
    return found


def fleet_from_snapshot(cluster: Snapshot, catalog: Catalog) -> SimulatedFleet:
    """Return the machines of a snapshot, with what runs there."""
    return SimulatedFleet(cluster.nodes, fleet_with_power(cluster.nodes, catalog).power, cluster.placements)


def fleet_from_fields(table: TraceFields, catalog: Catalog) -> SimulatedFleet:
    """Return the machines that the fields `nodes` and `power` of a document describe."""
    if table.integer("version", VERSION) != VERSION:
        raise table.wrong("version", f"one that is known: {VERSION}")
    nodes = short.nodes(f"{table.where}: nodes", table.raw("nodes"), catalog)
    said = table.table("power")
    return fleet_with_power(nodes, catalog, {model: _power(said.table(model)) for model in said.names()})


def fleet_with_power(
    nodes: Iterable[NodeState], catalog: Catalog, said: Mapping[str, PowerCurve] | None = None
) -> SimulatedFleet:
    """Return nodes with the power of their accelerators: as it was said, else by the catalog."""
    listed = tuple(nodes)
    models = dict.fromkeys(device.model for node in listed for device in node.devices)
    known = {model: power for model in models if (power := power_of(catalog, model)) is not None}
    return SimulatedFleet(listed, {**known, **(said or {})})


def power_of(catalog: Catalog, model: str) -> PowerCurve | None:
    """Return what an accelerator draws by its data sheet; None where nobody knows."""
    try:
        full = catalog.get(RECORDED.get(model, model)).power
    except CatalogError:
        return None
    return None if full is None else PowerCurve(Watts(full * IDLE), Watts(full * AWAKE), full)


def _is_ours(value: Any) -> bool:
    """Say whether a document is a short form that a simulation may say more in, such as power."""
    return isinstance(value, dict) and {"nodes", "power"} >= set(value) - {"version"} and "kind" not in value


def _power(table: TraceFields) -> PowerCurve:
    full = table.number("full")
    idle = table.number("idle", full * IDLE)
    power = PowerCurve(Watts(idle), Watts(table.number("awake", max(idle, full * AWAKE))), Watts(full))
    table.finish()
    return power
