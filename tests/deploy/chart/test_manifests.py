"""The committed manifests and the table of values are what the chart gives."""

import yaml

from deploy import render
from tests.deploy.chart.charts import Chart, one

HINT = "run `make manifests` and look at what changed"


def test_the_manifests_are_the_chart_rendered(chart: Chart) -> None:
    rendered = render.manifests(chart.helm)
    committed = {path.name: path.read_text() for path in render.MANIFESTS.glob("*.yaml")}
    assert committed == rendered, HINT


def test_the_table_of_values_is_the_schemas() -> None:
    page = render.REFERENCE.read_text()
    assert page == render.with_table(page), HINT
    assert render.reference() in page


def test_guards_come_before_what_they_guard() -> None:
    documents = list(yaml.safe_load_all((render.MANIFESTS / "fairlead.yaml").read_text()))
    kinds = [document["kind"] for document in documents]
    assert kinds[0] == "Namespace"
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("DaemonSet")


def test_the_namespace_allows_what_the_pods_mount() -> None:
    documents = list(yaml.safe_load_all((render.MANIFESTS / "fairlead.yaml").read_text()))
    namespace = one(documents, "Namespace")["metadata"]
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    inside = {document["metadata"].get("namespace", namespace["name"]) for document in documents}
    assert inside == {namespace["name"]}


def test_nothing_is_left_to_helm() -> None:
    for path in render.MANIFESTS.glob("*.yaml"):
        assert "helm.sh/" not in path.read_text()
