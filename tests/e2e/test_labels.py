"""Labels of a replayed Jetson: there while it is, gone with it, and nobody else's touched."""

from collections.abc import Iterator

import pytest

from fairlead.publish.labels import LEGACY_KEYS
from tests.e2e.api import CORE, wait_for
from tests.e2e.install import Site
from tests.e2e.machines import NO_ACCELERATORS, XAVIER, unplug

FOREIGN = {"fairlead.dev/rack": "7", "example.org/owner": "edge"}


@pytest.fixture
def foreign(site: Site) -> Iterator[dict[str, str]]:
    """Put labels on the node that are not the agent's."""
    site.lab.kubectl("label", "node", site.name, *(f"{key}={value}" for key, value in FOREIGN.items()))
    yield FOREIGN
    site.lab.kubectl("label", "node", site.name, *(f"{key}-" for key in FOREIGN))


def test_labels_come_with_a_jetson_and_go_with_it(site: Site, foreign: dict[str, str]) -> None:
    site.become("jetson-agx-xavier")
    labels = site.node()["metadata"]["labels"]
    assert labels["fairlead.dev/jetson-agx-xavier.count"] == labels["fairlead.dev/gpu.count"] == "1"
    assert labels["fairlead.dev/release"] == "R32.7.4"
    assert labels["fairlead.node-restriction.kubernetes.io/jetson-agx-xavier"] == "1"
    assert not labels.keys() & LEGACY_KEYS
    assert labels.items() >= foreign.items()
    assert site.allocatable()["fairlead.dev/jetson-agx-xavier"] == 1

    # Without its GPU the board still says what it is, and offers nothing.
    unplug(site.machine.folder, XAVIER.removeprefix("platform-").replace("-", "."))
    site.settled()
    labels = site.node()["metadata"]["labels"]
    assert labels["fairlead.dev/jetson-agx-xavier.usable"] == "0"
    assert not [key for key in labels if key.startswith("fairlead.node-restriction")]
    assert not site.allocatable()
    assert not site.slices()

    site.become("raspberry-pi-4")
    labels = site.node()["metadata"]["labels"]
    assert not [key for key in labels if "jetson" in key or "gpu" in key]
    assert labels.items() >= foreign.items()


def test_legacy_labels_come_when_asked_for_and_go_again(installed: Site) -> None:
    site = installed  # whatever it was installed with before: it is installed otherwise at once
    site.machine.become("jetson-agx-xavier")
    site.install({"publish.legacyLabels": True})
    wanted = {"gpu.model": "Jetson-AGX", "gpu.driver": "R32.7.4", "gpu.resource": "tegrastats"}
    wait_for("legacy labels", lambda: legacy(site) == wanted, site.disagreement)
    site.machine.become(NO_ACCELERATORS)
    wait_for("legacy labels to go", lambda: not legacy(site), site.disagreement)


def legacy(site: Site) -> dict[str, str]:
    """Return the labels without a prefix that are the agent's."""
    found = site.api.ask("GET", f"{CORE}/nodes/{site.name}")["metadata"]["labels"]
    return {key: value for key, value in found.items() if key in LEGACY_KEYS}
