"""The numbers, files and commands of pages are correct: tests try them as a reader would."""

import argparse
import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml

from fairlead.cli.cluster import nodes
from fairlead.cli.main import build_parser, main
from fairlead.cli.output.show import to_table
from fairlead.cluster.objects import Node
from fairlead.compat import toml
from fairlead.zoo import PACK
from fairlead.zoo.__main__ import main as zoo

ROOT = Path(__file__).parent.parent
NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def page(path: str) -> str:
    """Return a page's text with single spaces, so that a sentence may be broken over lines."""
    return re.sub(r"\s+", " ", (ROOT / path).read_text())


def demo() -> ModuleType:
    """Return the script of `make demo` as a module."""
    specification = importlib.util.spec_from_file_location("fairlead_demo", ROOT / "scripts/demo.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def blocks(path: str, language: str = "") -> list[str]:
    """Return a page's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)


def test_the_tour_counts_the_boards_that_it_replays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page("docs/tutorial/1-place-a-model.md")
    boards = dict.fromkeys(re.findall(r"fairlead (detect --root \S+)", text))
    assert f"these are {NUMBERS[len(boards)]} boards" in text
    monkeypatch.chdir(ROOT)
    for command in boards:
        assert main(command.split()) == 0
    assert "hailo-8|hailo-8l" in capsys.readouterr().out


def test_pages_count_the_engines_and_models_of_the_demo() -> None:
    queue = demo().QUEUE
    engines, models = NUMBERS[len(queue)], NUMBERS[len({job.model for job in queue})]
    assert f"{engines.capitalize()} engines" in (ROOT / "scripts/demo.py").read_text()
    text = page("docs/tutorial/1-place-a-model.md")
    assert f"queues {engines} engines" in text
    assert f"{models} models will take here" in text


def test_the_tour_places_as_many_applications_as_it_says() -> None:
    apps = yaml.safe_load((ROOT / "examples/demo/apps.yaml").read_text())["workloads"]
    fleet = yaml.safe_load((ROOT / "examples/demo/fleet.yaml").read_text())["nodes"]
    boards = len(fleet) - 1  # and the server
    text = page("docs/tutorial/1-place-a-model.md")
    assert f"places {NUMBERS[len(apps)]} applications on {NUMBERS[boards]} boards, a GPU server" in text


def test_pages_count_the_pack_correctly(capsys: pytest.CaptureFixture[str]) -> None:
    number = NUMBERS[len(PACK)]
    assert f"{number.capitalize()} small models" in page("docs/how-to/calibrate.md")
    assert f"{number} small models" in page("README.md")
    with pytest.raises(SystemExit):
        main(["calibrate", "--help"])
    assert f"{number} small models" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_as_many_devices_are_predicted_as_pages_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pages say three of four; the catalog grows, so the share may change a little."""
    zoo([str(tmp_path), "mobilenet_v2"])
    capsys.readouterr()
    asked = ["estimate", str(tmp_path / "mobilenet_v2.onnx"), "--on", "all", "-o", "json"]
    assert main([*asked, "--profiles", str(tmp_path)]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    assert 0.7 <= sum(estimate["seconds"] is not None for estimate in estimates) / len(estimates) < 0.8
    for path in ("README.md", "docs/reference/estimate.md", "CHANGELOG.md"):
        assert "three of four" in page(path), path
        assert "any device of the catalog" not in page(path), path


def test_pages_say_where_the_limits_of_hami_hold() -> None:
    for path in ("README.md", "docs/how-to/schedule-pods.md", "docs/reference/scheduler.md"):
        assert re.search(r"HAMi[^#]*reference/limits\.md|HAMi[^#]*\(limits\.md", page(path)), path


def test_policies_are_compared_on_a_recorded_cluster() -> None:
    section = (ROOT / "docs/how-to/simulate.md").read_text().partition("## 5. A recorded cluster")[2]
    command = re.search(r"^\$ fairlead simulate .*--policy (\S+)", section, re.MULTILINE)
    assert command is not None
    policies = command[1].split(",")
    waits = re.search(r"^wait: mean / p50 / p99 / worst +(.*)$", section, re.MULTILINE)
    assert waits is not None
    figures = re.split(r" {2,}", waits[1])
    assert len(set(figures)) == len(policies) > 1


def test_the_simulation_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = re.search(
        r"^\$ fairlead (simulate .*)\n((?:.*\n)+?)```",
        (ROOT / "docs/how-to/simulate.md").read_text(),
        re.MULTILINE,
    )
    assert session is not None
    monkeypatch.chdir(ROOT)
    assert main(session[1].split()) == 0
    assert capsys.readouterr().out == session[2]


def test_the_page_what_if_is_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs/how-to/what-if.md").read_text()
    for name, body in re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(body)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    made = re.search(r"^python -m fairlead\.zoo (.*)$", text, re.MULTILINE)
    assert made is not None, "the page makes the model that its workloads name"
    zoo(made[1].partition("#")[0].split())
    capsys.readouterr()
    asked = ["schedule", "--cluster", "cluster.yaml", "--workloads", "workloads.yaml"]
    assert f"fairlead {' '.join(asked)}\n" in text
    assert main(asked) == 1, "the page goes on to ask why one does not fit"
    assert "refused: " in capsys.readouterr().out
    main([*asked, "--explain", "-o", "json"])
    (tmp_path / "decision.json").write_text(capsys.readouterr().out)
    why = re.findall(r"^fairlead (explain .*)$", text, re.MULTILINE)
    assert len(why) == 2
    for line in why:
        assert main(line.split()) == 1
        assert "would fit with one of these changes" in capsys.readouterr().out


def test_the_policy_of_the_page_installs(tmp_path: Path) -> None:
    """The page's two files are a package: its own backend builds it, and a command uses it."""
    files = {
        name: body
        for language in ("python", "toml")
        for block in blocks("docs/how-to/own-policy.md", language)
        for name, body in [re.match(r"# (\S+)\n(.*)", block, re.DOTALL).groups()]  # type: ignore[union-attr]  # every block names its file
    }
    assert set(files) == {"tidy.py", "pyproject.toml"}
    for name, body in files.items():
        (tmp_path / name).write_text(body)
    backend = toml.loads(files["pyproject.toml"])["build-system"]["build-backend"]
    code = f"import {backend} as backend; print(backend.build_wheel('dist'))"
    built = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(tmp_path / "dist" / built.stdout.split()[-1]) as wheel:
        wheel.extractall(tmp_path / "site")
    paths = os.pathsep.join([str(tmp_path / "site"), str(ROOT / "src")])
    words = ["schedule", "--cluster", "examples/cluster.yaml", "--workloads", "examples/workloads.yaml"]
    used = subprocess.run(
        [sys.executable, "-m", "fairlead", *words, "--policy", "tidy", "-o", "json"],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert {each["policy"] for each in json.loads(used.stdout)["decisions"]} == {"tidy"}, used.stderr


@pytest.mark.parametrize(
    "name", ["nodes", "capture", "retract", "rightsize", "ps", "top", "logs", "cancel", "adopt"]
)
def test_a_command_has_a_page_with_every_option(name: str) -> None:
    text = (ROOT / f"docs/reference/{name}.md").read_text()
    assert text.startswith(f"# `fairlead {name}`\n")
    (subs,) = [
        action for action in build_parser(name)._actions if isinstance(action, argparse._SubParsersAction)
    ]
    options = {word for action in subs.choices[name]._actions for word in action.option_strings}
    assert not sorted(word for word in options - {"-h", "--help"} if f"`{word}" not in text)
    assert f"(reference/{name}.md)" in (ROOT / "docs/README.md").read_text()


def _node(name: str, *, ready: bool, cordoned: bool = False, **count: int) -> Node:
    labels = {
        f"fairlead.dev/{model.replace('_', '-')}.{field}": str(value)
        for model, number in count.items()
        for field, value in (("count", number), ("usable", number if ready else 0), ("kind", "gpu"))
    }
    document: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": cordoned},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "nodeInfo": {"kubeletVersion": "v1.37.0"},
        },
    }
    return msgspec.convert(document, Node)


def test_the_page_on_nodes_shows_what_is_printed() -> None:
    fleet = (
        _node("board-0", ready=True, jetson_orin_nano=1),
        _node("board-1", ready=False, jetson_orin_nano=1),
        _node("server", ready=True, cordoned=True, a100=2),
        _node("control", ready=True),
    )
    shown = to_table(nodes._HEAD, [nodes._row(each) for each in fleet])
    assert f"$ fairlead nodes\n{shown}\n" in blocks("docs/reference/nodes.md")
    document = {word for each in fleet for word in re.findall(r'"(\w+)":', json.dumps(nodes.to_json(each)))}
    assert not sorted(
        word for word in document if f'"{word}"' not in (ROOT / "docs/reference/nodes.md").read_text()
    )


def test_the_export_from_pytorch_parses_as_python() -> None:
    """PyTorch is not installed for tests: the page uses documented names only."""
    path = "docs/how-to/pytorch.md"
    (first, second) = [ast.parse(block) for block in blocks(path, "python")]
    for tree in (first, second):
        (call,) = [
            each
            for each in ast.walk(tree)
            if isinstance(each, ast.Call) and ast.unparse(each.func) == "torch.onnx.export"
        ]
        documented = {
            "input_names",
            "output_names",
            "opset_version",
            "dynamo",
            "external_data",
            "dynamic_shapes",
        }
        assert {str(keyword.arg) for keyword in call.keywords} <= documented
        assert len(call.args) == 3
    assert "PyTorch 2.6 or newer" in page(path)
    assert "(how-to/pytorch.md)" in (ROOT / "docs/README.md").read_text()
