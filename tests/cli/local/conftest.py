"""A fixture with a state directory of its own."""

from pathlib import Path

import pytest

from tests.local.runner.programs import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a state directory and a home of their own."""
    return World(tmp_path)
