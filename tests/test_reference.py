"""Reference pages and the drawing of the house match the code: every table is complete."""

import argparse
import re
from pathlib import Path

import pytest

from fairlead.cli.main import build_parser
from fairlead.compat import toml
from fairlead.doctor.examine import CHECKS
from fairlead.schedule import POLICIES

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
COMMAND = re.compile(r"# `fairlead ([a-z]+)`\n")
PAGES = {
    heading[1]: path
    for path in sorted(REFERENCE.glob("*.md"))
    if (heading := COMMAND.match(path.read_text(encoding="utf-8")))
}
SHARED = {"-h", "--help", "--no-headers", "--sort-by", "--color"}
"""Options that many commands have and docs/reference/output.md describes."""


def rows(page: str, head: str) -> list[str]:
    """Return the names in the first column of the table below this head."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    table = text.split(head, 1)[1].split("\n\n", 1)[0]
    return re.findall(r"(?m)^\| `([\w+-]+)`", table)


def options_of(name: str) -> set[tuple[str, ...]]:
    """Return the options of a command and of its subcommands, each with its spellings."""
    found, left = set[tuple[str, ...]](), [_choices(build_parser(name))[name]]
    while left:
        command = left.pop()
        found |= {tuple(action.option_strings) for action in command._actions if action.option_strings}
        left += _choices(command).values()
    return found


def _choices(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    subs = [action for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: each for sub in subs for name, each in sub.choices.items()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_a_command_has_every_option(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    words = set(re.findall(r"(?<![\w-])--?\w[\w-]*", text)) | SHARED
    assert sorted(each for each in options_of(name) if words.isdisjoint(each)) == []


def test_the_table_of_policies_is_complete() -> None:
    assert set(rows("policies.md", "| policy |")) == set(POLICIES)


def test_the_table_of_checks_is_complete_and_in_order() -> None:
    assert rows("doctor.md", "| check |") == [check.name for check in CHECKS]


def test_the_drawing_of_the_house_has_every_package_and_no_other() -> None:
    text = (ROOT / "docs/explanation/house.md").read_text(encoding="utf-8")
    drawn = text.split("src/fairlead/\n", 1)[1].split("\nlab/ ", 1)[0]
    listed = {word for line in re.findall(r"(?m)^  (\S.*?)(?:  |$)", drawn) for word in line.split()}
    there = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "src/fairlead").iterdir()
        if path.name.isascii() and not path.name.startswith("_") and path.suffix in ("", ".py")
    }
    assert listed == there
    floors = text.split("Floors, from top to bottom", 1)[1].split("```\n", 1)[1].split("```", 1)[0]
    drawn_layers = [sorted(re.findall(r"\w+", floor)) for floor in floors.split(">")]
    project = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (house,) = [contract for contract in contracts if contract["name"].startswith("The house:")]
    layers = [sorted(re.findall(r"\w+", layer)) for layer in house["layers"]]
    assert drawn_layers == layers


WALKS = ("A label", "A binding", "A latency", "An explanation", "A start on one machine")


@pytest.mark.parametrize("walk", WALKS)
def test_a_way_through_the_house_is_short_and_names_files_and_functions_that_exist(walk: str) -> None:
    page = (ROOT / "docs/explanation/house.md").read_text(encoding="utf-8")
    text = page.split(f"**{walk}", 1)[1].split("\n\n", 1)[0]
    assert len(text.splitlines()) <= 10
    quoted = re.findall(r"`([^`]+)`", text)
    files = [ROOT / "src/fairlead" / each for each in quoted if each.endswith(".py")]
    assert len(files) > 3
    missing = [str(path) for path in files if not path.is_file()]
    assert not missing
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    names = [each for each in quoted if re.fullmatch(r"[A-Za-z_][\w.]*", each) and not each.endswith(".py")]
    unknown = [each for each in names if not re.search(rf"(?:def|class) {each.split('.')[-1]}\b", source)]
    code = [each for each in quoted if " = " in each or ": str(" in each]
    assert [*unknown, *(each for each in code if each not in source)] == []
