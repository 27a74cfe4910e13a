"""The Grafana dashboard: valid JSON, panels that do not overlap, queries of metrics that exist."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promtool import complaint
from tests.deploy.test_prometheus import HOUSE, unknown_names

BOARD = json.loads((HOUSE / "deploy/chart/files/grafana/fairlead.json").read_text())
PANELS: list[dict[str, Any]] = BOARD["panels"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel.get("targets", [])]
DURATIONS = {"$__rate_interval": "5m", "$__range_s": "21600", "$__range": "6h", "$__interval": "1m"}


def interpolate(expression: str) -> str:
    """Return an expression with Grafana's durations filled in; variables inside of strings may stay."""
    for name, value in DURATIONS.items():
        expression = expression.replace(name, value)
    return expression


def test_the_dashboard_has_an_id_and_uses_any_datasource() -> None:
    assert BOARD["uid"] == "fairlead"
    assert BOARD["schemaVersion"] >= 38  # Grafana 10
    names = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert names == ["datasource", "node", "kind", "model", "pipeline"]
    graphs = [panel for panel in PANELS if panel["type"] != "row"]
    sources = [part["datasource"]["uid"] for panel in graphs for part in (panel, *panel["targets"])]
    assert set(sources) == {"${datasource}"}


def test_panels_have_unique_ids_and_titles() -> None:
    for key in ("id", "title"):
        assert len({panel[key] for panel in PANELS}) == len(PANELS)
    rows = [panel["title"] for panel in PANELS if panel["type"] == "row"]
    assert rows == [
        "Fleet",
        "Utilisation",
        "Memory: used and allocated",
        "Power and energy",
        "Temperature and throttling",
        "Allocation by pod",
        "Agent health",
        "Scheduler",
        "Pipelines",
        "Operator",
    ]


def test_panels_do_not_overlap() -> None:
    def apart(one: dict[str, int], other: dict[str, int]) -> bool:
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        return beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]

    places = [panel["gridPos"] for panel in PANELS]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert all(apart(one, other) for one, other in combinations(places, 2))


def test_targets_of_a_panel_have_unique_ids() -> None:
    for panel in PANELS:
        names = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("title", "expression"), QUERIES, ids=[f"{title} {number}" for number, (title, _) in enumerate(QUERIES)]
)
def test_queries_use_metrics_that_exist(title: str, expression: str) -> None:
    assert not unknown_names(expression), title


def test_variables_use_metrics_that_exist() -> None:
    texts = [v["query"]["query"] for v in BOARD["templating"]["list"] if v["type"] == "query"]
    assert not {name for text in texts for name in unknown_names(text)}


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    annotations = [(annotation["name"], annotation["expr"]) for annotation in BOARD["annotations"]["list"]]
    queries = [interpolate(expression) for _, expression in [*QUERIES, *annotations]]
    rules = [{"record": f"board:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "board.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    assert not complaint("check", "rules", path)


def test_a_query_with_a_syntax_error_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    rule = {"record": "board:0", "expr": "sum by (instance ("}
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": [rule]}]}))
    assert "could not parse expression" in complaint("check", "rules", path)


def test_rows_of_tables_can_be_joined() -> None:
    # A series' own name would be a column, and differ between the joined queries.
    for panel in PANELS:
        if panel["type"] == "table":
            assert all(" by (" in target["expr"] for target in panel["targets"]), panel["title"]
