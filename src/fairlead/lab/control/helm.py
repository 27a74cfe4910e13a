"""Helm as the lab's administrator, with folders of its own that the lab's end removes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairlead.lab.build.prerequisites import build
from fairlead.lab.run.state import Lab
from fairlead.lab.run.steps import StepPrinter

PART: Final = "deploy"
_PREFIX: Final = "HELM_"


def program(steps: StepPrinter) -> Path:
    """Return helm; build it if it is missing."""
    return build([PART], steps)["helm"]


def environment(lab: Lab, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which helm talks to this lab and ignores the user's Helm settings."""
    inherited = {name: value for name, value in environ.items() if not name.startswith(_PREFIX)}
    home = lab.folder / "helm"
    folders = {f"{_PREFIX}{kind.upper()}_HOME": str(home / kind) for kind in ("cache", "config", "data")}
    return {
        **inherited,
        **folders,
        "KUBECONFIG": str(lab.kubeconfig),
        "KUBECACHEDIR": str(lab.folder / "kubectl"),
    }
