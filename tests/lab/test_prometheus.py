"""Prometheus in a real node: it discovers pods and evaluates rules; bad rules are rejected."""

import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import LabError
from fairlead.lab.control.prometheus import check_rules, config
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.up import LabSpec, check_spec
from tests.lab.command_line import wait_until
from tests.labs import RealNode

POD = Path(__file__).with_name("speaker.yaml")
RULES = "groups: [{name: one, rules: [{record: doubled, expr: a_metric * 2}]}]\n"


def query(url: str, expression: str) -> list[dict[str, Any]]:
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(address, timeout=10) as response:
        series: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return series


def test_prometheus_discovers_pods_and_labels_them_as_a_pod_monitor_would() -> None:
    (job,) = config(Path("/k"), Path("/r"))["scrape_configs"]
    assert job["kubernetes_sd_configs"] == [{"role": "pod", "kubeconfig_file": "/k"}]
    assert [row.get("target_label") for row in job["relabel_configs"][4:]] == [
        "namespace",
        "pod",
        "container",
        "node",
        "job",
    ]


def test_a_folder_without_rules_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").touch()
    with pytest.raises(LabError, match=r"no \*\.yaml files"):
        check_rules(tmp_path)
    (tmp_path / "rules.yaml").touch()
    check_rules(tmp_path)
    with pytest.raises(LabError, match="Prometheus runs in a real node"):
        check_spec(LabHome(tmp_path), LabSpec(LabProfile.CONTROL, prometheus=True))


def test_prometheus_has_the_metrics_of_a_pod_and_evaluates_rules(
    real_node: RealNode, node_namespace: str, tmp_path: Path
) -> None:
    real_node.kubectl("-n", node_namespace, "apply", "-f", str(POD))
    (tmp_path / "rules.yaml").write_text(RULES)
    url = real_node.prometheus(tmp_path)
    wait_until(lambda: query(url, "doubled"), 60)
    (series,) = query(url, f'a_metric{{namespace="{node_namespace}"}}')
    labels = {name: value for name, value in series["metric"].items() if name != "instance"}
    assert labels == {
        "__name__": "a_metric",
        "namespace": node_namespace,
        "pod": "speaker",
        "container": "main",
        "node": real_node.lab.namespaces[0].node,
        "job": f"{node_namespace}/fairlead-agent",
    }
    (doubled,) = query(url, "doubled")
    assert doubled["value"][1] == "14"
    assert real_node.lab.prometheus == url
    (tmp_path / "rules.yaml").write_text(
        "groups: [{name: one, rules: [{record: doubled, expr: a_metric *}]}]"
    )
    with pytest.raises(LabError, match="rejects these rules"):
        real_node.prometheus(tmp_path)
    assert query(url, "a_metric")
