"""Shared by benchmarks on a lab: the lab itself, replayed machines, and the writes of its API server."""

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
def run_lab(spec: LabSpec) -> Iterator[Lab]:
    """Run a lab while the block runs."""
    where = home.default(os.environ)
    lab = up(where, spec, StepPrinter(sys.stderr))
    try:
        yield lab
    finally:
        down(where, lab.name)


def apply(lab: Lab, text: str) -> None:
    """Apply manifests to the lab by `kubectl apply`."""
    kubectl = build(["kubectl"], StepPrinter(sys.stderr))["kubectl"]
    env = {**os.environ, "KUBECONFIG": str(lab.kubeconfig), "KUBECACHEDIR": str(lab.folder / "kubectl")}
    command = [str(kubectl), "apply", "-f", "-"]
    subprocess.run(command, input=text, env=env, stdout=subprocess.DEVNULL, text=True, check=True)


def machines() -> list[str]:
    """Return the names of the machines that can be replayed."""
    return sorted(folder.name for folder in HOSTS.iterdir() if (folder / "expected.json").exists())


def detect_machine(machine: str, catalog: Catalog) -> Inventory:
    """Return the inventory of a replayed machine."""
    host = Host(str(HOSTS / machine / "root"))
    return detect(host, catalog, read_gpus(host))


async def node_writes(client: Client) -> int:
    """Return how many writes of nodes and slices the API server counted, without those of a node's status."""
    page = (await client.request("GET", "/metrics")).decode()
    writes = 0
    for text, value in _REQUEST.findall(page):
        labels = dict(_LABEL.findall(text))
        if labels["verb"] in _WRITES and labels["resource"] in _PUBLISHED and not labels["subresource"]:
            writes += int(float(value))
    return writes
