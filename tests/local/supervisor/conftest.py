"""A desk for each test; the machine is scanned once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.supervisor.desk import INVENTORY, Desk


@pytest.fixture(scope="session")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cached inventory of this machine."""
    desk = Desk(tmp_path_factory.mktemp("inventory"))
    desk.cores()
    return Path(desk.place.private) / INVENTORY


@pytest.fixture
def desk(tmp_path: Path, inventory: Path) -> Iterator[Desk]:
    """Return the desk of a user; no process of it outlives the test."""
    desk = Desk(tmp_path, inventory)
    try:
        yield desk
    finally:
        desk.end()
