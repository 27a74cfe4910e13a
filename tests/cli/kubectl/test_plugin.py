"""`kubectl fairlead`: kubectl's flags, verbs of clusters alone, completion, and a real kubectl."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.cli.kubectl.commandline import COMMANDS, build_parser, flags_last
from fairlead.cli.kubectl.plugin import completion_lines, main
from fairlead.cli.placement import rightsize_local
from fairlead.cli.shell.extras import extras_of
from fairlead.errors import LabError
from fairlead.lab.build.programs import ensure
from tests.labs import RealCluster, skip_without_lab

KUBECTL_FLAGS = {"-n", "--namespace", "--context", "--kubeconfig", "-o", "--output"}
VERBS = {
    "nodes",
    "devices",
    "top",
    "explain",
    "rightsize",
    *(f"pipeline {verb}" for verb in ("top", "deploy", "status", "drain", "delete")),
    *(f"augment {verb}" for verb in ("create", "list", "show", "delete", "resize", "rotate", "rightsize")),
    *(f"augment {verb}" for verb in ("invite", "submit", "resume", "jobs", "logs", "cancel")),
}


def leaves(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    subs = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not subs:
        yield name, parser
    for sub in subs:
        for word, below in sub.choices.items():
            yield from leaves(below, f"{name} {word}".strip())


def test_its_verbs_ask_a_cluster_and_take_kubectls_flags() -> None:
    found = dict(leaves(build_parser()))
    assert set(found) == VERBS
    for name, leaf in found.items():
        assert set(leaf._option_string_actions) >= KUBECTL_FLAGS, name
        assert leaf.format_help().startswith(f"usage: kubectl fairlead {name} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_one_command_alone_is_parsed_as_among_all(command: str) -> None:
    alone = {name for name, _ in leaves(build_parser(command))}
    assert alone == {name for name in VERBS if name.split()[0] == command}


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ("nodes -o json", "nodes -o json"),
        ("-n shop explain trainer-0", "explain trainer-0 -n shop"),
        ("--context=edge -n shop pipeline status p", "pipeline status p --context=edge -n shop"),
        ("-A rightsize", "rightsize -A"),
        ("-o name nodes -- x", "nodes -o name -- x"),
        ("-n shop", "-n shop"),
        ("--help", "--help"),
        ("", ""),
    ],
)
def test_flags_may_stand_before_the_command(words: str, moved: str) -> None:
    assert flags_last(words.split()) == moved.split()


def test_it_never_reads_this_machine_in_place_of_a_cluster() -> None:
    options = build_parser().parse_args(["rightsize"])
    assert not rightsize_local.applies(options)
    assert extras_of(build_parser().parse_args(["top"])) == ("scheduler",)


def test_an_unknown_command_and_help_name_the_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["node"])
    assert end.value.code == 2
    assert "kubectl fairlead: error: no command 'node': did you mean nodes?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["-n", "shop", "pipeline", "--help"])
    assert "deploy, watch, drain" in build_parser().format_help()
    assert "usage: kubectl fairlead pipeline" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["no"], ["nodes\tshow a cluster's nodes and their accelerators", ":4"]),
        (["-n", "shop", "pipeline", "st"], ["status\tshow a pipeline of a cluster", ":4"]),
        (["nodes", "-o", "w"], ["wide", ":4"]),
        (["devices", "-f", ""], [":0"]),
        (["nonsense", ""], [":4"]),
    ],
)
def test_completions_are_those_that_kubectl_reads(words: list[str], lines: list[str]) -> None:
    assert completion_lines(words).splitlines() == lines


@pytest.fixture(scope="module")
def kubectl() -> str:
    """Return a real kubectl."""
    try:
        return str(ensure(["kubectl"])["kubectl"])
    except LabError as error:
        skip_without_lab(str(error))


def run(kubectl: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run kubectl with this environment's programs on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [kubectl, *words], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def test_a_real_kubectl_runs_and_completes_it(kubectl: str, real_cluster: RealCluster) -> None:
    where = ("--kubeconfig", str(real_cluster.api.kubeconfig))
    listed = run(kubectl, "plugin", "list", "--name-only")
    assert "kubectl-fairlead" in listed.stdout.splitlines()
    assert run(kubectl, "fairlead", "--help").stdout.startswith("usage: kubectl fairlead ")
    nothing = run(kubectl, "fairlead", *where, "-n", real_cluster.namespace, "top")
    assert nothing.stdout == f"no accelerator is held in {real_cluster.namespace}\n", nothing.stderr
    missing = run(kubectl, "fairlead", "explain", "none", *where, "-n", real_cluster.namespace)
    assert missing.returncode == 2
    assert f"there is no pod {real_cluster.namespace}/none" in missing.stderr
    completed = run(kubectl, "__complete", "fairlead", "expl")
    assert completed.stdout.splitlines()[-1] == ":4"
    assert completed.stdout.startswith("explain\t")
