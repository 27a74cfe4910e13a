"""A lab with one node for the image job: the pod of the bare command, and a session of pods."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from fairlead.augmentobjects.names import application_name, store_name
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.augmentobjects.status import node_addresses
from fairlead.augmentobjects.wiring import url_of
from fairlead.compat.times import UTC
from fairlead.errors import EmulationError, LabError
from fairlead.invite import INVITE_LIFE, mint_invite
from fairlead.keys import AUGMENTATION
from fairlead.lab.build.prerequisites import build, gather
from fairlead.lab.node import namespaces
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.kubectl import kubectl, kubectl_words
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from fairlead.labaugment import objects
from fairlead.labaugment.host import HostPython, this_python
from fairlead.labaugment.objects import BARE, NAMESPACE
from fairlead.ownedobjects.issuer import AuthorityIssuer
from fairlead.reproduce.augment.session import (
    DEVICE_NAME,
    ReproducedSession,
    quota_mebibytes,
    run_command,
)

_PATIENCE: Final = "180s"
_JOIN_S: Final = 60.0
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AugmentSite:
    """A node that takes pods with the Python of this machine."""

    lab: Lab
    kubectl_program: Path
    python: HostPython

    def kubectl(self, *words: str, text: str = "") -> str:
        """Run kubectl in the namespace, which must succeed, and return its output."""
        return kubectl(self.lab, self.kubectl_program, [*words, "-n", NAMESPACE], text)

    def apply(self, *items: Mapping[str, Any]) -> None:
        """Create objects."""
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        self.kubectl("apply", "-f", "-", text=json.dumps(listed))

    def await_ready(self, *pods: str) -> None:
        """Wait until pods are ready; LabError says how they are instead."""
        names = [f"pod/{name}" for name in pods]
        try:
            self.kubectl("wait", "--for=condition=Ready", *names, f"--timeout={_PATIENCE}")
        except LabError as error:
            raise LabError(f"{error}; {self.story()}") from None

    def in_pod(self, name: str) -> tuple[str, ...]:
        """Return how a command line begins that runs in a pod."""
        start = kubectl_words(self.lab, self.kubectl_program)
        return (*start, "exec", "-i", "-n", NAMESPACE, name, "--")

    def enter(self, words: Sequence[str]) -> list[str]:
        """Return a command line that runs where the node's network is."""
        return namespaces.enter_network(self.lab.namespaces[0], words)

    def story(self) -> str:
        """Return how the pods are, in one line."""
        columns = "custom-columns=N:.metadata.name,P:.status.phase,R:.status.containerStatuses[*].ready"
        try:
            lines = self.kubectl("get", "pods", "--no-headers", "-o", columns).splitlines()
            lines += self.kubectl("logs", "-l", AUGMENTATION, "--tail=2", "--prefix").splitlines()
        except LabError as error:
            return str(error)
        return "the pods say: " + "; ".join(" ".join(line.split()) for line in lines)


def obstacle() -> str:
    """Return why no lab can run here; empty if one can."""
    return namespaces.obstacle(home.default(os.environ).root)


def prepare(steps: StepPrinter) -> None:
    """Build what a lab needs and this user has not built yet: minutes, once."""
    gather(LabProfile.NODE, steps, kwok=False, more=("kubectl",))


@contextmanager
def augment_site(steps: StepPrinter) -> Iterator[AugmentSite]:
    """Run a lab with one node during the block; nothing is left of it."""
    if no_lab := obstacle():
        raise LabError(f"no lab can run here: {no_lab}")
    where = home.default(os.environ)
    lab = up(where, LabSpec(LabProfile.NODE, f"augment-{os.getpid()}", owner=os.getpid()), steps)
    try:
        site = AugmentSite(lab, build(["kubectl"], steps)["kubectl"], this_python())
        site.apply(objects.namespace())
        site.kubectl("wait", "--for=create", "serviceaccount/default", f"--timeout={_PATIENCE}")
        yield site
    finally:
        down(where, lab.name)


def start_bare(site: AugmentSite, inputs: Sequence[str], results: Path) -> None:
    """Start the pod in which the bare command is run, as the user who runs this."""
    site.apply(objects.bare_pod(site.python, inputs, str(results), os.getuid()))
    site.await_ready(BARE)


def start_session(
    site: AugmentSite, inputs: Sequence[str], environ: Mapping[str, str], folder: Path, size: int
) -> ReproducedSession:
    """Return a session whose store and worker are pods, once a device has joined from the node's network."""
    resource = objects.new_resource(quota_mebibytes(size), environ, DEVICE_NAME)
    place = site.lab.folder / "volume"
    place.mkdir()
    os.chown(place, resource.user, resource.user)
    made = objects.augmentation_objects(resource, site.python, inputs, AuthorityIssuer(), datetime.now(UTC))
    site.apply(objects.volume(resource, place), *made)
    site.await_ready(store_name(resource.name), application_name(resource.name))
    folder.mkdir()
    _join(site, resource, made, folder)
    return ReproducedSession(
        folder,
        lambda: list(json.loads(run_command(folder, ["augment", "jobs", "-o", "json"], site.enter))),
        lambda environ: nullcontext(),  # the worker is in its pod all the time
        site.enter,
    )


def _join(site: AugmentSite, resource: AugmentationResource, made: Sequence[Json], folder: Path) -> None:
    """Let the device join; a node forwards to a store some moments after that is ready."""
    key, pin = objects.invite_key(made, resource), objects.store_fingerprint(made, resource)
    until = time.monotonic() + _JOIN_S
    while True:
        token = mint_invite(key, time.time() + INVITE_LIFE, DEVICE_NAME)
        words = ["device", "join", _url(site, resource), "--token", token, "--fingerprint", pin]
        try:
            run_command(folder, [*words, "--name", DEVICE_NAME], site.enter)
            return
        except EmulationError as error:
            if time.monotonic() > until:
                raise LabError(f"{error}; {site.story()}") from None
            time.sleep(1)


def _url(site: AugmentSite, resource: AugmentationResource) -> str:
    """Return where a device finds the store."""
    service = json.loads(site.kubectl("get", "service", store_name(resource.name), "-o", "json"))
    nodes = json.loads(site.kubectl("get", "nodes", "-o", "json"))["items"]
    return url_of(resource, service, node_addresses(nodes), nodes[0]["metadata"]["name"])
