"""Augmentations of a cluster, for the commands: how they are reached, and how they are shown."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess, StoredKind, with_resource

MANAGER: Final = "fairlead-augment"
"""Owns the fields that these commands write."""
AUGMENTATION: Final = StoredKind(
    "augmentations", "Augmentation", "augmentation", "fairlead augment create NAME"
)
_CONDITIONS: Final = (
    *(Column(each, Fit.KEEP) for each in ("CONDITION", "STATUS", "REASON")),
    Column("MESSAGE", Fit.PROSE),
)
_CLAIMS: Final = tuple(Column(each, Fit.KEEP) for each in ("CLAIM", "PART", "REQUESTED", "CAPACITY"))
_PODS: Final = (
    *(Column(each, Fit.KEEP) for each in ("PART", "READY", "POD", "NODE")),
    Column("MESSAGE", Fit.PROSE),
)
T = TypeVar("T")
Json = dict[str, Any]


def add_name(command: argparse.ArgumentParser) -> None:
    """Add the name of an augmentation, the cluster and the output."""
    command.add_argument("name", metavar="NAME", help="the name of the augmentation")
    resources.add_cluster(command)
    shared.add_output(command)


def with_augmentation(options: argparse.Namespace, work: Callable[[ResourceAccess], Awaitable[T]]) -> T:
    """Return what some work with the augmentation of the options results in."""
    return with_resource(options, AUGMENTATION, options.name, work)


def summary(found: Json | None) -> str:
    """Return how an augmentation is doing, in a few words."""
    from fairlead.ownedobjects import stored

    if found is None:
        return "gone"
    for name in ("Accepted", "Sized", "Reclaimed"):
        said = stored.condition(found, name)
        if said.get("status") == "False":
            return str(said["message"])
    ready = stored.condition(found, "Ready")
    return str(ready.get("message") or "no operator has looked at it yet")


def show_augmentation(found: Json, options: argparse.Namespace, head: str = "") -> None:
    """Print how an augmentation is doing."""
    if options.output == "table":
        show_page(Page.of(*([head] if head else []), status_page(found)), options.color)
    else:
        show(document(found), options.output)


def document(found: Json) -> Json:
    """Return how an augmentation is doing, for programs."""
    from fairlead.ownedobjects import stored

    meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    program = spec.get("application") or {}
    return {
        "augmentation": meta["name"],
        "namespace": meta.get("namespace", ""),
        "device": spec.get("device", ""),
        "image": program.get("image", ""),
        "accelerator_memory": (program.get("accelerator") or {}).get("memory", ""),
        "size": spec["storage"]["size"],
        "fast": spec["storage"].get("fast", ""),
        "quota": status.get("quota", ""),
        "used": status.get("used", ""),
        "peak": status.get("peak", ""),
        "reclaim": dict(status.get("reclaim") or {}),
        "ready": stored.is_true(found, "Ready"),
        "url": status.get("url", ""),
        "fingerprint": status.get("fingerprint", ""),
        "node": status.get("node", ""),
        "claims": list(status.get("claims") or ()),
        "pods": list(status.get("pods") or ()),
        "conditions": [
            {key: each[key] for key in ("type", "status", "reason", "message")}
            for each in status.get("conditions") or ()
        ],
    }


def status_page(found: Json) -> Page:
    """Return how an augmentation is doing, for people."""
    said = document(found)
    tone = None if said["ready"] else Tone.WARN
    lines: list[Text | Table | str] = [
        Text(f"{said['namespace']}/{said['augmentation']} for {said['device']}: {summary(found)}", tone)
    ]
    if said["url"]:
        lines.append(f"{said['url']} {said['fingerprint']}")
    if said["claims"]:
        rows = [
            (each["name"], each.get("part", ""), each.get("requested", ""), each.get("capacity", "-"))
            for each in said["claims"]
        ]
        lines += ["", Table.of(_CLAIMS, rows)]
    if said["pods"]:
        pods = [
            (
                each["part"],
                "yes" if each.get("ready") else "no",
                each.get("pod", ""),
                each.get("node", "-"),
                each.get("message", ""),
            )
            for each in said["pods"]
        ]
        lines += ["", Table.of(_PODS, pods)]
    if said["conditions"]:
        keys = ("type", "status", "reason", "message")
        rows_of = [tuple(each[key] for key in keys) for each in said["conditions"]]
        lines += ["", Table.of(_CONDITIONS, rows_of)]
    return Page.of(*lines)
