"""Lists have kubectl's options: -o wide and name, --no-headers, --sort-by a column or a field."""

import json

import pytest

from tests.cli.examples import CLUSTER, EXAMPLES, WORKLOADS, Run

NANO = str(EXAMPLES.parent / "tests" / "hosts" / "jetson-nano-coral-usb" / "root")
DETECT = ("detect", "--root", NANO)
SCHEDULE = ("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)


def column(out: str, number: int) -> list[str]:
    return [line.split()[number] for line in out.splitlines()]


@pytest.mark.parametrize(
    "words",
    [DETECT, SCHEDULE, ("catalog", "list"), ("doctor", "--here")],
    ids=lambda words: words[0],
)
def test_wide_has_more_columns_and_no_headers_has_rows_alone(run: Run, words: tuple[str, ...]) -> None:
    _, out, _ = run(*words, "--no-headers")
    _, wide, _ = run(*words, "-o", "wide", "--no-headers")
    assert max(map(len, wide.splitlines())) > max(map(len, out.splitlines()))
    assert not out.startswith(("ACCELERATOR", "POD", "ID", "CHECK"))


def test_output_name_prints_the_names_alone(run: Run) -> None:
    _, out, _ = run(*DETECT, "-o", "name")
    ids = [acc["id"] for acc in json.loads(run(*DETECT, "-o", "json")[1])["accelerators"]]
    assert out.split() == ids
    code, out, _ = run(*SCHEDULE, "-o", "name")
    assert code == 1
    assert out.split() == ["detector-0", "detector-1", "detector-2", "trainer", "reporter"]
    assert len(set(run("doctor", "--here", "-o", "name")[1].split())) >= 4


def test_memory_is_sorted_by_size(run: Run) -> None:
    kinds = column(run(*DETECT, "--sort-by", "memory", "--no-headers", "-o", "wide")[1], -1)
    documents = json.loads(run(*DETECT, "--sort-by", "memory_bytes", "-o", "json")[1])["accelerators"]
    sizes = [document["memory_bytes"] for document in documents]
    assert sizes == sorted(sizes)
    assert kinds == [document["id"] for document in documents]
    assert kinds[0].startswith("coral") or documents[0]["model"] == "coral-usb"


def test_power_is_sorted_by_watts_and_missing_values_come_last(run: Run) -> None:
    _, out, _ = run("catalog", "list", "--kind", "tpu", "--sort-by", "POWER", "--no-headers")
    powers = [line.rsplit("  ", 1)[1].strip() for line in out.splitlines()]
    known = [float(power.removesuffix(" W")) for power in powers if power != "-"]
    assert known == sorted(known)
    assert powers[len(known) :] == ["-"] * (len(powers) - len(known))


@pytest.mark.parametrize("name", ["{.node}", ".node", "node", "NODE"])
def test_a_field_may_be_written_as_kubectl_does(run: Run, name: str) -> None:
    decisions = json.loads(run(*SCHEDULE, "--sort-by", name, "-o", "json")[1])["decisions"]
    nodes = [decision["node"] for decision in decisions]
    assert nodes[:-1] == sorted(nodes[:-1])
    assert nodes[-1] is None


def test_an_unknown_column_is_answered_with_the_known_ones(run: Run) -> None:
    code, out, err = run("catalog", "list", "--sort-by", "speed")
    assert (code, out) == (2, "")
    first, hint = err.splitlines()
    assert first == "fairlead: --sort-by speed: no such column"
    assert hint.startswith(
        "  columns: ID, NAME, VENDOR, KIND, PEAK, MEMORY, POWER, FAMILY, BANDWIDTH, ALIASES; fields"
    )
    assert "memory_bytes" in hint


def test_a_field_without_values_keeps_the_order(run: Run) -> None:
    plain = run(*DETECT, "-o", "json")[1]
    assert run(*DETECT, "-o", "json", "--sort-by", "uuid")[1] == plain
    assert run("profiles", "list", "--sort-by", "made")[0] == 0
