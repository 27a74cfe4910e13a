"""What a new process has to know, and how two processes are joined, from the plan of a run. Pure."""

from dataclasses import asdict, replace
from typing import Any

from fairlead.pipeline.control import stage_to_json
from fairlead.pipeline.fuse import LinkPlan, RunPlan, is_merged
from fairlead.pipeline.link.joins import LinkJoin, RingJoin
from fairlead.pipeline.run_events import SpawnWorker


def worker_settings(
    plan: RunPlan, effect: SpawnWorker, *, replayable: bool, trace_every: int
) -> dict[str, Any]:
    """Return the first message of a worker."""
    worker, spec = plan.worker(effect.worker), plan.spec
    first, last = worker.stages[0], worker.stages[-1]
    inputs = [
        {
            "edge": edge.name,
            "contract": asdict(edge.contract),
            "merged": is_merged(spec, edge),
            **_links_of([each for each in plan.links if each.receiver == worker.name], edge.name),
        }
        for edge in spec.inputs_of(first.name)
    ]
    outputs = [
        {
            "edge": edge.name,
            "marked": edge.name in plan.marked,
            **_links_of([each for each in plan.links if each.sender == worker.name], edge.name),
        }
        for edge in spec.outputs_of(last.name)
    ]
    return {
        "stages": [stage_to_json(stage) for stage in worker.stages],
        "stream": spec.sources.index(first) if first in spec.sources else 0,
        "inputs": inputs,
        "outputs": outputs,
        "epoch": effect.epoch,
        "start": effect.start,
        "resume": effect.resume,
        "skip": effect.skip,
        "replayable": replayable,
        "folder": spec.folder,
        "cores": first.cores,
        "trace_every": trace_every,
    }


def ring_join(plan: RunPlan, link: LinkPlan) -> RingJoin:
    """Return how two workers of one host are joined."""
    outputs, inputs = _beside(plan, link)
    ends = (link.edge.name, link.sender, link.receiver, outputs.index(link), inputs.index(link))
    return RingJoin(*ends, link.slots, link.path, len(outputs), len(inputs), link.share)


def link_joins(plan: RunPlan, link: LinkPlan, session: str) -> tuple[LinkJoin, LinkJoin]:
    """Return both ends of a link between two hosts: that which sends, and that which receives.

    The coordinator's machine does not listen: a host that sends to it is connected to as well.
    """
    outputs, inputs = _beside(plan, link)
    start, end = plan.worker(link.sender), plan.worker(link.receiver)
    first = LinkJoin(
        *(session, True, link.sender, link.edge.name, outputs.index(link), link.slots),
        contract=asdict(link.edge.contract),
        encode=link.edge.encode,
        dial=end.address,
        path=link.path,
        links=len(outputs),
        route=(start.host, end.host),
        share=link.share,
    )
    back = "" if end.address else start.address
    last = replace(first, sends=False, worker=link.receiver, index=inputs.index(link), dial=back)
    return first, replace(last, links=len(inputs))


def _beside(plan: RunPlan, link: LinkPlan) -> tuple[list[LinkPlan], list[LinkPlan]]:
    """Return the links of the same edge at the sender, and those at the receiver."""
    links = [each for each in plan.links if each.edge == link.edge]
    outputs = [each for each in links if each.sender == link.sender]
    return outputs, [each for each in links if each.receiver == link.receiver]


def _links_of(links: list[LinkPlan], edge: str) -> dict[str, int]:
    own = [link for link in links if link.edge.name == edge]
    return {"links": len(own), "path": max((link.path for link in own), default=0)}
