"""Fairlead's scheduler as a program outside of the lab, and its choices for pods."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from fairlead.keys import DEVICES, PLACEMENT, PLACEMENT_FORMAT
from fairlead.placement import parse_shares
from tests.e2e.api import CORE, Document, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.labs import LABEL, RealNode

NAME = "fairlead"
_PROGRAM = [sys.executable, "-c", "from fairlead.cli.main import run; run()", "serve", "scheduler"]
_POLICY = ["--policy", "spread"]
"""Without a placement, the agent would fill one accelerator before the next."""
_ROLES = "/apis/rbac.authorization.k8s.io/v1"
_ROLE = "fairlead-test-handover"


@contextmanager
def running_scheduler(node: RealNode, *options: str) -> Iterator[None]:
    """Run the scheduler during the block, with other options than usual; it must exit on SIGTERM."""
    log = node.folder / "scheduler.log"
    command = [
        *_PROGRAM,
        *(options or _POLICY),
        "--kubeconfig",
        str(node.kubeconfig),
        "--listen",
        "127.0.0.1:0",
    ]
    with log.open("w") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        wait_for("the scheduler to decide", lambda: "deciding" in log.read_text(), log.read_text)
        yield
        process.terminate()
        assert process.wait(300) == 0, log.read_text()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


@contextmanager
def placement_rights(site: Site) -> Iterator[None]:
    """Give agents the permission to get pods, as the chart does with a scheduler."""
    meta = {"metadata": {"name": _ROLE}}
    agent = {"kind": "ServiceAccount", "name": "fairlead-agent", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    site.api.create(f"{_ROLES}/clusterroles", [{**meta, "rules": rules}])
    site.api.create(f"{_ROLES}/clusterrolebindings", [{**meta, "roleRef": role, "subjects": [agent]}])
    replace_agent(site)  # otherwise it would notice within a minute
    try:
        wait_for("the agent to honour placements", lambda: honours_placements(site), site.diagnostics)
        yield
    finally:
        site.api.delete([f"{_ROLES}/{kind}/{_ROLE}" for kind in ("clusterrolebindings", "clusterroles")])


@contextmanager
def without_annotations(site: Site) -> Iterator[dict[str, str]]:
    """Remove the agent's annotations from its node, and its permission to write them: slices and labels stay.

    Yields a new label of the node: a scheduler that has observed the change places a pod that selects it.
    """
    path = f"{_ROLES}/clusterroles/fairlead-agent"
    rules = site.api.request("GET", path)["rules"]
    fewer = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "patch"]} for rule in rules]
    site.api.patch(path, {"rules": fewer})
    try:
        wait_for("the agent to lose its permission", lambda: not _may_patch_nodes(site), site.diagnostics)
        label = {LABEL: "without_annotations"}
        _change(site, labels=label, annotations={DEVICES: None, PLACEMENT_FORMAT: None})
        yield label
    finally:
        site.api.patch(path, {"rules": rules})
        wait_for("the agent to have its permission", lambda: _may_patch_nodes(site), site.diagnostics)
        # The agent observes the change and writes at once, not within a minute.
        _change(site, labels={LABEL: None})
        wait_for("the agent to list its devices", lambda: honours_placements(site), site.diagnostics)


def _may_patch_nodes(site: Site) -> bool:
    attributes = {"verb": "patch", "resource": "nodes", "name": site.name}
    spec = {"user": f"system:serviceaccount:{NAMESPACE}:fairlead-agent", "resourceAttributes": attributes}
    review = site.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(review["status"]["allowed"])


def _change(site: Site, **metadata: Mapping[str, str | None]) -> None:
    site.api.patch(f"{CORE}/nodes/{site.name}", {"metadata": metadata})


def replace_agent(site: Site) -> None:
    """Delete the agent's pod, without waiting for the next one."""
    names = [pod["metadata"]["name"] for pod in site.agents()]
    site.api.delete([f"{CORE}/namespaces/{NAMESPACE}/pods/{name}" for name in names], grace=5)


def honours_placements(site: Site) -> bool:
    """Return whether the node's agent allocates by the placements of bindings."""
    return bool(site.node()["metadata"].get("annotations", {}).get(PLACEMENT_FORMAT) == "1")


def chosen_share(pod: Document) -> tuple[str, str]:
    """Return the accelerator that the scheduler chose for a pod, and its MiB."""
    shares = parse_shares(pod["metadata"].get("annotations", {}).get(PLACEMENT, ""))
    assert shares, pod["metadata"]
    (share,) = shares
    return share.device, "0" if share.whole else str(share.memory >> 20)
