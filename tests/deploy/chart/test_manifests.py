"""The committed manifests and the table of values match the chart."""

import yaml

from deploy import render
from tests.deploy.chart.charts import Chart, one

HINT = "run `make manifests` and check the changes"


def test_the_manifests_are_the_chart_rendered(chart: Chart) -> None:
    rendered = render.manifests(chart.helm)
    committed = {path.name: path.read_text() for path in render.MANIFESTS.glob("*.yaml")}
    assert committed == rendered, HINT


def test_the_table_of_values_matches_the_schema() -> None:
    page = render.REFERENCE.read_text()
    assert page == render.with_table(page), HINT
    assert render.reference() in page


def test_policies_come_before_the_agents() -> None:
    documents = list(yaml.safe_load_all((render.MANIFESTS / "fairlead.yaml").read_text()))
    kinds = [document["kind"] for document in documents]
    assert kinds[0] == "Namespace"
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("DaemonSet")


def test_the_namespace_allows_the_mounts_of_the_pods() -> None:
    documents = list(yaml.safe_load_all((render.MANIFESTS / "fairlead.yaml").read_text()))
    namespace = one(documents, "Namespace")["metadata"]
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    inside = {document["metadata"].get("namespace", namespace["name"]) for document in documents}
    assert inside == {namespace["name"]}


def test_manifests_have_no_helm_annotations() -> None:
    for path in render.MANIFESTS.glob("*.yaml"):
        assert "helm.sh/" not in path.read_text()
