"""Which extra of the package each command needs, and what is said where a part of it is missing."""

import argparse
from typing import Final

from fairlead.errors import MissingPartError

EXTRAS: Final = {
    "detect": "",
    "capture": "",
    "catalog": "",
    "analyze": "",
    "completion": "",
    "docs": "",
    "examples": "",
    "manifests": "",
    "warden": "",
    "estimate": "predict",
    "bench predict": "predict",
    "calibrate": "calibrate",
    "profiles": "cluster",
    "nodes": "cluster",
    "devices": "cluster",
    "doctor": "cluster",
    "retract": "cluster",
    "snapshot": "scheduler",
    "schedule": "scheduler",
    "explain": "scheduler",
    "replay": "scheduler",
    "simulate": "simulate",
    "bench openb": "simulate",
    "serve agent": "agent",
    "serve scheduler": "scheduler",
    "serve extender": "scheduler",
    "serve admission": "scheduler",
    "lab": "lab",
}
"""By command; those without an extra need Python alone, at least in part (`doctor --here`)."""
_MAY_USE_A_CLUSTER: Final = ("estimate", "calibrate")
"""Commands that need their own extra always, and a cluster's where they are sent to one."""


def extras_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the extras with which the command runs as it was called."""
    verb = getattr(options, "verb", None) or getattr(options, "program", None) or ""
    name = f"{options.command} {verb}".strip()
    own = EXTRAS.get(name, EXTRAS.get(options.command, "all"))
    asked = [own] if own else []
    if options.command in _MAY_USE_A_CLUSTER and (options.cluster or options.kubeconfig or options.context):
        asked.append("cluster")
    return tuple(asked) or ("all",)


def missing_part(error: ModuleNotFoundError, options: argparse.Namespace) -> MissingPartError:
    """Return what to say where a module is not installed; images leave out rooms of this program, too."""
    name = error.name or "a module"
    module = name if name.startswith("fairlead.") else name.partition(".")[0]
    return MissingPartError(f"{options.command} needs {module}, which is not installed")


def advice(options: argparse.Namespace) -> str:
    """Return what to run so that the command runs."""
    from fairlead.cli.shell.installation import Installation

    return Installation.here().advice(extras_of(options))
