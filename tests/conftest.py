"""Fixtures for every test: a host on disk, and the catalogs."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fairlead.catalog import Catalog
from fairlead.host import Host
from tests import catalogs
from tests.worlds import Files, World, build

pytest_plugins = ("tests.labs",)

# Steady by default: a local run sees what CI sees. To hunt for bugs: pytest --hypothesis-profile=wild
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,  # tests with a time bound measure processor time themselves
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("wild", settings.get_profile("steady"), derandomize=False, max_examples=1000)
settings.load_profile("steady")


def pytest_configure() -> None:
    """Let signals end the programs of tests: a run in the background or under nohup ignores them.

    Its children would inherit that.
    """
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a function that writes files below a root folder and returns the host that reads them."""

    def make(files: Files) -> Host:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        build(str(root), files)
        return Host(str(root))

    return make


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """Return the shipped catalog."""
    return catalogs.shipped()


@pytest.fixture(scope="session")
def small() -> Catalog:
    """Return the catalog of the tests: one device for each way to recognise one."""
    return catalogs.small()


@pytest.fixture(autouse=True)
def no_catalog_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own settings out of the tests."""
    monkeypatch.delenv("FAIRLEAD_CATALOG", raising=False)
