"""Upgrade keeps what runs; uninstall waits for what is held and leaves nothing; then install works again."""

import json
from typing import Any

from fairlead.cli.main import main
from fairlead.keys import RETRACTING
from tests.e2e.api import wait_for
from tests.e2e.install import NAMESPACE, RELEASE, Site
from tests.e2e.pods import Pods
from tests.e2e.truth import truth

FOLDERS = (
    "/run/cdi",
    "/var/lib/kubelet/plugins/fairlead.dev",
    "/var/lib/kubelet/plugins_registry/fairlead.dev",
)
PASSING = {"Event", "Pod", "EndpointSlice", "ControllerRevision", "Lease", "ReplicaSet", "PodMetrics"}
"""Kinds whose objects come and go by themselves."""


def test_an_upgrade_keeps_what_runs_and_an_uninstall_leaves_nothing(site: Site, pods: Pods) -> None:
    site.become("server-t4")
    pods.template("some", 1024)
    pods.start(["share"], {"fairlead.dev/gpu-mem": 2048})
    pods.start(["claim"], claim="some")
    pods.wait_running(["share", "claim"])
    before, uids = truth(site).of(pods.namespace), ids(pods)

    site.install({"agent.sample": "2s", "cleanup.waitSeconds": 0})
    assert truth(site).of(pods.namespace) == before
    assert ids(pods) == uids
    wait_for("the slice", lambda: site.offered() == {"pci-0000-3b-00-0": 16384 - 2048}, site.disagreement)

    refused_while_held(site, pods)
    assert ids(pods) == uids, "an uninstall that fails has harmed nothing"
    assert main(["retract", "--force", "--yes", "--kubeconfig", str(site.lab.kubeconfig)]) == 0
    assert claim_files(site) == [], "the agent has let go of the claims"
    wait_for("the pods to go", lambda: not pods.all().keys() & {"share", "claim"}, pods.explain)
    pods.start(["again"], {"fairlead.dev/gpu-mem": 2048})
    pods.wait_pending("again", "untolerated taint")

    site.uninstall()
    assert [name for name, pod in pods.all().items() if "deletionTimestamp" in pod["metadata"]] == []
    assert RETRACTING not in json.dumps(site.node()["spec"])
    left = {key: value for key, value in things(site).items() if "fairlead" in value}
    assert not left, left
    node = site.node()
    assert "fairlead" not in json.dumps([node["metadata"].get("labels"), node["metadata"].get("annotations")])
    # A kubelet remembers for five minutes what a plugin had; it offers nothing of it.
    assert site.allocatable() == {}
    assert files(site) == []

    pods.stop(["again"])
    site.install()
    site.settled()


def refused_while_held(site: Site, pods: Pods) -> None:
    """Try to uninstall while pods hold devices: it fails, names them, and says what to do."""
    done = site.try_helm("uninstall", RELEASE)
    assert done.returncode != 0
    said = " ".join(f"{done.stdout}\n{done.stderr}".split())
    assert len(claim_files(site)) == 1
    assert f"pod {pods.namespace}/claim on {site.name} (claim claim-it-" in said
    assert f"pod {pods.namespace}/share on {site.name} (fairlead.dev/gpu-mem)" in said
    assert "`fairlead retract --force --yes`" in said
    assert site.ready_agent()
    assert site.labels()


def ids(pods: Pods) -> dict[str, Any]:
    """Return what tells a pod from one that took its place, and how often it was started."""
    return {
        name: (pod["metadata"]["uid"], [each["restartCount"] for each in pod["status"]["containerStatuses"]])
        for name, pod in pods.all().items()
    }


def files(site: Site) -> list[str]:
    """Return every file of ours that the node still has."""
    found = site.lab.run("find", *FOLDERS, "!", "-type", "d").stdout.split()
    return [path for path in found if "fairlead" in path]


def claim_files(site: Site) -> list[str]:
    """Return the CDI files by which containers have what a claim gave them."""
    return [path for path in files(site) if path.startswith("/run/cdi/fairlead.dev-claim")]


def things(site: Site) -> dict[str, str]:
    """Return every object of the cluster that may stay, by kind and name."""
    found = {}
    for path in kinds(site):
        for item in site.api.items(path):
            name = f"{path}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            if item["metadata"].get("namespace") != NAMESPACE or "fairlead" in item["metadata"]["name"]:
                found[name] = f"{name} {json.dumps(item['metadata'].get('labels', {}))}"
    return {key: text for key, text in found.items() if not key.endswith(f"/namespaces//{NAMESPACE}")}


def kinds(site: Site) -> list[str]:
    """Return where every kind of the server is listed."""
    groups = site.api.ask("GET", "/apis")["groups"]
    versions = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    return [
        f"{version}/{row['name']}"
        for version in versions
        for row in site.api.ask("GET", version)["resources"]
        if "list" in row["verbs"] and row["kind"] not in PASSING
    ]
