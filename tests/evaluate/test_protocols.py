"""The protocols on small tables: their results, and tables without the needed columns."""

import json
from typing import Any

import pytest

from fairlead.evaluate.nas import wide
from fairlead.evaluate.protocols import PROTOCOLS
from tests.latencies import Line, cells, lines, records, tables_of

FIGURES = ("mape", "median_ape", "within_10", "spearman", "kendall", "top1", "mean_regret")
ROWS = lines(7, 24, watts=True)


def outcome(protocol: str, rows: list[Line] = ROWS, calibration: int = 10, seed: int = 0) -> dict[str, Any]:
    """Run a protocol on a table of one source."""
    [table] = tables_of(rows)
    result: dict[str, Any] = PROTOCOLS[protocol](table, calibration, seed).to_json()
    return result


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_has_every_figure_of_every_method(protocol: str) -> None:
    result = outcome(protocol)
    assert list(result) == ["group", "devices", "rows", "methods", "note", "trust"]
    assert list(result["methods"]) == ["flops", "roofline", "fairlead"]
    assert all(tuple(figures) == FIGURES for figures in result["methods"].values())
    json.dumps(result, allow_nan=False)


def test_a_new_device_is_predicted_better_than_by_its_peers() -> None:
    methods = outcome("new-device")["methods"]
    assert methods["fairlead"]["mape"] < 10
    assert methods["fairlead"]["mape"] < methods["roofline"]["mape"] < methods["flops"]["mape"]
    assert methods["fairlead"]["spearman"] > 0.97
    assert methods["fairlead"]["top1"] is None


def test_a_new_model_is_predicted_by_its_work() -> None:
    methods = outcome("new-model")["methods"]
    assert methods["fairlead"]["mape"] < 30
    assert methods["fairlead"]["mape"] < methods["flops"]["mape"]


def test_new_models_are_predicted_from_as_many_others_as_asked() -> None:
    few, all_others = (outcome("new-model", calibration=count)["methods"] for count in (3, 0))
    assert all_others["fairlead"]["mape"] < few["fairlead"]["mape"] < few["roofline"]["mape"]


@pytest.mark.parametrize("calibration", [0, 1, 2, 3, 5, 10])
def test_nine_of_ten_stay_below_p90_at_every_number_of_runs(calibration: int) -> None:
    trust = outcome("new-device", lines(12, 30), calibration)["trust"]
    assert trust["all"]["below"] >= 80
    assert trust["all"]["worst"] < 10


def test_the_decision_finds_the_fastest_of_five() -> None:
    methods = outcome("decision")["methods"]
    assert methods["fairlead"]["top1"] > 90
    assert methods["fairlead"]["mean_regret"] < 2
    assert methods["fairlead"]["mape"] is None


def test_energy_is_power_times_time() -> None:
    assert outcome("energy")["methods"]["fairlead"]["mape"] < 15
    without = outcome("energy", lines(6, 20))
    assert without["note"] == "no row has power_w"
    assert set(without["methods"]["fairlead"].values()) == {None}


def test_data_sheets_alone_put_devices_in_order() -> None:
    rows = []
    for clock in range(1, 9):
        device = {"device": f"Board {clock} (Cortex-A76 {clock / 3:.2f}GHz x 4)", "source": "s"}
        for model in range(6):
            rows.append({**device, "model": f"net{model}", "latency_ms": (model + 1) * 10 / clock**0.8})
    result = outcome("new-device", rows, calibration=0)
    assert result["methods"]["fairlead"]["spearman"] > 0.95
    assert result["methods"]["flops"]["spearman"] is None
    assert "over physical devices" in result["note"]


def test_cells_are_predicted_on_held_out_devices() -> None:
    table = wide(*records(cells(80)))
    result = PROTOCOLS["nas"](table, 10, 0).to_json()
    assert result["group"] == "nasbench201"
    assert result["methods"]["fairlead"]["spearman"] > 0.93
    assert PROTOCOLS["new-device"](table, 10, 0).to_json()["methods"]["fairlead"]["mape"] < 20


def test_a_table_of_another_kind_has_no_cells() -> None:
    assert "column arch" in outcome("nas")["note"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_gives_the_same_figures(protocol: str) -> None:
    rows = lines(6, 16, watts=True)
    assert outcome(protocol, rows, 5, 7) == outcome(protocol, rows[::-1], 5, 7)


POOR: dict[str, list[Line]] = {
    "one row": lines(1, 1),
    "one device": lines(1, 30),
    "two devices": lines(2, 14),
    "one model": lines(8, 1),
    "no amounts": [line | {"gmacs": "", "mparams": "", "mactivations": ""} for line in lines(6, 16)],
    "some amounts": [line | {"gmacs": "" if n % 3 else line["gmacs"]} for n, line in enumerate(lines(6, 16))],
    "twice the same": lines(6, 16) * 2,
    "all as fast": [line | {"latency_ms": 5} for line in lines(6, 16)],
    "beyond reason": [line | {"latency_ms": 10.0 ** (n % 60 - 30)} for n, line in enumerate(lines(6, 16))],
    "holes": [line for n, line in enumerate(lines(6, 16)) if n % 7 % 2],
    "nothing shared": [line | {"model": f"{line['model']}-{n}"} for n, line in enumerate(lines(5, 14))],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("poor", POOR)
@pytest.mark.parametrize("calibration", [0, 5])
def test_poor_tables_still_give_a_result(protocol: str, poor: str, calibration: int) -> None:
    result = outcome(protocol, POOR[poor], calibration)
    json.dumps(result, allow_nan=False)
    assert result["rows"] == len(POOR[poor])
