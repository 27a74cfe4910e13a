"""Fairlead on a real node: installed once for all tests of this folder, uninstalled afterwards."""

from collections.abc import Iterator

import pytest

from fairlead.cli.main import main
from tests.e2e.api import CORE, Api
from tests.e2e.install import NAMESPACE, Site
from tests.e2e.machines import NO_ACCELERATORS, Machine
from tests.e2e.pods import Pods
from tests.images import agent_archive
from tests.labs import RealNode


@pytest.fixture(scope="package")
def bare_site(real_node: RealNode) -> Iterator[Site]:
    """Return the node with the agent's image and its namespace, without an installation."""
    api = Api(real_node.config)
    real_node.load(agent_archive())
    api.create(f"{CORE}/namespaces", [{"metadata": {"name": NAMESPACE}}])
    machine = Machine(real_node.folder / "machine")
    machine.replay(NO_ACCELERATORS)
    yield Site(real_node, api, machine)
    api.delete([f"{CORE}/namespaces/{NAMESPACE}"])
    api.close()


@pytest.fixture(scope="package")
def installed(bare_site: Site) -> Iterator[Site]:
    """Return the node with fairlead installed."""
    bare_site.install()
    yield bare_site
    # The work of an uninstall's jobs, without their wait: the agents have ended already.
    bare_site.uninstall("--no-hooks")
    assert main(["retract", "--yes", "--kubeconfig", str(bare_site.lab.kubeconfig)]) == 0


@pytest.fixture
def site(installed: Site) -> Site:
    """Return the node with fairlead installed with the default values."""
    if installed.customized:
        installed.install()
    return installed


@pytest.fixture
def pods(site: Site, node_namespace: str) -> Iterator[Pods]:
    """Return a fresh namespace for pods; afterwards they are deleted, and their devices are free."""
    pods = Pods(site, node_namespace)
    yield pods
    pods.clear()
