"""200 Pipelines of five stages on nodes that kwok simulates: a part of `make bench-pipeline-cluster`.

Each has two hosts and a coordinator: three pods, four Secrets with a certificate authority of its own, and
the rest. `fairlead serve operator` runs as it is shipped. Exit code 1: a bar is missed.
"""

import asyncio
import os
import sys
from typing import Any

import yaml

from bench.labs import run_lab
from bench.operator_load import (
    NAMESPACE,
    OperatorFigures,
    OperatorLoad,
    machine,
    measure_operator,
    sum_of_versions,
    until_served,
)
from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import CRDS, NAMESPACES
from fairlead.lab.control.fleet import Fleet, NodeGroup
from fairlead.lab.control.kwok_nodes import manifests
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.up import LabSpec
from fairlead.ownedobjects.issuer import AuthorityIssuer
from fairlead.pipelineobjects.controller import PipelineController
from fairlead.serve.operator.kinds import client_kind
from tests.kinds import definition

PIPELINES, NODES = 200, 8
MOST_SECONDS, MOST_MIB, MOST_IDLE = 60.0, 200.0, 20.0
_CONTROLLER = PipelineController(AuthorityIssuer())
_KIND = client_kind(_CONTROLLER.resource)
_SPEC = yaml.safe_load("""
schedulerName: default-scheduler
stages:
  - {name: camera, source: numbers, host: edge}
  - {name: blur, run: "shop.stages:blur", host: edge}
  - {name: detect, run: "shop.stages:detect", host: server}
  - {name: track, run: "shop.stages:track", host: server}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}}
hosts: [{name: edge}, {name: server}]
""")


def pipeline(number: int) -> dict[str, Any]:
    """Return one of the Pipelines."""
    return {"metadata": {"name": f"p{number:03}"}, "spec": _SPEC}


async def measure(path: str) -> OperatorFigures:
    """Create the Pipelines at once, and return what the operator takes."""
    async with Client.connect(kubeconfig.load(path)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await client.create(CRDS.raw(), definition("pipelines.yaml"))
        await until_served(client, _KIND)
        words = ["serve", "operator", "--kubeconfig", path, "--listen", "127.0.0.1:0"]
        argv = ["-m", "fairlead", *words, "--lease-namespace", NAMESPACE]
        process = await asyncio.create_subprocess_exec(sys.executable, *argv, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        while b"leading" not in await process.stderr.readline():
            pass
        kinds = [_KIND, *map(client_kind, _CONTROLLER.owns)]
        bodies = [pipeline(number) for number in range(PIPELINES)]
        work = OperatorLoad(
            lambda: asyncio.gather(*(client.create(_KIND, body, NAMESPACE) for body in bodies)),
            lambda: _until_ready(client),
            lambda: sum_of_versions(client, kinds),
        )
        try:
            return await measure_operator(process.pid, work)
        finally:
            process.terminate()
            await process.wait()


async def _until_ready(client: Client) -> None:
    """Wait until every Pipeline says that its pods are ready, and that nothing is to be done."""
    while True:
        items = [one.document() for one in (await client.list(_KIND, NAMESPACE)).items]
        if sum(map(_is_done, items)) == PIPELINES:
            return
        await asyncio.sleep(0.5)


def _is_done(document: dict[str, Any]) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    status = {each["type"]: each["status"] for each in conditions}
    return (status.get("Ready"), status.get("Progressing")) == ("True", "False")


def missed(figures: OperatorFigures) -> list[str]:
    """Return the bars that are missed."""
    bars = {
        f"reconciled within {MOST_SECONDS:.0f} s": figures.seconds <= MOST_SECONDS,
        f"under {MOST_MIB:.0f} MB": figures.memory * 2**20 <= MOST_MIB * 1e6,
        f"under {MOST_IDLE:.0f} % of a core while idle": figures.idle <= MOST_IDLE,
        "no write while nothing changes": figures.idle_writes == 0,
    }
    return [name for name, is_met in bars.items() if not is_met]


def main() -> int:
    """Run on a lab of its own."""
    nodes = tuple(manifests(Fleet((NodeGroup("n", NODES),)), load()))
    spec = LabSpec(LabProfile.CONTROL, "bench-pipelines", fleet=nodes, owner=os.getpid())
    with run_lab(spec) as lab:
        figures = asyncio.run(measure(str(lab.kubeconfig)))
    print(f"{PIPELINES} pipelines of {len(_SPEC['stages'])} stages, {NODES} simulated nodes")
    print(f"{figures.describe()}\n{machine()}\nrepeat: make bench-pipeline-cluster")
    failed = missed(figures)
    for name in failed:
        print(f"missed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
