"""The shipped files from the command line: pages, examples, manifests and the chart."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from fairlead.cli.main import main
from fairlead.cli.shipped.docs import find_page
from fairlead.errors import UserError
from fairlead.shipped import FOLDERS, files, folder
from tests.cli.examples import Run
from tests.test_house import HOUSE, SOURCES

POINTERS = re.compile(r"fairlead (docs|examples|manifests) ([\w./-]+)")
OF_A_CHECKOUT = re.compile(r"(?<![\w/])(?:docs|examples|deploy|tests|scripts)/[\w.-]+|\bmake [a-z][a-z-]*\b")
NO_POINTERS = ("make room", "make sense", "make one", "make it", "make the", "make up", "make no", "make a")
"""English phrases that look like targets of the Makefile."""


def test_pages_are_printed(run: Run) -> None:
    for topic in ("schedule", "docs/reference/schedule.md", "reference/schedule", "explain"):
        code, out, err = run("docs", topic)
        assert (code, err) == (0, "")
        assert out == (HOUSE / "docs/reference/schedule.md").read_text()
    assert run("docs", "how-to/extender")[1] != run("docs", "extender")[1]
    assert run("docs", "9")[1] == (HOUSE / "docs/decisions/0009-least-privilege.md").read_text()


def test_pages_are_listed(run: Run) -> None:
    names = run("docs", "-o", "name")[1].splitlines()
    pages = {str(each.relative_to(HOUSE / "docs")) for each in (HOUSE / "docs").rglob("*.md")}
    assert {f"{name}.md" for name in names} == {page for page in pages if not page.endswith("README.md")}
    assert names[0].startswith("tutorial/")
    table = run("docs")[1].splitlines()
    assert len(table) == len(names) + 1
    assert "fairlead schedule" in next(line for line in table if line.startswith("reference/schedule "))


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("docs", "shedule"), "no page 'shedule' in the documentation", "did you mean schedule"),
        (("docs", "%%%"), "no page '%%%' in the documentation", "see: fairlead docs"),
        (("examples", "clusters.yaml"), "no 'clusters.yaml' among the examples", "did you mean cluster.yaml"),
        (("manifests", "agnet"), "no 'agnet' among the manifests", "did you mean agent?"),
        (("manifests", "chart"), "the chart is a folder, and cannot be printed", "add --out DIR"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(
    run: Run, words: tuple[str, ...], message: str, hint: str
) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == f"fairlead: {message}"
    assert second.startswith(f"  {hint}")


def test_examples_are_printed_and_copied(run: Run, tmp_path: Path) -> None:
    assert run("examples", "cluster.yaml")[1] == (HOUSE / "examples/cluster.yaml").read_text()
    assert run("examples", "--out", str(tmp_path / "mine"))[0] == 0
    copies = [each for each in (tmp_path / "mine").rglob("*") if each.is_file()]
    there = {str(each.relative_to(tmp_path / "mine")) for each in copies}
    assert there == set(run("examples", "-o", "name")[1].splitlines()) == set(files("examples"))
    copied = [str(tmp_path / "mine" / name) for name in ("cluster.yaml", "workloads.yaml")]
    assert main(["schedule", "--cluster", copied[0], "--workloads", copied[1]]) == 1


def test_manifests_are_printed_and_written(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("manifests", "modelprofiles", "agent")
    kinds = [each["kind"] for each in yaml.safe_load_all(out)]
    assert (code, kinds[0], "DaemonSet" in kinds) == (0, "CustomResourceDefinition", True)
    assert run("manifests", "--out", str(tmp_path))[0] == 0
    for name, place in (("chart", "deploy/chart"), ("manifests", "deploy/manifests")):
        for each in (HOUSE / place).rglob("*"):
            if each.is_file():
                copy = tmp_path / name / each.relative_to(HOUSE / place)
                assert copy.read_bytes() == each.read_bytes()
    listed = run("manifests", "-o", "name")[1].split()
    assert len(listed) == len(files("manifests")) + 1


def test_a_folder_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code, out, err = run("examples", "--out", str(tmp_path / "file"))
    assert (code, out) == (2, "")
    assert err.startswith(f"fairlead: --out {tmp_path}/file")


def test_an_image_contains_no_pages(tmp_path: Path) -> None:
    for name in FOLDERS:
        with pytest.raises(UserError, match=f"this installation does not contain the {name}"):
            folder(name, tmp_path / "usr/lib/fairlead")


def sentences() -> list[tuple[str, str]]:
    """Return the string literals that a user may read, with their files; docstrings are left out."""
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        idle = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        found += [
            (path.name, each.value)
            for each in ast.walk(tree)
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in idle
        ]
    return found


def test_no_message_points_to_a_file_of_a_checkout() -> None:
    texts = [(name, text) for name, text in sentences() if name not in ("shipped.py", "docs.py")]
    wrong = [
        (name, hit[0])
        for name, text in texts
        for hit in OF_A_CHECKOUT.finditer(text)
        if not hit[0].startswith(NO_POINTERS)
    ]
    assert wrong == []


def test_every_page_and_file_that_messages_name_exists() -> None:
    texts = {name: path for name, path in files("docs").items() if name.endswith(".md")}
    pages = {name.removesuffix(".md"): path for name, path in texts.items() if "README" not in name}
    known = {"examples": set(files("examples"))}
    named = [(kind, name) for _, text in sentences() for kind, name in POINTERS.findall(text)]
    assert {"docs", "examples", "manifests"} == {kind for kind, _ in named}
    for kind, name in named:
        if kind == "docs":
            find_page(name.rstrip("."), pages)
        elif kind == "examples":
            assert name in known["examples"]
        else:
            assert main(["manifests", name]) == 0 or name == "chart"
