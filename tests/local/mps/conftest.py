"""One user with a GPU and a played control program, with a long and with a short state directory."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.local.mps.world import MpsWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MpsWorld]:
    """Return a world whose state directory is too long for sockets."""
    long = tmp_path / ("long" * 12)
    long.mkdir()
    world = MpsWorld(long)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def short_world() -> Iterator[MpsWorld]:
    """Return a world whose state directory is short enough."""
    with TemporaryDirectory(prefix="m") as folder:
        world = MpsWorld(Path(folder))
        try:
            yield world
        finally:
            world.close()
