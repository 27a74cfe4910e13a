"""A real API server accepts the chart: every set of values as a dry run, one installation for real."""

import asyncio
import copy
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import render
from fairlead.cluster.client import Client
from fairlead.errors import ClusterError
from fairlead.lab.control import helm as lab_helm
from fairlead.modelprofiles.types import MODEL_PROFILES
from tests.deploy.chart.charts import OPTIONS, Chart, Document, one
from tests.deploy.chart.worlds import KINDS
from tests.labs import RealApi, RealCluster

ELSEWHERE = {"PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which is not installed."""
OURS = "app.kubernetes.io/part-of=fairlead"


async def dry_run(client: Client, document: Document) -> None:
    """Apply a document as `kubectl apply --server-side --dry-run=server --validate=strict` does."""
    kind, metadata = KINDS[document["kind"]], document["metadata"]
    await client.request(
        "PATCH",
        kind.path(metadata.get("namespace"), metadata["name"]),
        query={"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test", "force": "true"},
        body=json.dumps(document).encode(),
        content_type="application/apply-patch+yaml",
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_the_api_server_accepts_every_set_of_values(
    name: str, chart: Chart, real_cluster: RealCluster
) -> None:
    documents = chart.render(OPTIONS[name], namespace=real_cluster.namespace)

    async def send() -> None:
        async with real_cluster.connect() as client:
            for document in documents:
                if document["kind"] not in ELSEWHERE:
                    await dry_run(client, document)

    asyncio.run(send())


MISTAKES = {
    "a misspelt field": (("spec", "template", "spec", "hostNetwrok"), True, "hostNetwrok"),
    "a value of the wrong type": (("spec", "template", "spec", "hostUsers"), "no", "hostUsers"),
    "a mount without a volume": (("spec", "template", "spec", "volumes"), [], "volumeMounts"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_dry_run_finds_mistakes(what: str, chart: Chart, real_cluster: RealCluster) -> None:
    (*path, last), value, words = MISTAKES[what]
    document = copy.deepcopy(
        one(chart.render({}, namespace=real_cluster.namespace), "DaemonSet", "fairlead-agent")
    )
    place = document
    for step in path:
        place = place[step]
    place[last] = value

    async def send() -> None:
        async with real_cluster.connect() as client:
            with pytest.raises(ClusterError, match=words):
                await dry_run(client, document)

    asyncio.run(send())


class Helm:
    """Helm on the lab's API server."""

    def __init__(self, program: Path, api: RealApi, namespace: str) -> None:
        assert api.lab is not None
        self._program = program
        self._namespace = namespace
        self._environment = lab_helm.environment(api.lab, os.environ)

    def __call__(self, *words: str) -> str:
        """Run helm in the test's namespace."""
        command = [str(self._program), *words, "--namespace", self._namespace]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def helm(chart: Chart, real_cluster: RealCluster) -> Iterator[Helm]:
    """Return helm for the lab: an installation uses names that a cluster can have once."""
    if real_cluster.api.lab is None:
        pytest.skip("a cluster of the user's own may have its own installation")
    helm = Helm(chart.helm, real_cluster.api, real_cluster.namespace)
    yield helm
    helm("uninstall", render.RELEASE, "--ignore-not-found", "--no-hooks")


def test_install_upgrade_and_uninstall_leave_only_profiles(helm: Helm, real_cluster: RealCluster) -> None:
    # No pods run here, so the cleanup job would wait forever: tests with real nodes run it.
    options = ("--set", "cleanup.enabled=false")
    place = str(render.CHART)
    notes = helm("install", render.RELEASE, place, *options)
    assert "pod-security.kubernetes.io/enforce=privileged" in notes
    first = asyncio.run(_list_own(real_cluster))
    assert {kind for kind, _ in first} == {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DaemonSet",
        "DeviceClass",
        "NetworkPolicy",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    helm(
        "upgrade", render.RELEASE, place, *options, "--set", "publish.legacyLabels=true,publish.claims=false"
    )
    second = asyncio.run(_list_own(real_cluster))
    gone = first - second
    assert {kind for kind, _ in gone} == {
        "DeviceClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    assert ("ValidatingAdmissionPolicy", "fairlead-agent-slices") in gone
    helm("uninstall", render.RELEASE)
    assert asyncio.run(_list_own(real_cluster)) == {("CustomResourceDefinition", MODEL_PROFILES.resource)}
    # The kind was left by another release: this one leaves it unchanged, and its notes say so.
    notes = helm("install", "another", place, *options)
    assert "ModelProfile existed before this release" in notes
    helm("uninstall", "another")


OTHERS = {("CustomResourceDefinition", f"{kind}.fairlead.dev") for kind in ("augmentations", "pipelines")}


async def _list_own(cluster: RealCluster) -> set[tuple[str, str]]:
    """Return all objects of the chart, in the test's namespace and cluster-wide."""
    objects = set()
    async with cluster.connect() as client:
        for name, kind in KINDS.items():
            listing = await client.list(kind, cluster.namespace if kind.namespaced else None, labels=OURS)
            names = {item.metadata.name for item in listing.items}
            # Policies of other tests have their namespace in their names; others define other kinds.
            objects |= {(name, each) for each in names if "-test-" not in each} - OTHERS
    return objects
