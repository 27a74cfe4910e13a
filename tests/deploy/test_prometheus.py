"""The rules and alerts: Prometheus accepts them, their test cases pass, and every alert says what to do."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promtool import complaint

HOUSE = Path(__file__).parent.parent.parent
FOLDER = HOUSE / "deploy/chart/files/prometheus"
FILES = sorted(FOLDER.glob("*.yaml"))
CASES = sorted((Path(__file__).parent / "prometheus").glob("*.yaml"))
PAGES = ("metrics.md", "scheduler.md", "operator.md")
METRICS = "".join((HOUSE / "docs/reference" / name).read_text() for name in PAGES)
WITHOUT_INSTANCE = {
    "FairleadAgentsMissing",
    *(
        "FairleadSchedulerNoLeader",
        "FairleadSchedulerGone",
        "FairleadOperatorNoLeader",
        "FairleadOperatorGone",
    ),
}
"""Alerts that name no instance, because there is none."""
FOREIGN = {"up"}
"""Prometheus' own metrics."""


def rules(path: Path) -> list[dict[str, Any]]:
    """Return the rules of all groups of a file."""
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


RECORDED = {rule["record"] for path in FILES for rule in rules(path) if "record" in rule}
ALERTS = [rule for path in FILES for rule in rules(path) if "alert" in rule]


def unknown_names(expression: str) -> set[str]:
    """Return the metrics of an expression that are neither in the reference nor recorded by a rule."""
    plain = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    named = set(re.findall(r"\b(?:fairlead_\w+|DCGM_\w+|\w+:fairlead_\w+:\w+)\b", plain))
    selected = set(re.findall(r"(?<![\w:])([a-zA-Z_][\w:]*)\s*\{", plain)) - {"ALERTS"}
    return {name for name in named | selected if name not in RECORDED | FOREIGN and not _described(name)}


def _described(name: str) -> bool:
    name = name.removesuffix("_bucket")  # of a histogram
    return f"`{name}`" in METRICS or f"`{name}{{" in METRICS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_prometheus_accepts_the_rules(path: Path) -> None:
    assert not complaint("check", "rules", path)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_the_cases_of_the_rules_pass(path: Path) -> None:
    assert not complaint("test", "rules", path)


def test_every_alert_has_a_case() -> None:
    cases = "".join(path.read_text() for path in CASES)
    assert not [rule["alert"] for rule in ALERTS if rule["alert"] not in cases]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rules_read_only_metrics_that_exist(path: Path) -> None:
    assert not {name for rule in rules(path) for name in unknown_names(rule["expr"])}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_every_alert_names_the_problem_the_instance_and_the_remedy(alert: dict[str, Any]) -> None:
    assert alert["alert"].startswith("Fairlead")
    assert alert["labels"]["severity"] in ("info", "warning", "critical")
    assert alert["for"]
    summary, description = alert["annotations"]["summary"], alert["annotations"]["description"]
    assert summary.endswith(".")
    assert "$labels.instance" in summary or alert["alert"] in WITHOUT_INSTANCE
    assert len(summary) < 140
    assert 150 < len(description) < 600


def test_the_page_on_prometheus_names_every_alert_and_its_severity() -> None:
    page = (HOUSE / "docs/how-to/prometheus.md").read_text()
    rows = dict(re.findall(r"^\| `(Fairlead\w+)` \|.*\| (\w+) \|$", page, re.MULTILINE))
    assert rows == {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}


def test_the_reference_names_every_recorded_series_of_an_accelerator() -> None:
    assert not [name for name in RECORDED if name.startswith("id:") and f"`{name}`" not in METRICS]
