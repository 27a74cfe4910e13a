"""The programs of ours that run in a cluster, and the pages that they serve, read through the API server."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS
from fairlead.whatif.pod_program import NoAnswer, PodProgram

SELECTOR: Final = "app.kubernetes.io/name=fairlead"
"""The label of every pod of ours."""
COMPONENT: Final = "app.kubernetes.io/component"
METRICS: Final = "metrics"
"""The name of the port with the metrics page, and the page's path."""
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class MetricsPod:
    """A pod of ours that runs, and the port of its metrics page."""

    component: str
    namespace: str
    name: str
    node: str
    port: int = 0
    """0: it has none."""
    https: bool = False

    @property
    def program(self) -> PodProgram:
        """Its pages, as they are read."""
        scheme = "https:" if self.https else ""
        return PodProgram(
            f"the {self.component}", f"{self.namespace}/{scheme}{self.name}:{self.port}", address=""
        )


def program_pod(document: Mapping[str, Any]) -> MetricsPod | None:
    """Return a pod of ours from its object; None: it has ended, or is not on a node yet."""
    meta, spec = document["metadata"], document.get("spec", {})
    if document.get("status", {}).get("phase") != "Running" or not spec.get("nodeName"):
        return None
    port, https = _metrics_port(spec.get("containers", ()))
    component = meta.get("labels", {}).get(COMPONENT, "")
    return MetricsPod(component, meta["namespace"], meta["name"], spec["nodeName"], port, https)


def _metrics_port(containers: Iterable[Mapping[str, Any]]) -> tuple[int, bool]:
    """Return the port of the metrics page, and whether it is served over HTTPS."""
    for container in containers:
        for port in container.get("ports", ()):
            if port.get("name") == METRICS:
                words = container.get("args", ()) or ()
                return int(port["containerPort"]), any(str(each).startswith("--tls-cert") for each in words)
    return 0, False


async def find_programs(client: Client, component: str = "") -> tuple[MetricsPod, ...]:
    """Return the pods of ours that run, of all components or of one."""
    labels = f"{SELECTOR},{COMPONENT}={component}" if component else SELECTOR
    listed = await client.list(PODS.raw(), labels=labels)
    return tuple(pod for each in listed.items if (pod := program_pod(each.document())) is not None)


async def read_metrics(client: Client, pods: Iterable[MetricsPod]) -> dict[MetricsPod, bytes | NoAnswer]:
    """Return the metrics page of each pod that has one, or why there is no answer."""
    semaphore = asyncio.Semaphore(_AT_ONCE)

    async def read(pod: MetricsPod) -> bytes | NoAnswer:
        async with semaphore:
            return await pod.program.read(client, METRICS)

    asked = [pod for pod in pods if pod.port]
    return dict(zip(asked, await asyncio.gather(*map(read, asked)), strict=True))
