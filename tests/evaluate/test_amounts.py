"""Counts of work pass between tables by the names of models."""

import pytest

from tests.latencies import Line, tables_of

COUNTED: Line = {
    **{
        "source": "counted",
        "device": "d",
        "model": "ResNet-50.a1_in1k",
        "input_size": "224",
        "latency_ms": 1,
    },
    **{"gmacs": 4, "mparams": 25},
}


def borrowed(model: str, size: str = "224", **more: object) -> dict[str, float]:
    """Return the amounts of a model in a table that has none."""
    row: Line = {"source": "bare", "device": "d", "model": model, "input_size": size, "latency_ms": 1, **more}
    return dict(tables_of([COUNTED, row])[1].models[0].views[0])


@pytest.mark.parametrize("model", ["resnet50", "ResNet-50", "resnet_50"])
def test_amounts_are_known_by_the_plain_name(model: str) -> None:
    assert borrowed(model) == {"macs": 4e9, "params": 25e6}


@pytest.mark.parametrize("model", ["resnet18", "resnet50d", "ssd_resnet50"])
def test_another_model_has_no_amounts(model: str) -> None:
    assert borrowed(model) == {}


@pytest.mark.parametrize(("size", "macs"), [("448", 16e9), ("[1, 3, 112, 112]", 1e9), ("", 4e9)])
def test_work_grows_with_the_input_and_parameters_do_not(size: str, macs: float) -> None:
    assert borrowed("resnet50", size) == {"macs": pytest.approx(macs), "params": 25e6}


def test_a_table_s_own_amounts_come_first() -> None:
    assert borrowed("resnet50", mparams=23) == {"macs": 4e9, "params": 23e6}


def test_no_measurement_passes_between_tables() -> None:
    slow, fast = (
        tables_of(
            [COUNTED | {"latency_ms": value}, COUNTED | {"source": "bare", "gmacs": "", "mparams": ""}]
        )[1]
        for value in (1, 1000)
    )
    assert slow.models == fast.models
    assert (slow.seconds == fast.seconds).all()
