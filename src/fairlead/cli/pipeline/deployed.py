"""`fairlead pipeline status`, `drain` and `delete`: pipelines that are in a cluster."""

import argparse
from collections.abc import Mapping
from typing import Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.pipeline import cluster
from fairlead.cli.pipeline.cluster_plan import placement_document, placement_lines
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess

_CONDITIONS: Final = (
    *(Column(each, Fit.KEEP) for each in ("CONDITION", "STATUS", "REASON")),
    Column("MESSAGE", Fit.PROSE),
)
_HOSTS: Final = (
    *(Column(each, Fit.KEEP) for each in ("HOST", "READY", "POD", "NODE")),
    Column("STAGES", Fit.PROSE),
)
_SCALED: Final = ("stage", "replicas", "min", "max", "changes")
_SCALING: Final = (
    *(Column(each, Fit.KEEP) for each in ("STAGE", "REPLICAS", "BOUNDS")),
    Column("LAST CHANGE", Fit.PROSE),
)
_NAME: Final = "NAME|FILE"
_ABOUT: Final = "the name of a pipeline, or its file"
Json = dict[str, Any]


def add_verbs(verbs: Any) -> None:
    """Add the commands."""
    status = verbs.add_parser(
        "status",
        help="show a pipeline of a cluster",
        description="Show the conditions, hosts and stages of a pipeline in a cluster. The exit code is 1 if "
        "it is not ready.",
    )
    _add(status)
    status.set_defaults(run=_status)
    drain = verbs.add_parser(
        "drain",
        help="end the run of a pipeline of a cluster, once its frames are done",
        description="End the run of a pipeline in a cluster: its sources end, frames on their way finish, "
        "and its pods go. The pipeline stays; `fairlead pipeline deploy` starts it again.",
    )
    _add(drain)
    resources.add_wait(drain, "no pod of it is left")
    drain.set_defaults(run=_drain)
    delete = verbs.add_parser(
        "delete",
        help="delete a pipeline of a cluster",
        description="Delete a pipeline and everything that was made of it. Its run is drained first.",
    )
    _add(delete)
    resources.add_wait(delete, "nothing of it is left")
    delete.set_defaults(run=_delete)


def _add(command: argparse.ArgumentParser) -> None:
    command.add_argument("pipeline", metavar=_NAME, help=_ABOUT)
    resources.add_cluster(command)
    shared.add_output(command)


def _status(options: argparse.Namespace) -> int:
    from fairlead.ownedobjects import stored

    async def work(access: ResourceAccess) -> Json:
        return await access.read()

    found = cluster.with_pipeline(options, cluster.pipeline_name(options.pipeline), work)
    show_status(found, options)
    return 0 if stored.is_running(found) else 1


def _drain(options: argparse.Namespace) -> int:
    seconds = resources.wait_seconds(options)

    async def work(access: ResourceAccess) -> Json:
        found = await cluster.set_suspended(access, True)
        if not options.wait:
            return found
        with progress(f"draining {access.namespace}/{access.name}") as bar:
            waited = await access.wait(
                seconds, lambda now: now is None or _is_drained(now), lambda now: bar.set_status(summary(now))
            )
        return waited or found

    found = cluster.with_pipeline(options, cluster.pipeline_name(options.pipeline), work)
    show_status(found, options)
    return 0 if not options.wait or _is_drained(found) else 1


def _is_drained(found: Json) -> bool:
    from fairlead.ownedobjects import stored

    settled = stored.condition(found, "Progressing").get("status") == "False"
    return settled and stored.condition(found, "Ready").get("reason") in ("Suspended", "Completed")


def _delete(options: argparse.Namespace) -> int:
    seconds = resources.wait_seconds(options)

    async def work(access: ResourceAccess) -> tuple[str, Json | None]:
        found: Json | None = await access.read()
        await access.client.delete(cluster.kind(), access.name, access.namespace)
        if options.wait:
            with progress(f"deleting {access.namespace}/{access.name}") as bar:
                found = await access.wait(
                    seconds, lambda now: now is None, lambda now: bar.set_status(summary(now))
                )
        return f"{access.namespace}/{access.name}", found

    name, left = cluster.with_pipeline(options, cluster.pipeline_name(options.pipeline), work)
    gone = left is None
    if options.output == "table":
        is_late = options.wait and not gone
        text = "deleted" if gone else "is being deleted"
        show_page(Page.of(Text(f"{name} {text}", Tone.WARN if is_late else None)), options.color)
    else:
        show({"pipeline": name, "deleted": gone}, options.output)
    return 0 if gone or not options.wait else 1


def summary(found: Json | None) -> str:
    """Return how a Pipeline is doing, in a few words."""
    from fairlead.ownedobjects import stored

    if found is None:
        return "gone"
    refused = stored.condition(found, "Accepted")
    if refused.get("status") == "False":
        return str(refused["message"])
    ready = stored.condition(found, "Ready")
    return str(ready.get("message") or "no operator has looked at it yet")


def show_status(found: Json, options: argparse.Namespace) -> None:
    """Print the status of a Pipeline."""
    if options.output == "table":
        show_page(status_page(found), options.color)
    else:
        show(status_document(found), options.output)


def status_document(found: Json) -> Json:
    """Return the status of a Pipeline for programs."""
    from fairlead.ownedobjects import stored

    meta, status = found["metadata"], found.get("status") or {}
    return {
        "pipeline": meta["name"],
        "namespace": meta["namespace"],
        "generation": meta.get("generation", 0),
        "observed_generation": status.get("observedGeneration", 0),
        "ready": stored.is_true(found, "Ready"),
        "suspended": bool(found["spec"].get("suspend")),
        "pods": status.get("pods", ""),
        "conditions": [
            {key: each[key] for key in ("type", "status", "reason", "message")}
            for each in status.get("conditions") or ()
        ],
        "hosts": [
            {
                "name": each["name"],
                "pod": each.get("pod", ""),
                "node": each.get("node", ""),
                "ready": bool(each.get("ready")),
                "message": each.get("message", ""),
                "stages": _stages_of(status, each["name"]),
            }
            for each in status.get("hosts") or ()
        ],
        "plan": placement_document(status["placement"]) if "placement" in status else None,
        "scaling": [
            {**{key: each[key] for key in _SCALED}, "reason": each.get("reason", "")}
            for each in status.get("scaling") or ()
        ],
    }


def _stages_of(status: Mapping[str, Any], host: str) -> list[str]:
    return [each["stage"] for each in status.get("plan") or () if each["host"] == host]


def status_page(found: Json) -> Page:
    """Return the status of a Pipeline for people."""
    from fairlead.ownedobjects import stored

    document = status_document(found)
    tone = None if stored.is_running(found) else Tone.WARN
    lines: list[Text | Table | str] = [
        Text(f"{document['namespace']}/{document['pipeline']}: {summary(found)}", tone)
    ]
    if document["hosts"]:
        rows = [
            (
                each["name"],
                "yes" if each["ready"] else "no",
                each["pod"],
                each["node"] or "-",
                ", ".join(each["stages"]),
            )
            for each in document["hosts"]
        ]
        lines += ["", Table.of(_HOSTS, rows)]
    if document["scaling"]:
        scaled = [
            (each["stage"], str(each["replicas"]), f"{each['min']} to {each['max']}", each["reason"] or "-")
            for each in document["scaling"]
        ]
        lines += ["", Table.of(_SCALING, scaled)]
    lines += placement_lines((found.get("status") or {}).get("placement") or {})
    if document["conditions"]:
        keys = ("type", "status", "reason", "message")
        lines += [
            "",
            Table.of(_CONDITIONS, [tuple(each[key] for key in keys) for each in document["conditions"]]),
        ]
    return Page.of(*lines)
