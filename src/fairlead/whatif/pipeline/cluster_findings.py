"""What is to be said of a Pipeline's resource, its operator, its pods and their nodes. Pure."""

from collections.abc import Iterator

from fairlead.ownedobjects import stored
from fairlead.pipelineobjects.names import LOCAL
from fairlead.whatif.pipeline.findings import FindingSeverity, PipelineFinding
from fairlead.whatif.pipeline.observed import ObservedPipeline, ObservedPod


def resource_findings(observed: ObservedPipeline) -> Iterator[PipelineFinding]:
    """Yield what is said of the resource itself."""
    if observed.resource["metadata"].get("deletionTimestamp"):
        yield PipelineFinding(
            FindingSeverity.ERROR, "spec", "", "it is being deleted: its run is drained first"
        )
    elif not stored.is_observed(observed.resource):
        generation = observed.resource["metadata"].get("generation", 0)
        yield PipelineFinding(
            FindingSeverity.ERROR, "operator", "", f"no operator has looked at generation {generation} yet"
        )
    accepted = observed.condition("Accepted")
    if accepted.get("status") == "False":
        yield PipelineFinding(
            FindingSeverity.ERROR, "spec", "", f"the spec is not accepted: {accepted['message']}"
        )
    planned = observed.condition("Planned")
    if planned.get("status") == "False" and accepted.get("status") != "False":
        yield PipelineFinding(
            FindingSeverity.ERROR, "spec", "", f"the stages have no hosts: {planned['message']}"
        )
    if observed.spec.get("suspend"):
        yield PipelineFinding(FindingSeverity.ERROR, "spec", "", "it is suspended: no pod runs")


def operator_findings(observed: ObservedPipeline) -> Iterator[PipelineFinding]:
    """Yield what the operator does now."""
    progress = observed.condition("Progressing")
    if not progress or progress["reason"] in ("Stable", "Invalid"):
        return
    severity = FindingSeverity.INFO if progress["status"] == "True" else FindingSeverity.WARNING
    text = f"the operator: {progress['reason']}: {progress['message']}"
    yield PipelineFinding(severity, "operator", "", text)


def pod_findings(observed: ObservedPipeline) -> Iterator[PipelineFinding]:
    """Yield why pods are not ready, and which nodes are lost."""
    for pod in observed.pods:
        if pod.is_ending:
            text = f"pod {pod.status.pod} of {pod.host} is being deleted"
            yield PipelineFinding(FindingSeverity.INFO, "pod", pod.status.pod, text)
        elif not pod.status.is_ready and pod.phase != "Succeeded":
            text = f"pod {pod.status.pod} of {pod.host} is not ready: {_reason(pod, observed)}"
            yield PipelineFinding(FindingSeverity.ERROR, "pod", pod.status.pod, text)
    yield from _missing(observed)
    for node in observed.nodes.values():
        pods = [pod.host for pod in observed.pods if pod.status.node == node.name]
        if not node.is_ready and pods:
            since = f" since {node.since}" if node.since else ""
            state = "is not in the cluster" if node.is_gone else f"is not ready{since}"
            text = f"node {node.name}, with {', '.join(pods)}, {state}"
            yield PipelineFinding(FindingSeverity.ERROR, "node", node.name, text)


def _reason(pod: ObservedPod, observed: ObservedPipeline) -> str:
    if pod.explanation:
        return str(pod.explanation["sentence"])
    if pod.status.message:
        return pod.status.message
    if not pod.status.node:
        return "no scheduler has reported on it"
    if pod.phase == "Pending":
        return f"its container starts on node {pod.status.node}"
    if pod.host == LOCAL:
        waits = [other.host for other in observed.pods if other.host != LOCAL and not other.status.is_ready]
        return f"it waits for {', '.join(waits)}" if waits else "not every stage is open yet"
    return "it takes no runs yet"


def _missing(observed: ObservedPipeline) -> Iterator[PipelineFinding]:
    """Yield the hosts of the plan that have no pod."""
    if observed.spec.get("suspend") or observed.condition("Ready").get("reason") == "Completed":
        return
    hosts = dict.fromkeys([*(each["host"] for each in observed.status.get("plan") or ()), LOCAL])
    for host in hosts if observed.condition("Accepted").get("status") == "True" else ():
        if not observed.pods_of(host):
            yield PipelineFinding(FindingSeverity.ERROR, "pod", "", f"{host} has no pod")
