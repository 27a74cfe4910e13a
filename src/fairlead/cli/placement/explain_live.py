"""`fairlead explain` of a pod in a live cluster: ask the pod, then its scheduler, then decide here."""

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
"""How a scheduler of ours is called where nobody calls it otherwise."""


def add(command: argparse.ArgumentParser) -> None:
    """Add the options that say which cluster, and how it is asked."""
    shared.add_cluster(command)
    command.add_argument("-n", "--namespace", metavar="NS", help="of the pod (default: the context's)")
    command.add_argument(
        "--local",
        action="store_true",
        help="do not ask the scheduler: list the cluster and decide here, which takes longer",
    )
    command.add_argument(
        "--lease-namespace",
        metavar="NS",
        help="where the scheduler's Lease is (default: it is looked for everywhere)",
    )
    shared.add_catalog(command)


def explain_pod(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return how the pod stands that the user asks about."""
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    namespace, name = _parse_pod(options, config.namespace)
    return [asyncio.run(_explain(config, options, namespace, name))]


def _parse_pod(options: argparse.Namespace, usual: str) -> tuple[str, str]:
    if not options.pod:
        raise SettingsError("no pod is named", "name one, or a file with --decision to see all of it")
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
    from fairlead.whatif import pod_status

    async with Client.connect_once(config) as client:
        pod = await _get_pod(client, namespace, name)
        told = pod_status.final_status(pod, await _get_claims(client, pod))
        if told is not None:
            return told
        if options.local:
            return await _decide_here(client, pod, options, "decided here, as the cluster was a moment ago")
        return await _ask_scheduler(client, pod, options)


async def _ask_scheduler(client: "Client", pod: "LivePod", options: argparse.Namespace) -> "PodReport":
    """Return what the pod's scheduler says of it; where that is another's, what the pod itself does."""
    from fairlead.whatif import leader, pod_status

    whose = pod.spec.scheduler_name
    who = await leader.find_leader(client, options.lease_namespace, whose)
    if isinstance(who, leader.NoAnswer) and whose != DEFAULT_SCHEDULER:
        return pod_status.status_from_condition(pod, f"{who.reason}: --local tells what ours would do")
    answer = who if isinstance(who, leader.NoAnswer) else await leader.ask_leader(client, who, pod)
    if not isinstance(answer, leader.NoAnswer):
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
    """Return a hint that names pods that may be meant."""
    from difflib import get_close_matches

    from fairlead.errors import ClusterError
    from fairlead.manifest.listing import PODS

    see = f"see what there is: kubectl get pods -n {namespace}"
    try:
        elsewhere = (await client.list(PODS, fields=f"metadata.name={name}")).items
        names = [item.metadata.name for item in (await client.list(PODS, namespace)).items]
    except ClusterError:
        return see
    if elsewhere:
        return f"did you mean {elsewhere[0].metadata.namespace}/{name}?"
    made = [each for each in names if each.startswith(f"{name}-")]  # by a controller of this name
    near = made[:3] or get_close_matches(name, names, 3, 0.6)
    return f"did you mean {', '.join(near)}?" if near else see


async def _get_claims(client: "Client", pod: "LivePod") -> list[Any]:
    """Return the claims of a pod that has a node."""
    if not pod.spec.node_name:
        return []
    from contextlib import suppress

    from fairlead.errors import ClusterError
    from fairlead.manifest.listing import CLAIMS
    from fairlead.manifest.pod.claims import claims_used

    found = []
    for namespace, name in claims_used(pod):
        with suppress(ClusterError):  # gone, or not to be seen: the rest is told nevertheless
            found.append(await client.get(CLAIMS, name, namespace))
    return found


async def _decide_here(
    client: "Client", pod: "LivePod", options: argparse.Namespace, note: str
) -> "PodReport":
    from fairlead.manifest.listing import list_objects
    from fairlead.whatif import pod_status
    from fairlead.whatif.local import decide_locally

    with progress("listing the cluster to decide here"):
        there = await list_objects(client)
        found = decide_locally(there, shared.catalog_of(options), pod, detailed=options.verbose)
    return pod_status.status_from_decision(pod, found, note)
