"""Run kubectl, and other commands that must succeed, against a running lab."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.errors import LabError
from fairlead.lab.run.state import Lab


def kubectl(lab: Lab, program: Path, words: Sequence[str], text: str = "") -> str:
    """Run kubectl with a standard input, and return its output; LabError where it fails."""
    return output([*kubectl_words(lab, program), *words], f"kubectl {words[0]}", lab, text)


def kubectl_words(lab: Lab, program: Path) -> list[str]:
    """Return how a command line of kubectl for a lab begins."""
    return [str(program), "--kubeconfig", str(lab.kubeconfig)]


def output(argv: Sequence[str], what: str, lab: Lab, text: str = "") -> str:
    """Run a command with a standard input, and return its output; LabError says `what` has failed."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(  # noqa: S603 - no shell; every argument is ours
        argv,
        input=text,
        env=environ | {"KUBECACHEDIR": str(lab.folder / "kubectl")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).strip().splitlines()]
        raise LabError(f"{what} failed: {'; '.join(lines[-3:]) or 'no reason given'}")
    return done.stdout
