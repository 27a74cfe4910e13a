"""User namespaces around all three containers: root of the pod is unprivileged on the node."""

from pathlib import Path

import pytest

from fairlead.detect import detect
from fairlead.host import Host
from fairlead.publish.labels import labels
from tests import catalogs
from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.test_privileges import find


@pytest.fixture
def in_user_namespaces(installed: Site) -> Site:
    """Return the node with fairlead in user namespaces; the next test installs the default values."""
    installed.install({"userNamespaces": True, "replay.root": ""})
    return installed


def test_all_containers_run_in_a_user_namespace(in_user_namespaces: Site) -> None:
    processes = wait_for(
        "the agent's processes", lambda: find(in_user_namespaces), in_user_namespaces.diagnostics
    )
    for name, process in processes.items():
        inside, outside, _ = (process / "uid_map").read_text(encoding="ascii").split()
        assert (inside, int(outside) > 0) == ("0", True), name
        assert uid_of(process) == outside, "root inside is an unprivileged user on the node"
    expected = labels(detect(Host(dev=False), catalogs.shipped()))
    wait_for(
        "this machine's labels",
        lambda: in_user_namespaces.labels().items() >= expected.items(),
        in_user_namespaces.diagnostics,
    )
    wait_for(
        "the kubelet to register its driver",  # possibly later than the labels are published
        lambda: (
            'fairlead_plugin_registered{resource="claims"} 1.0'
            in in_user_namespaces.exec("python3", "-c", METRICS).stdout
        ),
        in_user_namespaces.diagnostics,
    )


METRICS = "import urllib.request as web; print(web.urlopen('http://127.0.0.1:19809/metrics').read().decode())"


def uid_of(process: Path) -> str:
    status = (process / "status").read_text(encoding="utf-8")
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
