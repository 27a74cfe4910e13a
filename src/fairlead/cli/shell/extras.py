"""The extra of the package that each command needs, and the error if a part of it is missing."""

import argparse
from typing import Final

from fairlead.errors import MissingPartError

EXTRAS: Final = {
    "ps": "",
    "top": "",
    "logs": "",
    "cancel": "",
    "adopt": "",
    "device": "",
    "detect": "",
    "capture": "",
    "catalog": "",
    "analyze": "",
    "completion": "",
    "docs": "",
    "examples": "",
    "manifests": "",
    "warden": "",
    "augment": "cluster",
    "augment tier": "",
    "augment invite": "",
    "augment work": "",
    **dict.fromkeys(
        ("augment submit", "augment resume", "augment jobs", "augment logs", "augment cancel"), ""
    ),
    "serve tier": "",
    "run": "run",
    "submit": "run",
    "pipeline": "pipeline",
    "pipeline worker": "pipeline-hosts",
    "pipeline certificates": "pipeline-hosts",
    "pipeline deploy": "pipeline-cluster",
    "pipeline status": "pipeline-cluster",
    "pipeline drain": "pipeline-cluster",
    "pipeline delete": "pipeline-cluster",
    "estimate": "predict",
    "bench predict": "predict",
    "calibrate": "calibrate",
    "profiles": "cluster",
    "nodes": "cluster",
    "devices": "cluster",
    "doctor": "cluster",
    "debug-dump": "scheduler",
    "retract": "cluster",
    "snapshot": "scheduler",
    "schedule": "scheduler",
    "explain": "scheduler",
    "rightsize": "scheduler",
    "replay": "scheduler",
    "simulate": "simulate",
    "reproduce": "simulate",
    "reproduce pipeline": "pipeline-hosts",
    "reproduce devices": "predict",
    "reproduce augment": "search",
    "bench openb": "simulate",
    "bench share": "run",
    "serve agent": "agent",
    "serve scheduler": "scheduler",
    "serve extender": "scheduler",
    "serve admission": "scheduler",
    "serve operator": "operator",
    "serve store": "augment",
    "serve dashboard": "dashboard",
    "dashboard": "dashboard",
    "lab": "lab",
}
"""By command; one without an extra needs Python alone. Some run in part without theirs (`doctor
--here`); `ps` and `top` plan the queue where numpy is installed, and show the recorded reasons elsewhere."""
_MAY_USE_A_CLUSTER: Final = ("estimate", "calibrate")
"""Commands that need their own extra, and the extra `cluster` if their options name a cluster."""


def extras_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the extras that the command needs with these options."""
    verb = getattr(options, "verb", None) or getattr(options, "program", None) or ""
    name = f"{options.command} {verb}".strip()
    if name == "top" and getattr(options, "kubectl", False):
        return ("scheduler",)
    own = EXTRAS.get(name, EXTRAS.get(options.command, "all"))
    extras = [own] if own else []
    if options.command == "augment" and getattr(options, "local", False):
        return ("augment", "run")
    if name == "augment invite" and options.name is not None:
        return ("cluster",)
    if options.command == "augment" and not own and getattr(options, "session", None) and verb != "work":
        return ("cluster",)
    if name == "pipeline top" and (options.namespace or options.kubeconfig or options.context):
        extras = ["pipeline-cluster"]
    if options.command == "analyze" and getattr(options, "train", False):
        return ("predict",)
    if name == "reproduce all":
        return ("simulate", "pipeline-hosts", "search")
    if name == "reproduce pipeline" and options.lab:
        extras += ["lab", "pipeline-cluster"]
    if name == "reproduce augment" and options.lab:
        extras.append("lab")
    if options.command in _MAY_USE_A_CLUSTER and (options.cluster or options.kubeconfig or options.context):
        extras.append("cluster")
    return tuple(extras) or ("all",)


def missing_part(error: ModuleNotFoundError, options: argparse.Namespace) -> MissingPartError:
    """Return the error for a module that is not installed; images leave out packages of fairlead, too."""
    name = error.name or "a module"
    module = name if name.startswith("fairlead.") else name.partition(".")[0]
    return MissingPartError(f"{options.command} needs {module}, which is not installed")


def advice(options: argparse.Namespace) -> str:
    """Return the command that installs the missing extras."""
    from fairlead.cli.shell.installation import Installation

    return Installation.here().advice(extras_of(options))
