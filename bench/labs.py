"""What benchmarks on a lab share: the lab itself, replayed machines, and what its API server has seen."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import Host
from fairlead.inventory import Inventory
from fairlead.lab.build.prerequisites import build
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.state import Lab
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up

HOUSE = Path(__file__).parent.parent
HOSTS = HOUSE / "tests" / "hosts"
CHART = HOUSE / "deploy" / "chart"
MANIFESTS = HOUSE / "deploy" / "manifests" / "fairlead.yaml"
NAMESPACE, ACCOUNT = "fairlead-system", "fairlead-agent"
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_PUBLISHED = frozenset({"nodes", "resourceslices"})
_REQUEST = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@contextmanager
def run_lab(wish: LabSpec) -> Iterator[Lab]:
    """Run a lab for as long as it is needed."""
    where = home.default(os.environ)
    lab = up(where, wish, StepPrinter(sys.stderr))
    try:
        yield lab
    finally:
        down(where, lab.name)


def apply(lab: Lab, text: str) -> None:
    """Give manifests to the lab's API server, as `kubectl apply` does."""
    kubectl = build(["kubectl"], StepPrinter(sys.stderr))["kubectl"]
    env = {**os.environ, "KUBECONFIG": str(lab.kubeconfig), "KUBECACHEDIR": str(lab.folder / "kubectl")}
    command = [str(kubectl), "apply", "-f", "-"]
    subprocess.run(command, input=text, env=env, stdout=subprocess.DEVNULL, text=True, check=True)


def machines() -> list[str]:
    """Return the name of every machine that can be replayed."""
    return sorted(folder.name for folder in HOSTS.iterdir() if (folder / "expected.json").exists())


def detect_machine(machine: str, catalog: Catalog) -> Inventory:
    """Return what discovery finds on a replayed machine."""
    host = Host(str(HOSTS / machine / "root"))
    return detect(host, catalog, read_gpus(host))


async def node_writes(client: Client) -> int:
    """Return how many writes the API server has seen, of nodes and of slices; of a node's status none."""
    page = (await client.request("GET", "/metrics")).decode()
    found = 0
    for labels, value in _REQUEST.findall(page):
        said = dict(_LABEL.findall(labels))
        if said["verb"] in _WRITES and said["resource"] in _PUBLISHED and not said["subresource"]:
            found += int(float(value))
    return found
