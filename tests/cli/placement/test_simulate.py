"""`fairlead simulate`: the fields of its answer, the table, the picture, and errors."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from fairlead.cli.main import build_parser, main
from fairlead.cli.placement.simulate import table
from fairlead.schedule.filter.interference import MODELS
from fairlead.simulate.play.waiting import ORDERS
from fairlead.simulate.trace.synthetic import KINDS
from tests.cli.shell.test_contract import leaves

Run = Callable[..., tuple[int, str, str]]
EXAMPLES = Path(__file__).parents[3] / "examples/simulate"
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

    def run_command(*words: str) -> tuple[int, str, str]:
        code = main(["simulate", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run_command


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


def test_yaml_equals_json_and_a_seed_repeats_the_bytes(run: Run) -> None:
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


def test_options_override_the_trace(run: Run) -> None:
    words = ("--trace", ONE_GPU, "--policy", "binpack", "-o", "json")
    options = (
        "--interference",
        "mps",
        "--queue",
        "shortest",
        "--pace",
        "2",
        "--keep-progress",
        "--no-preemption",
    )
    answer = json.loads(run(*words, *options, "--until", "10m", "--mtbf", "2m", "--mttr", "5s")[1])
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
    ("--pace", "0"): "--pace 0: not above 0 and at most 1e+09",
    ("--pace", "nan"): "--pace nan: not above 0 and at most 1e+09",
    ("--pace", "1.1e9"): "--pace 1.1e+09: not above 0 and at most 1e+09",
    ("--over-provision", "-5"): "--over-provision -5: not a percentage from 0 to 1e+06",
    ("--over-provision", "2e6"): "--over-provision 2e+06: not a percentage from 0 to 1e+06",
    ("--duration", "-1"): "--duration: '-1' is not a duration",
    ("--cluster", "missing.yaml"): "missing.yaml",
    ("--plot", "/nowhere/x.svg"): "--plot /nowhere/x.svg: cannot be written",
}


@pytest.mark.parametrize("words", WRONG)
def test_an_invalid_option_ends_with_2(run: Run, words: tuple[str, str]) -> None:
    code, out, err = run("--trace", ONE_GPU, f"{words[0]}={words[1]}")
    assert (code, out) == (2, "")
    assert WRONG[words] in err


def test_the_picture_s_file_is_checked_before_any_work(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "x.svg", tmp_path):
        code, out, err = run("--trace", str(tmp_path / "missing.yaml"), "--plot", str(path))
        assert (code, out) == (2, "")
        first, hint = err.splitlines()  # no error about the trace: it was not read
        assert first.startswith(f"fairlead: --plot {path}: cannot be written: ")
        assert "name a file" in hint


def test_a_run_that_fails_leaves_the_picture_s_file_as_it_was(run: Run, tmp_path: Path) -> None:
    old, fresh = tmp_path / "old.svg", tmp_path / "fresh.svg"
    old.write_text("<svg/>")
    for picture in (old, fresh):
        assert run("--trace", str(tmp_path / "missing.yaml"), "--plot", str(picture))[0] == 2
    assert old.read_text() == "<svg/>"
    assert not fresh.exists()


def test_the_answer_is_printed_if_the_picture_cannot_be_written(run: Run) -> None:
    code, out, err = run("--trace", ONE_GPU, "--plot", "/dev/full")
    assert code == 74
    assert out.startswith("thirty detectors on one GPU: 30 jobs, seed 0\n")
    assert "/dev/full: cannot be written: No space left on device" in err


@pytest.mark.parametrize(
    ("option", "known"), [("--queue", ORDERS), ("--interference", MODELS), ("--generate", KINDS)]
)
def test_help_lists_the_known_values(option: str, known: Mapping[str, object]) -> None:
    (command,) = (below for name, below in leaves(build_parser("simulate")) if name == "simulate")
    (text,) = (str(action.help) for action in command._actions if option in action.option_strings)
    listed = text.partition(": ")[2].partition(" (")[0]
    assert set(listed.replace(" or ", ", ").split(", ")) == set(known)


def test_the_largest_pace_is_accepted(run: Run) -> None:
    assert run("--trace", ONE_GPU, "--pace", "1e9")[0] == 0


def test_a_trace_without_machines_is_an_error(run: Run) -> None:
    code, _, err = run("--trace", str(EXAMPLES / "day.yaml"))
    assert code == 2
    assert "has no machines" in err
    assert "--cluster" in err


def test_a_row_names_its_figures(run: Run) -> None:
    _, out, _ = run("--trace", ONE_GPU)
    assert "the same" not in out
    heads = ("completion: mean / p50 / p99 / worst", "fragmented: mean / peak", "at work: mean / peak")
    assert all(f"\n{head}  " in out for head in heads)


def test_large_energies_are_printed_without_an_exponent(run: Run) -> None:
    _, out, _ = run("--trace", ONE_GPU, "-o", "json")
    answer = json.loads(out)
    answer["policies"][0]["energy_j"] = 8.71234e4 * 3.6e6
    assert "87,123 kWh at " in str(table(answer))


def test_a_cluster_and_its_jobs_are_generated(run: Run) -> None:
    code, out, _ = run("--generate", "hungry", "--seed", "1", "--until", "60s", "-o", "json")
    answer = json.loads(out)
    assert (code, answer["trace"], answer["settings"]["interference"]) == (0, "hungry, seed 1", "none")
    assert answer["policies"][0]["running"] > 0
