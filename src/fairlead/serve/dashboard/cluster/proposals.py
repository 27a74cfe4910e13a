"""Proposals of right-sizing for a live cluster, from the series of its Prometheus; read now and then."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fairlead.cache.listed_cluster import ListedCluster
from fairlead.cluster.http.fetch import FetchAccess, Fetcher
from fairlead.dashboard.row_types import ProposalRow
from fairlead.manifest.files.collect import FoundObject, FoundObjects
from fairlead.rightsize.prometheus import PodHistoryReader
from fairlead.rightsize.report import AdviceOptions, Recommendation, report
from fairlead.rightsize.requested import PodOwners, of_objects
from fairlead.rightsize.workload import PodSeries
from fairlead.units import format_bytes
from fairlead.usage.source import UsageSettings

if TYPE_CHECKING:
    from fairlead.serve.dashboard.cluster.source import ClusterSource

PERIOD: Final = 600.0
FIRST: Final = 5.0
"""Seconds before the first read: the page is shown first."""


class ProposalReader:
    """The recommendations of the last read."""

    def __init__(self) -> None:
        self.recommendations: dict[str, Recommendation] = {}

    async def follow(self, source: "ClusterSource", usage: UsageSettings) -> None:
        """Read the series again and again, and show what they say."""
        if not usage.url:
            return
        access = FetchAccess(usage.token_file, ca_file=usage.ca_file, env=os.environ)
        await asyncio.sleep(FIRST)
        async with Fetcher.open(access) as fetcher:
            reader = PodHistoryReader(fetcher, usage.url)
            while True:
                options = AdviceOptions(source.board.clock())
                series = await reader.pod_series(options.window)
                if isinstance(series, list):
                    rows = await asyncio.to_thread(
                        self._read, source.objects(), source.catalog, series, options
                    )
                    source.board.replace("proposals", rows)
                    source.board.heal("sizes")
                else:
                    source.board.set_stale("sizes", series.detail, ("proposals",))
                await asyncio.sleep(PERIOD)

    def _read(
        self, objects: Sequence[Any], catalog: Any, series: Sequence[PodSeries], options: AdviceOptions
    ) -> list[ProposalRow]:
        found = FoundObjects.of(
            FoundObject(f"{kind.name.lower()} {'/'.join(filter(None, item.key))}", kind.name, item)
            for kind, item in objects
        )
        listed = ListedCluster.of(found, catalog)
        advised = report(of_objects(found, listed.snapshot, catalog, PodOwners()), series, options)
        self.recommendations = {proposal_key(each): each for each in advised.changes}
        return [proposal_row(key, each) for key, each in self.recommendations.items()]


def proposal_key(advised: Recommendation) -> str:
    """Return the key of a recommendation; it begins with the namespace."""
    workload = advised.container.workload
    parts = (workload.namespace, workload.kind, workload.name, advised.container.container)
    return "/".join(filter(None, parts))


def proposal_row(key: str, advised: Recommendation) -> ProposalRow:
    """Return the row of a recommendation."""
    container, workload = advised.container, advised.container.workload
    now, size = container.requested or 0, advised.advice.size or 0
    name = f"{workload.kind.lower()}/{workload.name}"
    return ProposalRow(
        key=key,
        namespace=workload.namespace,
        workload=name,
        what=f"{format_bytes(size)} instead of {format_bytes(now)}: {advised.advice.reason}",
        now_bytes=now,
        proposed_bytes=size,
        saves_bytes=advised.saving,
        risk=advised.advice.risk,
        command=f"fairlead rightsize {name} -n {workload.namespace} --prometheus URL --apply",
    )
