"""Where `fairlead rightsize` reads requests and series: a cluster, a file, Prometheus."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.progress import progress
from fairlead.cli.shell import options as shared
from fairlead.errors import ClusterUnavailableError, SettingsError

if TYPE_CHECKING:
    from fairlead.cluster.client import Client
    from fairlead.manifest.files.collect import FoundObjects
    from fairlead.rightsize.report import AdviceOptions
    from fairlead.rightsize.requested import PodOwners
    from fairlead.rightsize.workload import PodSeries, SizedContainer
    from fairlead.usage.prometheus import QueryFault


def prometheus_series(options: argparse.Namespace, advice: "AdviceOptions") -> "tuple[PodSeries, ...]":
    """Return the series of all pods, from the Prometheus that the options name."""
    import asyncio

    from fairlead.usage.source import SourceName, UsageSettings, check_settings

    check_settings(UsageSettings(SourceName.PROMETHEUS, options.prometheus))
    with progress("asking Prometheus"):
        series = asyncio.run(_ask(options, advice))
    if isinstance(series, list):
        return tuple(series)
    raise _unavailable(series)


async def _ask(options: argparse.Namespace, advice: "AdviceOptions") -> "list[PodSeries] | QueryFault":
    import os

    from fairlead.cluster.http.fetch import FetchAccess, Fetcher
    from fairlead.rightsize.prometheus import PodHistoryReader

    access = FetchAccess(options.prometheus_token_file, ca_file=options.prometheus_ca_file, env=os.environ)
    async with Fetcher.open(access) as fetcher:
        return await PodHistoryReader(fetcher, options.prometheus).pod_series(advice.window)


def _unavailable(fault: "QueryFault") -> ClusterUnavailableError | SettingsError:
    """Return the error of a Prometheus without an answer: it is away, or another one is needed."""
    from fairlead.use import UseFault

    text, _, hint = fault.detail.partition("; ")
    if fault.fault is UseFault.UNREACHABLE:
        return ClusterUnavailableError(text, hint)
    return SettingsError(text, hint)


def file_requests(options: argparse.Namespace) -> "list[SizedContainer]":
    """Return the requests in a snapshot, or in objects as kubectl prints them."""
    from fairlead.manifest.files.collect import collect
    from fairlead.manifest.files.snapshot import is_snapshot, parse
    from fairlead.manifest.files.text import read
    from fairlead.manifest.types.live import LivePod
    from fairlead.rightsize.crashes import crashes_of
    from fairlead.rightsize.requested import PodOwners, of_snapshot

    documents = read(options.snapshot)
    for where, document in documents:
        if is_snapshot(document):
            return of_snapshot(parse(document, where))
    objects = collect(documents)
    restarted = [entry.body for entry in collect(documents, {"Pod": LivePod}).entries]
    jobs = [entry.body for entry in objects.all("Job")]
    return _requests(objects, options, PodOwners(_cron_jobs(jobs), crashes_of(restarted)))


def cluster_requests(options: argparse.Namespace) -> "list[SizedContainer]":
    """Return the requests of the pods of a cluster, in one namespace or in all."""
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    if not options.all_namespaces and not options.namespace:
        options.namespace = config.namespace or "default"
    with progress("listing the cluster"):
        objects, owners = asyncio.run(_list_cluster(config))
    return _requests(objects, options, owners)


async def _list_cluster(config: Any) -> "tuple[FoundObjects, PodOwners]":
    from fairlead.cache.types import PODS as LIVE_PODS
    from fairlead.cluster.client import Client
    from fairlead.manifest.listing import list_objects
    from fairlead.rightsize.crashes import crashes_of
    from fairlead.rightsize.requested import PodOwners

    async with Client.connect(config) as client:
        objects = await list_objects(client)
        restarted = (await client.list(LIVE_PODS)).items
        return objects, PodOwners(_cron_jobs(await _list_jobs(client)), crashes_of(restarted))


async def _list_jobs(client: "Client") -> tuple[Any, ...]:
    """Return the jobs; without the right to list them, pods of a CronJob count for their Job."""
    from fairlead.errors import AccessError
    from fairlead.rightsize.owners import JOBS

    try:
        return (await client.list(JOBS)).items
    except AccessError as error:
        print(f"fairlead: CronJobs are not recognised: {error}", file=sys.stderr)
        return ()


def _cron_jobs(jobs: Any) -> dict[tuple[str, str], str]:
    return {
        job.key: owner.name
        for job in jobs
        for owner in job.metadata.owner_references
        if owner.controller and owner.kind == "CronJob"
    }


def _requests(
    objects: "FoundObjects", options: argparse.Namespace, owners: "PodOwners"
) -> "list[SizedContainer]":
    from fairlead.cache.listed_cluster import ListedCluster
    from fairlead.rightsize.requested import of_objects

    catalog = shared.catalog_of(options)
    listed = ListedCluster.of(objects, catalog)
    return of_objects(objects, listed.snapshot, catalog, owners)
