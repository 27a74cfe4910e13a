"""Helm as the lab's administrator, with a home of its own that goes with the lab."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairlead.lab.build.prerequisites import build
from fairlead.lab.run.state import Lab
from fairlead.lab.run.steps import StepPrinter

PART: Final = "deploy"
_OURS: Final = "HELM_"


def program(narrator: StepPrinter) -> Path:
    """Return helm, built where it is missing."""
    return build([PART], narrator)["helm"]


def environment(lab: Lab, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which helm speaks to this lab, and knows nothing of the user's own helm."""
    own = {name: value for name, value in environ.items() if not name.startswith(_OURS)}
    home = lab.folder / "helm"
    places = {f"{_OURS}{kind.upper()}_HOME": str(home / kind) for kind in ("cache", "config", "data")}
    return {**own, **places, "KUBECONFIG": str(lab.kubeconfig), "KUBECACHEDIR": str(lab.folder / "kubectl")}
