"""An upgrade keeps running pods; an uninstall waits for held devices, leaves nothing, and can be undone."""

import json
from typing import Any

from fairlead.cli.main import main
from fairlead.keys import RETRACTING
from fairlead.lab.csi.objects import DRIVER
from tests.e2e.allocations import read_allocations
from tests.e2e.api import wait_for
from tests.e2e.install import NAMESPACE, RELEASE, Site
from tests.e2e.pods import Pods

FOLDERS = (
    "/run/cdi",
    "/var/lib/kubelet/plugins/fairlead.dev",
    "/var/lib/kubelet/plugins_registry/fairlead.dev",
)
PASSING = {"Event", "Pod", "EndpointSlice", "ControllerRevision", "Lease", "ReplicaSet", "PodMetrics"}
"""Kinds whose objects controllers create and delete."""


def test_an_upgrade_keeps_running_pods_and_an_uninstall_leaves_nothing(site: Site, pods: Pods) -> None:
    site.replay("server-t4")
    pods.template("some", 1024)
    pods.start(["share"], {"fairlead.dev/gpu-mem": 2048})
    pods.start(["claim"], claim="some")
    pods.wait_running(["share", "claim"])
    before, uids = read_allocations(site).of(pods.namespace), ids(pods)

    site.install({"agent.sample": "2s", "cleanup.waitSeconds": 0})
    assert read_allocations(site).of(pods.namespace) == before
    assert ids(pods) == uids
    wait_for("the slice", lambda: site.offered() == {"pci-0000-3b-00-0": 16384 - 2048}, site.differences)

    assert_uninstall_fails_while_held(site, pods)
    assert ids(pods) == uids, "a failed uninstall changes nothing"
    assert main(["retract", "--force", "--yes", "--kubeconfig", str(site.lab.kubeconfig)]) == 0
    assert claim_files(site) == [], "the agent has unprepared the claims"
    wait_for("the pods to be deleted", lambda: not pods.all().keys() & {"share", "claim"}, pods.explain)
    pods.start(["again"], {"fairlead.dev/gpu-mem": 2048})
    pods.wait_pending("again", "untolerated taint")

    site.uninstall()
    assert [name for name, pod in pods.all().items() if "deletionTimestamp" in pod["metadata"]] == []
    assert RETRACTING not in json.dumps(site.node()["spec"])
    left = {key: value for key, value in lasting_objects(site).items() if "fairlead" in value}
    assert not left, left
    node = site.node()
    assert "fairlead" not in json.dumps([node["metadata"].get("labels"), own_annotations(node)])
    # A kubelet remembers a plugin's resources for five minutes; none are allocatable.
    assert site.allocatable() == {}
    assert files(site) == []

    pods.stop(["again"])
    site.install()
    site.wait_published()


def assert_uninstall_fails_while_held(site: Site, pods: Pods) -> None:
    """Uninstall while pods hold devices: it fails, names them, and says what to do."""
    done = site.try_helm("uninstall", RELEASE)
    assert done.returncode != 0
    output = " ".join(f"{done.stdout}\n{done.stderr}".split())
    assert len(claim_files(site)) == 1
    assert f"pod {pods.namespace}/claim on {site.name} (claim claim-it-" in output
    assert f"pod {pods.namespace}/share on {site.name} (fairlead.dev/gpu-mem)" in output
    assert "`fairlead retract --force --yes`" in output
    assert site.ready_agent()
    assert site.labels()


def ids(pods: Pods) -> dict[str, Any]:
    """Return the UID and the restart counts of each pod."""
    return {
        name: (
            pod["metadata"]["uid"],
            [status["restartCount"] for status in pod["status"]["containerStatuses"]],
        )
        for name, pod in pods.all().items()
    }


def own_annotations(node: dict[str, Any]) -> dict[str, str]:
    """Return the annotations of a node, without the volume driver of the lab that the kubelet lists."""
    annotations = node["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if DRIVER not in text}


def files(site: Site) -> list[str]:
    """Return every file of fairlead on the node."""
    paths = site.lab.run("find", *FOLDERS, "!", "-type", "d").stdout.split()
    return [path for path in paths if "fairlead" in path]


def claim_files(site: Site) -> list[str]:
    """Return the CDI files of claims."""
    return [path for path in files(site) if path.startswith("/run/cdi/fairlead.dev-claim")]


def lasting_objects(site: Site) -> dict[str, str]:
    """Return every object of the cluster that an uninstall could leave, by kind and name."""
    objects = {}
    for path in kinds(site):
        for item in site.api.items(path):
            name = f"{path}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            if item["metadata"].get("namespace") != NAMESPACE or "fairlead" in item["metadata"]["name"]:
                objects[name] = f"{name} {json.dumps(item['metadata'].get('labels', {}))}"
    others = (f"/namespaces//{NAMESPACE}", f"/csidrivers//{DRIVER}")  # the volumes are the lab's own
    return {key: text for key, text in objects.items() if not key.endswith(others)}


def kinds(site: Site) -> list[str]:
    """Return the list path of every kind of the API server."""
    groups = site.api.request("GET", "/apis")["groups"]
    versions = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    return [
        f"{version}/{row['name']}"
        for version in versions
        for row in site.api.request("GET", version)["resources"]
        if "list" in row["verbs"] and row["kind"] not in PASSING
    ]
