"""`fairlead explain pipeline NAME`: read a Pipeline with everything that belongs to it, and explain it."""

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.terminal import show_page
from fairlead.cli.placement import explain_live
from fairlead.errors import AccessError, ManifestError, SettingsError

if TYPE_CHECKING:
    from fairlead.cli.shell.resources import ResourceAccess
    from fairlead.cluster.client import Client
    from fairlead.whatif.pipeline.observed import ObservedNode, ObservedPod, PipelineEvent

WORD: Final = "pipeline"
"""The first of two words that name a Pipeline; alone it is the name of a pod."""
_MOST_EXPLAINED: Final = 4
"""Pods of one Pipeline whose scheduler is asked: each is a request, and one gang waits for one reason."""
Json = dict[str, Any]


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.cli.pipeline.cluster import with_pipeline
    from fairlead.cli.placement.pipeline_page import pipeline_page

    async def work(access: "ResourceAccess") -> Json:
        return await _explain(access, options)

    report = with_pipeline(options, _name(options), work)
    if options.output == "table":
        show_page(pipeline_page(report, verbose=options.verbose), options.color)
    else:
        show(report, options.output)
    return 0 if report["running"] else 1


def _name(options: argparse.Namespace) -> str:
    """Return the name of the Pipeline that the options mean; its namespace goes to the options."""
    from fairlead.cli.pipeline.cluster import pipeline_name

    if options.decision is not None:
        raise SettingsError("--decision: a file of decisions has no pipelines", "leave out --decision")
    namespace, slash, name = str(options.name).partition("/")
    if not slash or os.path.isfile(options.name) or name.endswith((".yaml", ".yml")):
        return pipeline_name(options.name)
    if options.namespace not in (None, namespace) or not name or "/" in name:
        raise SettingsError(f"{options.name} names no pipeline of one namespace", "write -n NAMESPACE NAME")
    options.namespace = namespace
    return name


async def _explain(access: "ResourceAccess", options: argparse.Namespace) -> Json:
    from fairlead.whatif.pipeline.observed import ObservedPipeline
    from fairlead.whatif.pipeline.report import explain_pipeline
    from fairlead.whatif.pipeline.run_page import read_run
    from fairlead.whatif.pod_program import NoAnswer

    resource = await access.read()
    pods = await _pods(access, options)
    observed = ObservedPipeline(
        resource,
        pods,
        await _nodes(access.client, pods),
        await _events(access, resource["metadata"]["uid"]),
    )
    answer = await read_run(access.client, observed.coordinator, access.name)
    run, note = ({}, answer.reason) if isinstance(answer, NoAnswer) else (answer, "")
    return explain_pipeline(
        ObservedPipeline(observed.resource, observed.pods, observed.nodes, observed.events, run, note)
    )


async def _pods(access: "ResourceAccess", options: argparse.Namespace) -> "list[ObservedPod]":
    """Return the pods, each that has no node with its scheduler's explanation."""
    from dataclasses import replace

    from fairlead.cluster.kinds import PODS
    from fairlead.keys import PIPELINE
    from fairlead.whatif.pipeline.observed import ObservedPod

    listed = await access.client.list(PODS.raw(), access.namespace, labels=f"{PIPELINE}={access.name}")
    pods = [ObservedPod.of(each.document()) for each in listed.items]
    waiting = [pod.status.pod for pod in pods if pod.is_unscheduled][:_MOST_EXPLAINED]
    explanations: dict[str, Json] = {}
    for name in waiting:
        try:
            explanations[name] = await explain_live.explain_with(
                access.client, options, access.namespace, name
            )
        except (ManifestError, AccessError):  # gone meanwhile, or not readable: its condition remains
            continue
        if explanations[name]["source"] == "here":  # it has listed the whole cluster
            break
    return [replace(pod, explanation=explanations.get(pod.status.pod, {})) for pod in pods]


async def _nodes(client: "Client", pods: "list[ObservedPod]") -> "dict[str, ObservedNode]":
    """Return the nodes of pods; none where the user may not read nodes."""
    from fairlead.cluster.kinds import NODES
    from fairlead.errors import NotFoundError
    from fairlead.whatif.pipeline.observed import ObservedNode

    nodes = {}
    for name in sorted({pod.status.node for pod in pods if pod.status.node}):
        try:
            nodes[name] = ObservedNode.of((await client.get(NODES.raw(), name)).document())
        except NotFoundError:
            nodes[name] = ObservedNode(name, is_ready=False, is_gone=True)
        except AccessError:
            return {}
    return nodes


async def _events(access: "ResourceAccess", uid: str) -> "list[PipelineEvent]":
    """Return the events about the Pipeline, the last one first."""
    from fairlead.cluster.kinds import EVENTS
    from fairlead.whatif.pipeline.observed import PipelineEvent

    try:
        listed = await access.client.list(EVENTS, access.namespace, fields=f"involvedObject.uid={uid}")
    except AccessError:
        return []
    events = [
        PipelineEvent(
            each.last_timestamp or each.event_time or each.metadata.creation_timestamp,
            each.type,
            each.reason,
            each.message,
            max(1, each.count),
        )
        for each in listed.items
    ]
    return sorted(events, key=lambda each: each.time, reverse=True)
