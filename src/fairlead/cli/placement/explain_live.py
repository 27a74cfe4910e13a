"""`fairlead explain` of a pod in a live cluster: read the pod, ask its scheduler, or decide here."""

import argparse
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.progress import progress
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.cluster.client import Client
    from fairlead.cluster.config.types import ClusterConfig
    from fairlead.manifest.types.live import LivePod
    from fairlead.whatif.pod_status import PodReport

DEFAULT_SCHEDULER = "fairlead"
"""The default schedulerName of fairlead's scheduler."""


def add(command: argparse.ArgumentParser) -> None:
    """Add the options that choose the cluster, and the source of the explanation."""
    shared.add_cluster(command)
    command.add_argument(
        "-n", "--namespace", metavar="NS", help="the pod's namespace (default: the context's)"
    )
    command.add_argument(
        "--local",
        action="store_true",
        help="do not ask the scheduler: list the cluster and decide here, which takes longer",
    )
    command.add_argument(
        "--lease-namespace",
        metavar="NS",
        help="the namespace of the scheduler's Lease (default: search all)",
    )
    shared.add_catalog(command)


def explain_pod(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the explanation of the pod that the options name."""
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    namespace, name = _parse_pod(options, config.namespace)
    return [asyncio.run(_explain(config, options, namespace, name))]


def _parse_pod(options: argparse.Namespace, usual: str) -> tuple[str, str]:
    if not options.pod:
        raise SettingsError("no pod is named", "name a pod, or a file of decisions with --decision")
    first, slash, rest = options.pod.partition("/")
    namespace, name = (first, rest) if slash else (options.namespace or usual or "default", first)
    if slash and options.namespace not in (None, namespace):
        raise SettingsError(f"{options.pod} is not in the namespace {options.namespace}", "leave one out")
    if not namespace or not name or "/" in name:
        raise SettingsError(f"{options.pod!r} names no pod", "write it like default/web-0")
    return namespace, name


async def _explain(
    config: "ClusterConfig", options: argparse.Namespace, namespace: str, name: str
) -> "PodReport":
    from fairlead.cluster.client import Client

    async with Client.connect_once(config) as client:
        return await explain_with(client, options, namespace, name)


async def explain_with(
    client: "Client", options: argparse.Namespace, namespace: str, name: str
) -> "PodReport":
    """Return the explanation of a pod, over a connection that is open."""
    from fairlead.whatif import pod_status

    pod = await _get_pod(client, namespace, name)
    claims = await _get_claims(client, pod)
    explanation = pod_status.final_status(pod, claims)
    if explanation is not None:
        asks = not options.local and pod_status.placed_by_use(pod, claims)
        return await _with_need(client, pod, options, explanation) if asks else explanation
    if options.local:
        note = "decided here by requests, as the cluster was a moment ago"
        return await _decide_here(client, pod, options, note)
    return await _ask_scheduler(client, pod, options)


async def _with_need(
    client: "Client", pod: "LivePod", options: argparse.Namespace, report: "PodReport"
) -> "PodReport":
    """Return the report of a bound pod, with what its scheduler counts it for, if that answers."""
    from fairlead.whatif import leader, pod_status
    from fairlead.whatif.pod_program import NoAnswer

    holder = await leader.find_leader(client, options.lease_namespace, pod.spec.scheduler_name)
    answer = holder if isinstance(holder, NoAnswer) else await leader.ask_leader(client, holder, pod)
    return report if isinstance(answer, NoAnswer) else pod_status.with_need(report, answer)


async def _ask_scheduler(client: "Client", pod: "LivePod", options: argparse.Namespace) -> "PodReport":
    """Return the scheduler's explanation; for a pod of another scheduler, the condition of the pod."""
    from fairlead.whatif import leader, pod_status
    from fairlead.whatif.pod_program import NoAnswer

    scheduler = pod.spec.scheduler_name
    holder = await leader.find_leader(client, options.lease_namespace, scheduler)
    if isinstance(holder, NoAnswer) and scheduler != DEFAULT_SCHEDULER:
        return pod_status.status_from_condition(
            pod, f"{holder.reason}: --local shows what fairlead would decide"
        )
    answer = holder if isinstance(holder, NoAnswer) else await leader.ask_leader(client, holder, pod)
    if not isinstance(answer, NoAnswer):
        return pod_status.status_from_scheduler(pod, answer)
    note = f"decided here, which takes longer and may differ: {answer.reason}"
    return await _decide_here(client, pod, options, note)


async def _get_pod(client: "Client", namespace: str, name: str) -> "LivePod":
    from fairlead.errors import ManifestError, NotFoundError
    from fairlead.manifest.listing import PODS

    try:
        return await client.get(PODS, name, namespace)
    except NotFoundError:
        hint = await _similar_pods_hint(client, namespace, name)
        raise ManifestError(f"there is no pod {namespace}/{name}", hint) from None


async def _similar_pods_hint(client: "Client", namespace: str, name: str) -> str:
    """Return a hint that names similar pods."""
    from difflib import get_close_matches

    from fairlead.errors import ClusterError
    from fairlead.manifest.listing import PODS

    see = f"list the pods: kubectl get pods -n {namespace}"
    try:
        elsewhere = (await client.list(PODS, fields=f"metadata.name={name}")).items
        names = [item.metadata.name for item in (await client.list(PODS, namespace)).items]
    except ClusterError:
        return see
    if elsewhere:
        return f"did you mean {elsewhere[0].metadata.namespace}/{name}?"
    made = [each for each in names if each.startswith(f"{name}-")]  # created by a controller of this name
    near = made[:3] or get_close_matches(name, names, 3, 0.6)
    return f"did you mean {', '.join(near)}?" if near else see


async def _get_claims(client: "Client", pod: "LivePod") -> list[Any]:
    """Return the claims of a pod that is bound to a node."""
    if not pod.spec.node_name:
        return []
    from contextlib import suppress

    from fairlead.errors import ClusterError
    from fairlead.manifest.listing import CLAIMS
    from fairlead.manifest.pod.claim_names import claims_used

    claims = []
    for namespace, name in claims_used(pod):
        with suppress(ClusterError):  # gone, or not readable: explain without it
            claims.append(await client.get(CLAIMS, name, namespace))
    return claims


async def _decide_here(
    client: "Client", pod: "LivePod", options: argparse.Namespace, note: str
) -> "PodReport":
    from fairlead.manifest.listing import list_objects
    from fairlead.whatif import pod_status
    from fairlead.whatif.local import decide_locally

    with progress("listing the cluster to decide here"):
        listed = await list_objects(client)
        decision = decide_locally(listed, shared.catalog_of(options), pod, detailed=options.verbose)
    return pod_status.status_from_decision(pod, decision, note)
