"""Run one protocol on a file, and return the document of the contract."""

from typing import Any

from fairlead.errors import SettingsError
from fairlead.evaluate.nas import is_wide, wide
from fairlead.evaluate.protocols import PROTOCOLS
from fairlead.evaluate.rows import read, records
from fairlead.evaluate.table import Table, tables


def load(path: str) -> list[Table]:
    """Return the tables of a file, one for each source."""
    header, found = records(path)
    if is_wide(header):
        return [wide(header, found)]
    return tables(read(header, found, path).rows)


def evaluate(path: str, protocol: str, calibration: int, seed: int) -> dict[str, Any]:
    """Run a protocol on every table of a file."""
    if calibration < 0 or seed < 0:
        raise SettingsError(
            "--calibration and --seed must not be negative", "such as --calibration 10 --seed 0"
        )
    results = [PROTOCOLS[protocol](table, calibration, seed) for table in load(path)]
    return {
        "protocol": protocol,
        "calibration": calibration,
        "seed": seed,
        "groups": [result.to_json() for result in results],
    }
