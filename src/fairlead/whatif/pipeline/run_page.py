"""Read the status of a run from the page of its coordinator's pod."""

import json
from collections.abc import Mapping
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.pipelineobjects.names import PAGES_PORT
from fairlead.whatif.pipeline.observed import Json, ObservedPod
from fairlead.whatif.pod_program import NoAnswer, PodProgram

PATH: Final = "status"
_PORT_NAME: Final = "metrics"
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "pipeline": str,
    "seconds": (int, float),
    "stages": list,
    "edges": list,
    "fused": list,
}
"""The fields without which a document is no status of a run, and their types."""


def run_page(pod: Json) -> PodProgram:
    """Return where the pod of a coordinator serves its pages."""
    ports = {
        port.get("name"): port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
    }
    port = ports.get(_PORT_NAME, PAGES_PORT)
    address = (pod.get("status") or {}).get("podIP") or ""
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}:{port}"
    return PodProgram("the coordinator", name, where if address else "")


async def read_run(client: Client, pod: ObservedPod | None, pipeline: str) -> dict[str, Any] | NoAnswer:
    """Return the status of the run of a Pipeline, or why there is none."""
    if pod is None:
        return NoAnswer("the coordinator has no pod")
    if pod.phase != "Running":
        return NoAnswer(f"the coordinator's pod {pod.status.pod} does not run ({pod.phase})")
    answer = await run_page(pod.manifest).read(client, PATH)
    return answer if isinstance(answer, NoAnswer) else parse_run(answer, pipeline)


def parse_run(body: bytes, pipeline: str) -> dict[str, Any] | NoAnswer:
    """Return the status of a run, if it is of this Pipeline: its address may be that of another machine."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if document == {}:
        return NoAnswer("the run has no status yet")
    fields = document if isinstance(document, dict) else {}
    if not all(isinstance(fields.get(name), kind) for name, kind in _FIELDS.items()):
        return NoAnswer("what the coordinator answers is no status of a run")
    if fields["pipeline"] != pipeline:
        return NoAnswer(f"the process at the coordinator's address runs {fields['pipeline']!r}")
    return fields
