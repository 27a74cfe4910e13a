"""`fairlead simulate`: the contract of its answer, the table, the picture, and what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from fairlead.cli.main import main

Run = Callable[..., tuple[int, str, str]]
EXAMPLES = Path(__file__).parents[2] / "examples/simulate"
ONE_GPU = str(EXAMPLES / "one-gpu.yaml")
ANSWER = ["trace", "jobs", "seed", "settings", "policies"]
POLICY = [
    "policy",
    "arrived",
    "done",
    "running",
    "waiting",
    "refused",
    "failed",
    "end_s",
    "makespan_s",
    "wait_s",
    "completion_s",
    "allocation_percent",
    "fragmentation_percent",
    "utilisation_percent",
    "memory_used_bytes",
    "queue",
    "energy_j",
    "power_w",
    "refusals",
    "waits",
    "memory_kills",
    "preemptions",
    "evictions",
    "faults",
    "events",
    "decisions",
    "series",
]
SERIES = ["at_s", "allocated", "fragmented", "capacity", "waiting", "running", "memory", "busy", "watts"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its exit code and what it printed."""

    def one(*words: str) -> tuple[int, str, str]:
        code = main(["simulate", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return one


def test_the_field_names_are_a_contract(run: Run) -> None:
    code, out, _ = run("--trace", ONE_GPU, "--policy", "exclusive,binpack", "-o", "json")
    assert code == 0
    answer = json.loads(out)
    assert list(answer) == ANSWER
    assert [each["policy"] for each in answer["policies"]] == ["exclusive", "binpack"]
    for each in answer["policies"]:
        assert list(each) == POLICY
        assert list(each["series"]) == SERIES
        assert len({len(values) for values in each["series"].values()}) == 1
        assert list(each["wait_s"]) == list(each["completion_s"]) == ["mean", "p50", "p99", "worst"]


def test_yaml_says_the_same_and_the_same_seed_the_same_bytes(run: Run) -> None:
    words = ("--trace", ONE_GPU, "--seed", "7")
    first, again, other = (run(*words, "-o", output)[1] for output in ("json", "json", "yaml"))
    assert first == again
    assert yaml.safe_load(other) == json.loads(first)
    assert run("--trace", ONE_GPU, "--seed", "8", "-o", "json")[1] != first


def test_the_table_has_a_column_for_each_policy_and_says_how_long_it_took(run: Run) -> None:
    code, out, err = run("--trace", ONE_GPU, "--policy", "exclusive,fairlead", "--over-provision", "100")
    assert code == 0
    assert out.startswith("thirty detectors on one GPU: 30 jobs, seed 0\n")
    assert "exclusive: had to wait at first: 29 busy" in out
    assert "fairlead: 30 jobs in " in err


def test_a_day_with_faults_gangs_and_priorities(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "day.svg"
    day, fleet = str(EXAMPLES / "day.yaml"), str(EXAMPLES / "fleet.yaml")
    code, out, _ = run("--trace", day, "--cluster", fleet, "--plot", str(picture), "-o", "json")
    (each,) = json.loads(out)["policies"]
    assert code == 0
    assert each["faults"] == 2
    assert (
        each["arrived"]
        == 402
        == sum(each[key] for key in ("done", "running", "waiting", "refused", "failed"))
    )
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_options_go_before_the_trace(run: Run) -> None:
    words = ("--trace", ONE_GPU, "--policy", "binpack", "-o", "json")
    said = (
        "--interference",
        "mps",
        "--queue",
        "shortest",
        "--pace",
        "2",
        "--keep-progress",
        "--no-preemption",
    )
    answer = json.loads(run(*words, *said, "--until", "10m", "--mtbf", "2m", "--mttr", "5s")[1])
    assert answer["settings"] == {
        "interference": "mps",
        "queue": "shortest",
        "keep_progress": True,
        "preemption": False,
    }
    assert answer["policies"][0]["faults"] > 0
    assert answer["policies"][0]["end_s"] <= 600


WRONG = {
    ("--policy", "fairled"): "unknown policy 'fairled'",
    ("--policy", ","): "--policy: no policy is named",
    ("--queue", "lifo"): "queue: 'lifo' is not known",
    ("--interference", "some"): "interference: 'some' is not known",
    ("--until", "soon"): "until: 'soon' is not a duration",
    ("--mtbf", "0s"): "--mtbf: '0s' is not a positive duration",
    ("--pace", "0"): "--pace 0.0: not a number above 0",
    ("--pace", "nan"): "--pace nan: not a number above 0",
    ("--over-provision", "-5"): "--over-provision -5.0: not a percentage",
    ("--duration", "-1"): "--duration: '-1' is not a duration",
    ("--cluster", "missing.yaml"): "missing.yaml",
    ("--plot", "/nowhere/x.svg"): "--plot /nowhere/x.svg: cannot be written",
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said_with_exit_code_2(run: Run, words: tuple[str, str]) -> None:
    code, out, err = run("--trace", ONE_GPU, f"{words[0]}={words[1]}")
    assert (code, out) == (2, "")
    assert WRONG[words] in err


def test_a_trace_without_machines_says_so(run: Run) -> None:
    code, _, err = run("--trace", str(EXAMPLES / "day.yaml"))
    assert code == 2
    assert "brings no machines" in err
    assert "--cluster" in err
