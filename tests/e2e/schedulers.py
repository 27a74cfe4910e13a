"""Our scheduler as a program beside the lab, and what it chose for pods."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from fairlead.keys import DEVICES, PLACEMENT, PLACEMENT_FORMAT
from fairlead.placement import parse_shares
from tests.e2e.api import CORE, Document, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.labs import LABEL

NAME = "fairlead"
_PROGRAM = [sys.executable, "-c", "from fairlead.cli.main import run; run()", "serve", "scheduler"]
_POLICY = ["--policy", "spread"]
"""Left to itself, the agent would fill one accelerator before the next."""
_ROLES = "/apis/rbac.authorization.k8s.io/v1"
_ROLE = "fairlead-test-handover"


@contextmanager
def scheduling(site: Site) -> Iterator[None]:
    """Run the scheduler until it is no longer needed; it must end by itself when it is told to."""
    log = site.lab.folder / "scheduler.log"
    command = [*_PROGRAM, *_POLICY, "--kubeconfig", str(site.lab.kubeconfig), "--listen", "127.0.0.1:0"]
    with log.open("w") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        wait_for("the scheduler to decide", lambda: "deciding" in log.read_text(), log.read_text)
        yield
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


@contextmanager
def handing_over(site: Site) -> Iterator[None]:
    """Give agents the right to get pods, as the chart does beside a scheduler."""
    meta = {"metadata": {"name": _ROLE}}
    agent = {"kind": "ServiceAccount", "name": "fairlead-agent", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    site.api.create(f"{_ROLES}/clusterroles", [{**meta, "rules": rules}])
    site.api.create(f"{_ROLES}/clusterrolebindings", [{**meta, "roleRef": role, "subjects": [agent]}])
    replace_agent(site)  # it would find out by itself, within a minute
    try:
        wait_for("the agent to promise it", lambda: promised(site), site.trouble)
        yield
    finally:
        site.api.delete([f"{_ROLES}/{kind}/{_ROLE}" for kind in ("clusterrolebindings", "clusterroles")])


@contextmanager
def unlisted(site: Site) -> Iterator[dict[str, str]]:
    """Take the agent's list from its node, and the right to write it anew: slices and labels are left.

    Yields a label that the node has from then on: a pod that selects it is placed by who knows of the change.
    """
    path = f"{_ROLES}/clusterroles/fairlead-agent"
    rules = site.api.ask("GET", path)["rules"]
    fewer = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "patch"]} for rule in rules]
    site.api.patch(path, {"rules": fewer})
    try:
        wait_for("the agent to lose its right", lambda: not _may_patch_nodes(site), site.trouble)
        label = {LABEL: "unlisted"}
        _change(site, labels=label, annotations={DEVICES: None, PLACEMENT_FORMAT: None})
        yield label
    finally:
        site.api.patch(path, {"rules": rules})
        wait_for("the agent to have its right", lambda: _may_patch_nodes(site), site.trouble)
        # The agent sees the change and writes at once, not within a minute.
        _change(site, labels={LABEL: None})
        wait_for("the agent to list its devices", lambda: promised(site), site.trouble)


def _may_patch_nodes(site: Site) -> bool:
    attributes = {"verb": "patch", "resource": "nodes", "name": site.name}
    spec = {"user": f"system:serviceaccount:{NAMESPACE}:fairlead-agent", "resourceAttributes": attributes}
    answer = site.api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(answer["status"]["allowed"])


def _change(site: Site, **metadata: Mapping[str, str | None]) -> None:
    site.api.patch(f"{CORE}/nodes/{site.name}", {"metadata": metadata})


def replace_agent(site: Site) -> None:
    """Ask the agent to go, without waiting for the next one."""
    names = [pod["metadata"]["name"] for pod in site.agents()]
    site.api.delete([f"{CORE}/namespaces/{NAMESPACE}/pods/{name}" for name in names], grace=5)


def promised(site: Site) -> bool:
    """Say whether the node's agent hands over what bindings note."""
    return bool(site.node()["metadata"].get("annotations", {}).get(PLACEMENT_FORMAT) == "1")


def chosen(pod: Document) -> tuple[str, str]:
    """Return the accelerator that the scheduler chose for a pod, and how many MiB of it."""
    shares = parse_shares(pod["metadata"].get("annotations", {}).get(PLACEMENT, ""))
    assert shares, pod["metadata"]
    (share,) = shares
    return share.device, "0" if share.whole else str(share.memory >> 20)
