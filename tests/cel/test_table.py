"""Our evaluator of device selectors against Kubernetes' own: one result for each expression and device."""

from collections.abc import Iterator
from itertools import groupby

import pytest

from fairlead.cel import CelDevice, CompiledSelector, CompileError, EvaluationError, compile_selector
from tests.cel.table import Row, expressions, rows, slices

TOPICS = {topic: tuple(group) for topic, group in groupby(rows(), key=lambda row: row.topic)}
DEVICES = [
    CelDevice.of(slice_["spec"]["driver"], device)
    for slice_ in slices()
    for device in slice_["spec"]["devices"]
]


def result(selector: CompiledSelector, device: CelDevice) -> bool | None:
    """Return whether the device matches; None where the evaluation ends in an error."""
    try:
        return selector.matches(device)
    except EvaluationError:
        return None


def mismatches(row: Row) -> Iterator[str]:
    """Yield the results in which our evaluator differs."""
    try:
        selector = compile_selector(row.expression)
    except CompileError as error:
        if row.compile_error is None:
            yield f"{row.expression}\n  compiles in Kubernetes; ours: {error}"
        elif row.places and (error.line, error.column) != row.places[0]:
            yield f"{row.expression}\n  at {row.places[0]} in Kubernetes ({row.compile_error}); ours: {error}"
        return
    if row.compile_error is not None:
        yield f"{row.expression}\n  compiles in ours; Kubernetes: {row.compile_error}"
        return
    # An expression that does not use the device has one result for all, and some take a second to evaluate.
    count = len(DEVICES) if "device" in row.expression else 1
    expected = tuple(None if isinstance(each, str) else each for each in row.devices[:count])
    results = tuple(result(selector, device) for device in DEVICES[:count])
    if results != expected:
        yield f"{row.expression}\n  Kubernetes {row.devices}; ours {results}"


@pytest.mark.parametrize("topic", TOPICS)
def test_results_equal_those_of_kubernetes(topic: str) -> None:
    assert [mismatch for row in TOPICS[topic] for mismatch in mismatches(row)] == []


def test_the_table_covers_every_expression() -> None:
    assert [(row.topic, row.expression) for row in rows()] == list(expressions()), "run make cel-table"
    assert len({row.expression for row in rows()}) == len(rows())
    assert all(len(row.devices) == len(DEVICES) or row.compile_error for row in rows())
