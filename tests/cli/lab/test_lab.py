"""`fairlead lab`: its verbs, its options and the fields of its documents are frozen."""

import argparse
import subprocess
import sys
from pathlib import Path

from fairlead.cli.lab.command import describe
from fairlead.cli.main import build_parser
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab, LabPhase, LabProfile, LabProgram

HELP = {"-h", "--help"}
OUTPUT = {"-o", "--output", "--color"}
VERBS = {
    "up": {
        "--name",
        "--profile",
        "--fleet",
        "--nodes",
        "--layout",
        "--owner",
        "--prometheus",
        "--rules",
        "--volumes",
        "--scheduler-config",
        "--feature-gates",
        "--runtime-config",
        "--catalog",
        *OUTPUT,
    },
    "status": {"--name", "--no-headers", "--sort-by", *OUTPUT},
    "kubectl": {"arguments"},
    "helm": {"arguments"},
    "load": {"--name", "ARCHIVE", *OUTPUT},
    "restart": {"--name", "PROGRAM", "--kill", *OUTPUT},
    "prometheus": {"--name", "--rules", *OUTPUT},
    "volumes": {"--name", *OUTPUT},
    "kubeconfig": {"--name", "--path"},
    "logs": {"--name", "PROGRAM", "-f", "--follow"},
    "down": {"--name"},
    "reap": OUTPUT,
    "build": {"--profile", *OUTPUT},
}
LAB = [
    "name",
    "profile",
    "state",
    "server",
    "prometheus",
    "kubeconfig",
    "nodes",
    "owner",
    "age_seconds",
    "times_seconds",
    "programs",
]
PROGRAM = ["name", "running", "pid", "memory_bytes", "log"]


def subparsers(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = [each for each in command._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(action.choices)


def test_the_verbs_are_frozen() -> None:
    found = {
        verb: {
            word
            for action in command._actions
            for word in action.option_strings or [str(action.metavar or action.dest)]
        }
        - HELP
        for verb, command in subparsers(subparsers(build_parser())["lab"]).items()
    }
    assert found == VERBS


def test_the_document_of_a_lab_is_frozen(tmp_path: Path) -> None:
    program = LabProgram("etcd", Process(2**22 + 1, 0), "/log")
    lab = Lab(
        "a",
        LabProfile.API,
        tmp_path,
        0.0,
        phase=LabPhase.READY,
        programs=(program,),
        ports={"kube-apiserver": 1},
    )
    document = describe(lab)
    assert list(document) == LAB
    assert list(document["programs"][0]) == PROGRAM
    assert document["state"] == "broken"
    assert document["server"] == "https://127.0.0.1:1"
    assert document["prometheus"] is None


def test_the_command_line_loads_no_library_of_the_lab() -> None:
    code = (
        "import sys\nfrom fairlead.cli.main import build_parser\n"
        "build_parser().parse_args(['lab', 'status'])\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"aiohttp", "cryptography", "msgspec", "yaml", "fairlead.lab", "fairlead.cluster"}
