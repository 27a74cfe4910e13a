"""A lab whose two nodes are an edge and a server, with the operator, for pipelines that are measured."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.keys import PIPELINE_HOST
from fairlead.lab.build.prerequisites import build, gather
from fairlead.lab.node import cgroups, inside, namespaces
from fairlead.lab.node.load import load
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.kubectl import kubectl, output
from fairlead.lab.run.state import Lab, LabProfile, NodeNamespaces
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from fairlead.labpipeline import link, objects
from fairlead.labpipeline.images import PipelineImages
from fairlead.labpipeline.objects import EDGE_NUMBER, NAMESPACE, NODES, OPERATOR_NAMESPACE, TAINT, USER
from fairlead.reproduce.emulation.quota import hold_group
from fairlead.reproduce.thesis.application import EDGE
from fairlead.reproduce.thesis.experiment import Emulation

_FAIRLEAD: Final = (sys.executable, "-m", "fairlead")
_PATIENCE: Final = "180s"
_READ: Final = (
    "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1], timeout=5).read().decode())"
)


@dataclass(frozen=True, slots=True)
class PodSite:
    """An edge and a server that take pipelines."""

    lab: Lab
    folder: Path
    """Of this machine: below it, by host, what the pods write."""
    kubectl_program: Path
    quota: str = ""
    """How the edge is held to its part of a CPU."""
    namespace: str = NAMESPACE
    nodes: Mapping[str, str] = field(default_factory=lambda: NODES)
    """By host: its node."""

    @property
    def server(self) -> NodeNamespaces:
        """The node of the coordinator."""
        return self.lab.namespaces[0]

    @property
    def edge(self) -> NodeNamespaces:
        """The node of the camera."""
        return self.lab.namespaces[EDGE_NUMBER - 1]

    @property
    def edge_group(self) -> str:
        """The control group of the edge's pods."""
        return f"{cgroups.name_prefix(self.lab.folder)}{EDGE_NUMBER}"

    def data(self, host: str) -> Path:
        """Return the folder of this machine that is the claim of a host."""
        return self.folder / host

    def make_claims(self) -> None:
        """Make the folders, and the claims of the namespace."""
        for host in self.nodes:
            self.data(host).mkdir(parents=True)
            os.chown(self.data(host), USER, USER)
        folders = {host: self.data(host) for host in self.nodes}
        self.kubectl("apply", "-f", "-", text=objects.claims(self.namespace, folders))

    def kubectl(self, *words: str, text: str = "") -> str:
        """Run kubectl, which must succeed, and return its output."""
        return kubectl(self.lab, self.kubectl_program, words, text)

    def fairlead(self, *words: str) -> str:
        """Run a verb of `fairlead pipeline` in the namespace, which must succeed, and return its output."""
        where = ("--kubeconfig", str(self.lab.kubeconfig), "-n", self.namespace)
        return output([*_FAIRLEAD, *words, *where], f"fairlead {' '.join(words[:2])}", self.lab)

    def page(self, host: str, port: int, path: str) -> str:
        """Return a page of the pod of a host."""
        label = f"{PIPELINE_HOST}={host}"
        words = ("get", "pods", "-n", self.namespace, "-l", label, "-o", "jsonpath={.items[0].status.podIP}")
        url = f"http://{self.kubectl(*words)}:{port}{path}"
        done = inside.run_in_network(self.server, [sys.executable, "-I", "-c", _READ, url])
        if done.returncode:
            raise LabError(f"{url}: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}")
        return done.stdout


def obstacle() -> str:
    """Return why no such lab can run here, and what to do; empty if it can."""
    for tool, package in {"tc": "iproute2", "setpriv": "util-linux"}.items():
        if shutil.which(tool) is None:
            return f"{tool} is missing: install the package {package}"
    return namespaces.obstacle(home.default(os.environ).root)


def prepare(steps: StepPrinter) -> None:
    """Build what a lab needs and this user has not built yet: minutes, once."""
    gather(LabProfile.NODE, steps, kwok=False, more=("kubectl", "ctr"))


@contextmanager
def pod_site(images: PipelineImages, settings: Emulation, steps: StepPrinter) -> Iterator[PodSite]:
    """Run a lab with an edge, a server and the link between them during the block; nothing is left of it."""
    where = home.default(os.environ)
    spec = LabSpec(LabProfile.NODE, f"cuts-{os.getpid()}", nodes=2, owner=os.getpid())
    with ExitStack() as stack:
        lab = up(where, spec, steps)
        stack.callback(down, where, lab.name)
        with steps.step("images and operator"):
            site = _installed(lab, images, steps)
        if settings.delay_s or settings.loss:
            stack.enter_context(link.relayed(lab, EDGE_NUMBER, settings.delay_s, settings.loss))
        link.set_rate(lab, EDGE_NUMBER, settings.bits_per_s)
        quota = hold_group(site.edge_group, settings.edge_cpu)
        yield replace(site, quota=quota)


def _installed(lab: Lab, images: PipelineImages, steps: StepPrinter) -> PodSite:
    """Install the operator as the tutorial does, and make the claims."""
    programs = build(["kubectl", "ctr"], steps)
    site = PodSite(lab, lab.folder / "claims", programs["kubectl"])
    load(lab, images.archives, programs["ctr"])
    # What the cluster itself runs moves to the server: the edge is to have nothing but its stages.
    site.kubectl("taint", "nodes", NODES[EDGE], f"{TAINT}=:NoExecute")
    site.kubectl("apply", "-f", "-", text=objects.namespaces(OPERATOR_NAMESPACE, NAMESPACE))
    site.make_claims()
    parts = output([*_FAIRLEAD, "manifests", "pipelines", "operator"], "fairlead manifests", lab)
    site.kubectl("apply", "-f", "-", text=parts)
    for namespace, name in ((OPERATOR_NAMESPACE, "fairlead-operator"), ("kube-system", "coredns")):
        rollout = ("rollout", "status", "-n", namespace, f"deployment/{name}", "--timeout", _PATIENCE)
        site.kubectl(*rollout)
    return site
