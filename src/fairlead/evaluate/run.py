"""Run one protocol on a file, and return the document of the contract."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.catalog import Catalog
from fairlead.errors import SettingsError
from fairlead.evaluate.data_sheets import DataSheets
from fairlead.evaluate.nas import is_wide, wide
from fairlead.evaluate.protocols import PROTOCOLS
from fairlead.evaluate.rows import read, records
from fairlead.evaluate.table import LatencyTable, tables


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to evaluate: a file of tables, a protocol, the size of a pack, and the seed that draws it."""

    path: str
    protocol: str = "new-device"
    calibration: int = 10
    seed: int = 0


def load(path: str, catalog: Catalog) -> list[LatencyTable]:
    """Return the tables of a file, one for each source."""
    header, rows = records(path)
    if is_wide(header):
        return [wide(header, rows)]
    return tables(read(header, rows, path).rows, DataSheets.of(catalog))


def evaluate(
    plan: EvaluationPlan,
    catalog: Catalog,
    report: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> dict[str, Any]:
    """Run a protocol on every table of a file; `report` is called before each one."""
    if plan.calibration < 0 or plan.seed < 0:
        raise SettingsError(
            "--calibration and --seed must not be negative", "such as --calibration 10 --seed 0"
        )
    tables, groups = load(plan.path, catalog), []
    for done, table in enumerate(tables):
        report(done, len(tables), table.group)
        groups.append(PROTOCOLS[plan.protocol](table, plan.calibration, plan.seed).to_json())
    return {
        "protocol": plan.protocol,
        "calibration": plan.calibration,
        "seed": plan.seed,
        "groups": groups,
    }
