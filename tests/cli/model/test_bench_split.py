"""`fairlead bench split` with a real store and real workers; how fast they are is for `make bench-split`."""

import json

import pytest

from tests.cli.examples import Run

KEYS = {
    *("makespan_s", "ideal_s", "over", "whole_inputs_s", "inputs", "results", "lost", "doubled"),
    *("device_share", "copies", "struck_s", "input_bytes", "rule"),
    *("coordinator_peak_bytes", "coordinator_processor_s"),
}


@pytest.mark.parametrize(
    "words",
    [
        ("--rates", "1:7", "--inputs", "200", "--seconds", "1"),
        (
            "--rates",
            "1:1:2",
            "--inputs",
            "100",
            "--seconds",
            "1",
            "--link",
            "1Mi",
            "--event",
            "device-lost@40%",
        ),
    ],
    ids=["plain", "link and loss"],
)
def test_each_input_has_one_result(run: Run, words: tuple[str, ...]) -> None:
    code, out, err = run("bench", "split", *words, "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert set(document) == KEYS
    assert document["results"] == document["inputs"]
    assert (document["lost"], document["doubled"]) == (0, 0)
    assert document["makespan_s"] > 0.9
    assert 0 < document["device_share"] < 0.8
