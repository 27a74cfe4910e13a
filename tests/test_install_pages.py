"""Pages and scripts about installing are correct: extras, exit codes, the next commands."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from fairlead.cli.main import FAULT, main
from fairlead.cli.shell.extras import EXTRAS
from fairlead.errors import OutputError
from fairlead.lab.build import prerequisites, programs
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.modules import PARTS
from tests.test_docs import PAGES
from tests.test_page_commands import refusal
from tests.test_pages import ROOT, blocks, demo, page


def extras() -> set[str]:
    """Return the extras of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])


def test_the_page_lists_every_extra_with_its_commands() -> None:
    text = (ROOT / "docs/how-to/install-command.md").read_text()
    rows = dict(re.findall(r"^\| `?([\w-]+)`? \| (.*) \|.*\|$", text, re.MULTILINE))
    assert set(rows) >= extras()
    for command, extra in EXTRAS.items():
        assert f"`{command}`" in rows[extra or "none"], command
    heads = re.findall(r"^\| (.*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert extras() - {"all"} <= {name for head in heads for name in re.findall(r"`([\w-]+)`", head)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_names_no_unknown_extra(path: Path) -> None:
    for named in re.findall(r"fairlead\[([\w,-]+)\]", path.read_text()):
        assert set(named.split(",")) <= extras()


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (2, 2), (3, 2), (70, 2), (74, 2)])
def test_the_pipeline_of_the_page_treats_only_0_and_1_as_answers(
    tmp_path: Path, code: int, ends: int
) -> None:
    """Run the script as CI runners do: with -e."""
    (script,) = [block for block in blocks("docs/how-to/what-if.md", "sh") if "nightly-snapshot" in block]
    (tmp_path / "fairlead").write_text(f"#!/bin/sh\nexit {code}\n")
    (tmp_path / "fairlead").chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ends
    assert ("would not fit" in done.stderr) == (code == 1)


def test_exit_codes_are_on_their_page() -> None:
    text = (ROOT / "docs/reference/exit-codes.md").read_text()
    for code in (0, 1, 2, 3, FAULT, OutputError.exit_code, 130):
        assert f"\n| {code} | " in text


BRINGS = {
    "": [],
    "run": ["numpy"],
    "predict": ["numpy"],
    "calibrate": ["numpy", "onnxruntime"],
    "simulate": ["numpy", "msgspec", "pyyaml"],
    "dashboard": ["msgspec", "starlette", "uvicorn"],
}
"""What the commands of an extra import; the demo uses no other extra."""


def demo_commands() -> list[list[str]]:
    """Return the words of each command of fairlead that the demo runs, as far as they are literals."""
    tree = ast.parse((ROOT / "scripts/demo.py").read_text())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_fairlead"
    ]
    lists = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.List) and ast.unparse(node).startswith("[*FAIRLEAD")
    ]
    words = [*(call.args for call in calls), *(each.elts[1:] for each in lists)]
    literal = [[each.value for each in row if isinstance(each, ast.Constant)] for row in words]
    return [[str(word) for word in row] for row in literal if row]


def test_the_demo_runs_and_suggests_only_installed_commands() -> None:
    run = (ROOT / "requirements/run.txt").read_text()
    suggested = [shlex.split(line) for line in demo().NEXT]
    assert len(suggested) > 3
    assert len(demo_commands()) > 5
    for words in (*suggested, *demo_commands()):
        missing = [
            name for name in BRINGS[EXTRAS[words[0]]] if not re.search(rf"^{name}==", run, re.MULTILINE)
        ]
        assert not missing, (words, missing)


@pytest.mark.parametrize("words", demo_commands(), ids=" ".join)
def test_the_demo_uses_only_options_that_exist(words: list[str]) -> None:
    assert refusal(shlex.join(words)) == ""


def test_the_demo_suggests_only_words_that_a_command_takes() -> None:
    assert {line: why for line in demo().NEXT if (why := refusal(line))} == {}
    pages = [line for line in demo().NEXT if line.startswith("docs ")]
    assert pages
    assert all(main(shlex.split(line)) == 0 for line in pages)


def test_the_build_of_helm_is_announced_with_its_time_and_folder(tmp_path: Path) -> None:
    site = programs.BuildEnvironment(BuildCache(tmp_path), tmp_path, PARTS, {})
    text = prerequisites.announcement(["helm"], site)
    assert "helm: not built yet" in text
    assert f"into {tmp_path}" in text
    assert "minutes" in text
    assert "3.0 GiB" in text
    assert "kubectl" not in text


def test_rendering_announces_the_build_of_helm(tmp_path: Path) -> None:
    """The cache is below a file, so that nothing can be built: the first line that a user sees is printed."""
    (tmp_path / "file").write_text("x")
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file" / "cache")}
    done = subprocess.run(
        [sys.executable, "deploy/render.py"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.startswith("  helm: not built yet for this user. Compiled once")
    assert "Traceback" not in done.stderr


def test_the_development_requirements_include_build() -> None:
    assert re.search(r"^build>=", (ROOT / "requirements/dev.in").read_text(), re.MULTILINE)
    assert page("docs/how-to/install-command.md").count("python -m build") == 1
