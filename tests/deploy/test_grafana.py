"""The Grafana board: sound JSON, panels that do not overlap, queries that can be answered."""

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


def filled(expression: str) -> str:
    """Return an expression as Grafana sends it: its own variables inside of strings need no filling."""
    for name, value in DURATIONS.items():
        expression = expression.replace(name, value)
    return expression


def test_is_found_and_can_be_used_anywhere() -> None:
    assert BOARD["uid"] == "fairlead"
    assert BOARD["schemaVersion"] >= 38  # Grafana 10
    names = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert names == ["datasource", "node", "kind", "model"]
    own = [panel for panel in PANELS if panel["type"] != "row"]
    sources = [each["datasource"]["uid"] for panel in own for each in (panel, *panel["targets"])]
    assert set(sources) == {"${datasource}"}


def test_panels_have_numbers_and_names_of_their_own() -> None:
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
    ]


def test_panels_do_not_overlap() -> None:
    def apart(one: dict[str, int], other: dict[str, int]) -> bool:
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        return beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]

    places = [panel["gridPos"] for panel in PANELS]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert all(apart(one, other) for one, other in combinations(places, 2))


def test_targets_of_a_panel_have_names_of_their_own() -> None:
    for panel in PANELS:
        names = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("title", "expression"), QUERIES, ids=[f"{title} {number}" for number, (title, _) in enumerate(QUERIES)]
)
def test_queries_ask_for_metrics_that_exist(title: str, expression: str) -> None:
    assert not unknown_names(expression), title


def test_variables_ask_for_metrics_that_exist() -> None:
    texts = [v["query"]["query"] for v in BOARD["templating"]["list"] if v["type"] == "query"]
    assert not {name for text in texts for name in unknown_names(text)}


def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    notes = [(note["name"], note["expr"]) for note in BOARD["annotations"]["list"]]
    rules = [{"record": f"board:{i}", "expr": filled(e)} for i, (_, e) in enumerate([*QUERIES, *notes])]
    path = tmp_path / "board.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    assert not complaint("check", "rules", path)


def test_a_query_that_cannot_be_read_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    rule = {"record": "board:0", "expr": "sum by (instance ("}
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": [rule]}]}))
    assert "could not parse expression" in complaint("check", "rules", path)


def test_rows_of_tables_can_be_joined() -> None:
    # A series' own name would be a column, and differ between the queries that are to be joined.
    for panel in PANELS:
        if panel["type"] == "table":
            assert all(" by (" in target["expr"] for target in panel["targets"]), panel["title"]
