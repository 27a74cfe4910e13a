"""The chart's values for a distribution, on a real node with the paths of that distribution.

k3s in every run; FAIRLEAD_LAYOUTS=all also runs k0s, whose kubelet has another folder (make test-layouts).
"""

import asyncio
import os
from collections.abc import Iterator

import pytest

from fairlead.lab.node import layout
from tests.e2e.api import CORE, Api
from tests.e2e.install import CHART, NAMESPACE, Site
from tests.e2e.machines import Machine
from tests.e2e.pods import Pods
from tests.images import agent_archive
from tests.labs import RealApi, open_namespace, own_node

LAYOUTS = ("k3s", "k0s") if os.environ.get("FAIRLEAD_LAYOUTS") == "all" else ("k3s",)
HOME = "shop"


@pytest.fixture(params=LAYOUTS)
def site_of_layout(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Return a separate node with the layout of a distribution, and the agent's image."""
    with own_node(layout.find_layout(request.param)) as real:
        api = Api(real.config)
        real.load(agent_archive())
        api.create(f"{CORE}/namespaces", [{"metadata": {"name": NAMESPACE}}])
        asyncio.run(open_namespace(RealApi(real.config, real.kubeconfig, None), HOME))
        machine = Machine(real.folder / "machine")
        machine.replay("server-t4")
        yield Site(real, api, machine)
        api.close()


@pytest.mark.xdist_group("node")
def test_the_values_of_a_distribution_match_its_paths(site_of_layout: Site) -> None:
    paths = site_of_layout.lab.lab.layout
    listed = site_of_layout.lab.run("ls", paths.socket, f"{paths.kubelet}/plugins_registry")
    assert listed.returncode == 0, listed.stderr
    if paths.socket != layout.PLAIN.socket:
        assert site_of_layout.lab.run("ls", layout.PLAIN.socket).returncode, "nothing is at the usual path"

    site_of_layout.install(None, CHART / f"values-{paths.name}.yaml")
    site_of_layout.wait_published()
    pods = Pods(site_of_layout, HOME)
    pods.template("four", 4096)
    pods.start(["claimer"], claim="four")
    pods.wait_running(["claimer"])
    pods.start(["limited"], {"fairlead.dev/gpu-mem": 1024})
    pods.wait_running(["limited"])
    environ = pods.environ(["claimer", "limited"])
    assert environ["claimer"]["FAIRLEAD_MEMORY_MIB"] == "4096"
    assert environ["limited"]["FAIRLEAD_MEMORY_MIB"] == "1024"
