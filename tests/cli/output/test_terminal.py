"""Commands on a real terminal: fitted to its width, with colour on demand; output to pipes is unchanged."""

import os
import re
import sys

import pytest

from fairlead.cli.output.table import Tone
from fairlead.cli.output.terminal import Page, Screen, Text, show_error
from tests.cli.examples import CLUSTER, EXAMPLES, WORKLOADS, Run
from tests.cli.pseudo_terminal import ESCAPE, RunOnTerminal, open_terminal, terminal_runner

HOSTS = EXAMPLES.parent / "tests" / "hosts"
NANO = str(HOSTS / "jetson-nano-coral-usb" / "root")
SCHEDULE = ("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> RunOnTerminal:
    """Run a command on a terminal."""
    return terminal_runner(monkeypatch)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (60, ("detect", "--root", NANO)),
        (80, ("detect", "--root", NANO)),
        (80, (*SCHEDULE, "--explain")),
        (80, ("catalog", "list", "--kind", "npu")),
    ],
    ids=("narrow", "detect", "schedule", "catalog"),
)
def test_no_line_is_wider_than_the_terminal(
    watch: RunOnTerminal, columns: int, words: tuple[str, ...]
) -> None:
    shown = plain(watch(columns, *words))
    assert max(map(len, shown.splitlines())) <= columns


def test_output_to_a_pipe_is_not_wrapped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = run("detect", "--root", NANO)
    assert max(map(len, out.splitlines())) > 100
    assert ESCAPE not in out


def test_a_wide_terminal_shows_the_same_as_a_pipe(watch: RunOnTerminal, run: Run) -> None:
    assert plain(watch(400, *SCHEDULE)) == run(*SCHEDULE)[1]


def test_the_variable_columns_overrides_the_width(
    watch: RunOnTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, plain(watch(200, "detect", "--root", NANO)).splitlines())) <= 50


def test_a_long_refusal_is_a_line_for_each_reason(watch: RunOnTerminal) -> None:
    lines = plain(watch(70, *SCHEDULE)).splitlines()
    at = lines.index("refused: 0 of 6 accelerators can take embedder")
    assert lines[at + 1].startswith("  3 lack memory (need 60 GiB")
    assert any(line.startswith("  smallest change that would fit: ") for line in lines[at:])


def test_colour_adds_nothing_to_the_text(watch: RunOnTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = watch(80, *SCHEDULE)
    assert f"{ESCAPE}1mPOD{ESCAPE}0m" in shown
    assert f"{ESCAPE}31mrefused: 0 of 6" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert watch(80, *SCHEDULE) == plain(shown)
    assert watch(80, *SCHEDULE, "--color", "always") == shown


@pytest.mark.parametrize(
    ("environ", "option", "color"),
    [
        ({"TERM": "xterm"}, "auto", True),
        ({"TERM": "xterm", "NO_COLOR": ""}, "auto", True),
        ({"TERM": "xterm", "NO_COLOR": "0"}, "auto", False),
        ({"TERM": "dumb"}, "auto", False),
        ({"TERM": "xterm"}, "never", False),
        ({"TERM": "dumb", "NO_COLOR": "1"}, "always", True),
    ],
)
def test_the_option_and_the_environment_decide_about_colour(
    environ: dict[str, str], option: str, color: bool
) -> None:
    with open_terminal(80) as (theirs, _), open(os.dup(theirs), "w", encoding="utf-8") as stream:
        assert Screen.of(stream, environ, option) == Screen(80, color)


def test_a_pipe_is_coloured_only_on_demand(run: Run) -> None:
    assert Screen.of(sys.stdout, {"TERM": "xterm", "COLUMNS": "40"}) == Screen(None, False)
    assert ESCAPE in run(*SCHEDULE, "--color", "always")[1]
    assert ESCAPE not in run(*SCHEDULE, "--color", "auto")[1]


def test_a_span_without_text_is_not_painted() -> None:
    page = Page.of(Text("", Tone.BAD), Text("x", Tone.GOOD))
    assert page.render(Screen(None, True)) == f"\n{ESCAPE}32mx{ESCAPE}0m"


def test_an_error_is_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with open_terminal(30) as (theirs, shown):
        stream = open(os.dup(theirs), "w", encoding="utf-8")  # noqa: SIM115 - closed below
        monkeypatch.setattr(sys, "stderr", stream)
        show_error("fairlead: what is wrong, and where\n  what to do")
        stream.close()
    assert b"".join(shown) == b"fairlead: what is wrong, and\r\n  where\r\n  what to do\r\n"
