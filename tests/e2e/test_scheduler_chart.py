"""The scheduler as shipped: installed by helm, it places a pod that runs; uninstalled, it leaves nothing."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo
from fairlead.compat.times import UTC
from fairlead.doctor.examine import examine
from fairlead.doctor.finding import Finding, Severity
from fairlead.doctor.read import ApiServerReviews, read
from fairlead.errors import ClusterError
from tests.e2e.api import CORE, Api, Document, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.e2e.pods import Pods
from tests.e2e.test_uninstall import lasting_objects
from tests.images import scheduler_archive

REPLICAS = f"{CORE}/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=scheduler"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fairlead-scheduler"


def test_installed_with_the_scheduler_a_pod_runs_and_an_uninstall_leaves_nothing(
    site: Site, pods: Pods
) -> None:
    site.lab.load(scheduler_archive())
    site.replay("server-t4")
    site.install({"scheduler.enabled": True})
    wait_for("two ready replicas", lambda: len(_ready(site)) == 2, site.diagnostics)
    wait_for("a leader", lambda: _holder(site), site.diagnostics)

    pods.start(["chosen"], {"fairlead.dev/gpu-mem": 2048}, scheduler="fairlead")
    pods.wait_running(["chosen"])
    chosen = pods.all()["chosen"]
    (share,) = json.loads(chosen["metadata"]["annotations"]["fairlead.dev/placement"])["shares"]
    assert pods.environ(["chosen"])["chosen"]["FAIRLEAD_DEVICE"] == share["device"]

    pods.start(["late"], {"fairlead.dev/gpu-mem": 99_999}, scheduler="fairlead")
    pods.wait_pending("late", "accelerators can take late")
    explanation = _explain(site, f"{pods.namespace}/late")
    assert (explanation["source"], explanation["state"], explanation["note"]) == (
        "scheduler",
        "unschedulable",
        "",
    )
    # A client that reaches the port without the pod's UID gets no information about the pod.
    address = site.api.request("GET", LEASE)["metadata"]["annotations"]["fairlead.dev/address"]
    reply = pods.run("chosen", f"wget -O- http://{address}/explain/{pods.namespace}/late")
    assert "401 Unauthorized" in reply
    assert "accelerators" not in reply

    # The only finding: all replicas are on one node.
    findings = asyncio.run(_examine(site))
    assert not [finding for finding in findings if finding.verdict is Severity.FAIL]
    assert "replicas" in {finding.check for finding in findings if finding.verdict is Severity.WARN}

    _assert_token_is_restricted_to_its_pods(site, pods)
    _assert_crash_is_found(site)

    pods.stop(pods.all())
    site.uninstall()
    wait_for("the replicas to end", lambda: not site.api.items(REPLICAS), site.diagnostics)
    left = {key: value for key, value in lasting_objects(site).items() if "fairlead" in value}
    assert not left, left
    assert site.api.get(LEASE) is None
    site.install()
    site.wait_published()


def _explain(site: Site, pod: str) -> Document:
    """Return the document of `fairlead explain` for a pod, as the administrator."""
    program = [sys.executable, "-c", "from fairlead.cli.main import run; run()"]
    command = [*program, "explain", pod, "--kubeconfig", str(site.lab.kubeconfig), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    (explanation,) = json.loads(done.stdout)
    return dict(explanation)


def _assert_token_is_restricted_to_its_pods(site: Site, pods: Pods) -> None:
    """Bind another scheduler's pod with the scheduler's own token: the webhook denies it."""
    pods.make([pods.manifest("foreign", {}, scheduler="another")])
    account = f"{CORE}/namespaces/{NAMESPACE}/serviceaccounts/fairlead-scheduler/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = site.api.request("POST", account, body)["status"]["token"]
    thief = Api(replace(site.lab.config, login=AuthInfo(token=token)))
    meta = {"name": "foreign", "uid": pods.all()["foreign"]["metadata"]["uid"]}
    binding = {"metadata": meta, "target": {"kind": "Node", "name": site.name}}
    with pytest.raises(ClusterError, match="fairlead-scheduler/own-pods"):
        thief.request("POST", f"{CORE}/namespaces/{pods.namespace}/pods/foreign/binding", binding)
    thief.close()


def _assert_crash_is_found(site: Site) -> None:
    """Install a policy that no image has: the doctor finds the crashing replicas, with their error."""
    site.install({"scheduler.enabled": True, "scheduler.ownPolicy": "nonsense"})

    def crashes() -> list[Finding]:
        findings = asyncio.run(_examine(site))
        return [
            finding for finding in findings if finding.check == "crashes" and finding.verdict is Severity.FAIL
        ]

    (crash,) = wait_for("the crash to be found", crashes, site.diagnostics)
    assert "unknown policy 'nonsense'" in crash.text


def _ready(site: Site) -> list[Document]:
    return [
        pod
        for pod in site.api.items(REPLICAS)
        if {"type": "Ready", "status": "True"}.items()
        <= next((c for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"), {}).items()
    ]


def _holder(site: Site) -> str:
    lease = site.api.get(LEASE)
    return str(lease["spec"].get("holderIdentity", "")) if lease else ""


async def _examine(site: Site) -> list[Finding]:
    async with Client.connect(site.lab.config) as client:
        return examine(await read(ApiServerReviews(client), client, datetime.now(UTC), "fairlead"))
