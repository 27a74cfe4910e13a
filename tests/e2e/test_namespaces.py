"""The mode in which root of the pod is nobody on the node: a user namespace around all three parts."""

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
def apart(installed: Site) -> Site:
    """Return the node with fairlead in user namespaces; the next test installs it as most people do."""
    installed.install({"userNamespaces": True, "replay.root": ""})
    return installed


def test_all_of_it_runs_in_a_user_namespace_of_its_own(apart: Site) -> None:
    processes = wait_for("the agent's processes", lambda: find(apart), apart.trouble)
    for name, process in processes.items():
        inside, outside, _ = (process / "uid_map").read_text(encoding="ascii").split()
        assert (inside, int(outside) > 0) == ("0", True), name
        assert uid_of(process) == outside, "whoever it is inside, on the node it is nobody"
    found = labels(detect(Host(dev=False), catalogs.shipped()))
    wait_for("this machine's labels", lambda: apart.labels().items() >= found.items(), apart.trouble)
    wait_for(
        "the kubelet to know its driver",  # which it may hear of later than the server of the labels
        lambda: (
            'fairlead_plugin_registered{resource="claims"} 1.0' in apart.exec("python3", "-c", METRICS).stdout
        ),
        apart.trouble,
    )


METRICS = "import urllib.request as web; print(web.urlopen('http://127.0.0.1:19809/metrics').read().decode())"


def uid_of(process: Path) -> str:
    status = (process / "status").read_text(encoding="utf-8")
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
