"""Our evaluator of device selectors beside Kubernetes' own: one answer for each expression and device."""

from collections.abc import Iterator
from itertools import groupby

import pytest

from fairlead.cel import CelDevice, CompiledSelector, CompileError, EvaluationError, compile_selector
from tests.cel.table import Row, expressions, rows, slices

TOPICS = {topic: tuple(found) for topic, found in groupby(rows(), key=lambda row: row.topic)}
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
    """Yield what our evaluator says otherwise."""
    try:
        selector = compile_selector(row.expression)
    except CompileError as error:
        if row.compile_error is None:
            yield f"{row.expression}\n  compiles there; here: {error}"
        elif row.places and (error.line, error.column) != row.places[0]:
            yield f"{row.expression}\n  at {row.places[0]} there ({row.compile_error}); here: {error}"
        return
    if row.compile_error is not None:
        yield f"{row.expression}\n  compiles here; there: {row.compile_error}"
        return
    # An expression that names no device says the same of each, and some take a second of computing.
    count = len(DEVICES) if "device" in row.expression else 1
    wanted = tuple(None if isinstance(each, str) else each for each in row.devices[:count])
    found = tuple(result(selector, device) for device in DEVICES[:count])
    if found != wanted:
        yield f"{row.expression}\n  there {row.devices}; here {found}"


@pytest.mark.parametrize("topic", TOPICS)
def test_says_what_kubernetes_says(topic: str) -> None:
    assert [mismatch for row in TOPICS[topic] for mismatch in mismatches(row)] == []


def test_the_table_is_the_answer_to_the_expressions() -> None:
    assert [(row.topic, row.expression) for row in rows()] == list(expressions()), "run make cel-table"
    assert len({row.expression for row in rows()}) == len(rows())
    assert all(len(row.devices) == len(DEVICES) or row.compile_error for row in rows())
