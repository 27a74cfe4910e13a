"""Labels of a replayed Jetson: they appear and disappear with it, and foreign labels stay."""

from collections.abc import Iterator

import pytest

from fairlead.publish.labels import LEGACY_KEYS
from tests.e2e.api import CORE, wait_for
from tests.e2e.install import Site
from tests.e2e.machines import NO_ACCELERATORS, XAVIER, unplug

FOREIGN = {"fairlead.dev/rack": "7", "example.org/owner": "edge"}


@pytest.fixture
def foreign(site: Site) -> Iterator[dict[str, str]]:
    """Add labels to the node that are not the agent's."""
    site.lab.kubectl("label", "node", site.name, *(f"{key}={value}" for key, value in FOREIGN.items()))
    yield FOREIGN
    site.lab.kubectl("label", "node", site.name, *(f"{key}-" for key in FOREIGN))


def test_labels_appear_and_disappear_with_a_jetson(site: Site, foreign: dict[str, str]) -> None:
    site.replay("jetson-agx-xavier")
    labels = site.node()["metadata"]["labels"]
    assert labels["fairlead.dev/jetson-agx-xavier.count"] == labels["fairlead.dev/gpu.count"] == "1"
    assert labels["fairlead.dev/release"] == "R32.7.4"
    assert labels["fairlead.node-restriction.kubernetes.io/jetson-agx-xavier"] == "1"
    assert not labels.keys() & LEGACY_KEYS
    assert labels.items() >= foreign.items()
    assert site.allocatable()["fairlead.dev/jetson-agx-xavier"] == 1

    # Without its GPU the board is still labelled, and offers nothing.
    unplug(site.machine.folder, XAVIER.removeprefix("platform-").replace("-", "."))
    site.wait_published()
    labels = site.node()["metadata"]["labels"]
    assert labels["fairlead.dev/jetson-agx-xavier.usable"] == "0"
    assert not [key for key in labels if key.startswith("fairlead.node-restriction")]
    assert not site.allocatable()
    assert not site.slices()

    site.replay("raspberry-pi-4")
    labels = site.node()["metadata"]["labels"]
    assert not [key for key in labels if "jetson" in key or "gpu" in key]
    assert labels.items() >= foreign.items()


def test_legacy_labels_appear_if_enabled_and_disappear_again(installed: Site) -> None:
    site = installed  # whatever its values: they change at once
    site.machine.replay("jetson-agx-xavier")
    site.install({"publish.legacyLabels": True})
    wanted = {"gpu.model": "Jetson-AGX", "gpu.driver": "R32.7.4", "gpu.resource": "tegrastats"}
    wait_for("legacy labels", lambda: legacy(site) == wanted, site.differences)
    site.machine.replay(NO_ACCELERATORS)
    wait_for("legacy labels to disappear", lambda: not legacy(site), site.differences)


def legacy(site: Site) -> dict[str, str]:
    """Return the agent's labels without a prefix."""
    labels = site.api.request("GET", f"{CORE}/nodes/{site.name}")["metadata"]["labels"]
    return {key: value for key, value in labels.items() if key in LEGACY_KEYS}
