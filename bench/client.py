"""Measure the Kubernetes client beside the official one: a large list, a watch, and binds.

A pod is created in a real API server and read back; that recording, repeated 50,000 times, is served to both
clients from loopback over the same HTTP, page by page. Binds go to the real API server. Each job runs in a
process of its own and is measured there: CPU seconds, wall seconds, and the growth of memory.

`--short` has a fifth of the pods and a quarter of the events. With `--before CHECKOUT`, the peer is the
client of an earlier commit, in interleaved pairs. Exit code 1: a target is missed.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any, Final
from uuid import uuid4

from bench import pairs
from bench.pairs import Checkout, Costs
from fairlead.cli.output.show import to_table
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import NAMESPACES, NODES, PODS

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE, WARM = 500, 64
SIZES: Final = {
    "long": {"pods": 50_000, "events": 20_000, "binds": 1_000},
    "short": {"pods": 10_000, "events": 5_000, "binds": 400},
    "long pair": {"pods": 50_000, "events": 60_000, "binds": 2_000},
    "short pair": {"pods": 20_000, "events": 30_000, "binds": 1_000},
}
"""The work in each form; in a pair, enough for about a second of CPU on either side."""
LIST_TARGET, BIND_TARGET = 20.0, 2.0
Result = dict[str, float]
CONTAINER: dict[str, Any] = {
    "image": "registry.example.org/vision/server:v1.2.3",
    "args": ["--port=8080", "--model=/models/resnet50.onnx"],
    "ports": [{"containerPort": 8080}],
    "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    "volumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}],
    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}},
}
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def manifest(name: str) -> dict[str, Any]:
    """Return a pod as a Deployment creates it."""
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "vision", "pod-template-hash": "59c7f8b6d4", "version": "v1"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "vision-59c7f8b6d4", "uid": "0-1-2-3"}
            ],
        },
        "spec": {
            "containers": [{"name": f"server-{number}", **CONTAINER} for number in range(2)],
            "volumes": [{"name": "models", "hostPath": {"path": "/models"}}],
            "nodeSelector": {"kubernetes.io/arch": "arm64"},
            "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def status(at: str = "2026-11-15T23:40:07Z") -> dict[str, Any]:
    """Return the status that a kubelet reports of a running pod."""
    running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": at}}}
    return {
        "phase": "Running",
        "podIP": "10.42.0.17",
        "hostIP": "10.0.0.5",
        "startTime": at,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in CONDITIONS],
        "containerStatuses": [
            {
                "name": f"server-{number}",
                "image": CONTAINER["image"],
                "imageID": f"registry.example.org/vision/server@sha256:{'0' * 64}",
                "containerID": f"containerd://{'0' * 64}",
                **running,
            }
            for number in range(2)
        ],
    }


async def prepare(config: str, namespace: str, nodes: int) -> bytes:
    """Create a namespace, nodes and a running pod, and return the pod as the server stores it."""
    async with Client.connect(kubeconfig.load(config)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await asyncio.gather(
            *(
                client.create(NODES, {"metadata": {"name": f"{namespace}-{number}"}})
                for number in range(nodes)
            )
        )
        made = await client.create(PODS, manifest("recorded"), namespace)
        await client.bind(namespace, "recorded", made.metadata.uid, f"{namespace}-0")
        await client.patch_status(PODS, "recorded", {"status": status()}, namespace, field_manager="kubelet")
        return (await client.get(PODS.raw(), "recorded", namespace)).body


async def more_pods(config: str, namespace: str, nodes: int, count: int) -> list[tuple[str, str, str]]:
    """Create pods to bind; return the name and uid of each, and a node for it."""
    async with Client.connect(kubeconfig.load(config)) as client:
        names = [f"p-{uuid4().hex[:10]}" for _ in range(count)]
        made = await asyncio.gather(*(client.create(PODS, manifest(name), namespace) for name in names))
    return [
        (pod.metadata.name, pod.metadata.uid, f"{namespace}-{number % nodes}")
        for number, pod in enumerate(made)
    ]


def work(client: str, job: str, facts: Mapping[str, Any], peers: str) -> Result:
    """Run one job in a process of its own."""
    if client == "fairlead":
        return pairs.AFTER.work("client_worker", (client, job), facts)
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "client_worker.py"), client, job],
        input=json.dumps(facts),
        env={**os.environ, "PYTHONPATH": peers},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


@contextmanager
def serve_recording(recording: bytes, pods: int, events: int) -> Iterator[str]:
    """Serve the recording; yield the server's address."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(recording)
        file.flush()
        command = [
            sys.executable,
            os.path.join(HERE, "client_server.py"),
            file.name,
            str(pods),
            str(PAGE),
            str(events),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
            server.communicate()


@contextmanager
def api_server(kubeconfig_path: str | None) -> Iterator[str]:
    """Yield a kubeconfig: the user's, or that of a new lab."""
    if kubeconfig_path:
        yield kubeconfig_path
        return
    lab, name = (
        [sys.executable, "-c", "from fairlead.cli.main import run; run()", "lab"],
        f"bench-{os.getpid()}",
    )
    subprocess.run(
        [*lab, "up", "--profile", "api", "--name", name, "--owner", str(os.getpid())],
        check=True,
        stdout=sys.stderr,
    )
    try:
        path = subprocess.run(
            [*lab, "kubeconfig", "--name", name, "--path"], check=True, stdout=subprocess.PIPE, text=True
        )
        yield path.stdout.strip()
    finally:
        subprocess.run([*lab, "down", "--name", name], check=True, stdout=sys.stderr)


HEAD = ("JOB", "CPU", "OFFICIAL", "RATIO", "EACH", "OFFICIAL", "WALL", "MEMORY", "OFFICIAL", "TARGET")


@dataclass(frozen=True)
class Comparison:
    """One job, done by both clients."""

    job: str
    ours: Result
    theirs: Result
    target: float | None = None

    @property
    def ratio(self) -> float:
        """The peer's CPU time over fairlead's."""
        return self.theirs["cpu"] / self.ours["cpu"]

    @property
    def met(self) -> bool:
        """Whether the ratio meets the target."""
        return self.target is None or self.ratio >= self.target

    def row(self) -> tuple[str, ...]:
        """Return the comparison as a row of a table."""
        ours, theirs = self.ours, self.theirs
        verdict = f"{self.target:.0f}x {'met' if self.met else 'MISSED'}" if self.target else "-"
        return (
            self.job,
            *(f"{result['cpu']:.2f} s" for result in (ours, theirs)),
            f"{self.ratio:.1f}x",
            *(f"{result['cpu'] / result['count'] * 1e6:.0f} us" for result in (ours, theirs)),
            f"{theirs['wall'] / ours['wall']:.1f}x",
            *(f"{result['peak'] / 2**20:.0f} MiB" for result in (ours, theirs)),
            verdict,
        )


def median(results: list[Result]) -> Result:
    """Return the median run by CPU."""
    return sorted(results, key=lambda result: result["cpu"])[len(results) // 2]


def reads(recording: bytes, options: argparse.Namespace) -> list[Comparison]:
    """Compare lists and watches."""
    with serve_recording(recording, options.pods, options.events) as server:
        facts = {"server": server, "page": PAGE}
        ours, theirs = (
            {job: work(client, job, facts, options.peers) for job in ("list", "watch")}
            for client in ("fairlead", "official")
        )
    assert ours["list"]["count"] == theirs["list"]["count"] == options.pods
    assert ours["watch"]["count"] == theirs["watch"]["count"] == options.events
    return [
        Comparison(f"list {options.pods:,} pods", ours["list"], theirs["list"], LIST_TARGET),
        Comparison(f"watch {options.events:,} events", ours["watch"], theirs["watch"]),
    ]


def pods_to_bind(config: str, namespace: str, options: argparse.Namespace) -> dict[str, Any]:
    """Create pods, and return the facts for a worker that binds them."""
    pods = asyncio.run(more_pods(config, namespace, options.nodes, options.binds + WARM))
    return {"kubeconfig": config, "namespace": namespace, "at_once": 32, "warm": WARM, "pods": pods}


def binds(config: str, namespace: str, options: argparse.Namespace) -> list[Comparison]:
    """Compare binds alternately, so that other load of the machine affects all clients alike."""
    runs: dict[str, list[Result]] = {"fairlead": [], "official": [], "official-aio": []}
    for _ in range(options.rounds):
        for client, results in runs.items():
            results.append(work(client, "bind", pods_to_bind(config, namespace, options), options.peers))
    middle = {client: median(results) for client, results in runs.items()}
    job = f"bind {options.binds:,} pods"
    return [
        Comparison(f"{job}; threads", middle["fairlead"], middle["official"], BIND_TARGET),
        Comparison(f"{job}; asyncio", middle["fairlead"], middle["official-aio"], BIND_TARGET),
    ]


def compare(config: str, namespace: str, recording: bytes, options: argparse.Namespace) -> int:
    """Compare fairlead's client with that of an earlier commit."""
    with serve_recording(recording, options.pods, options.events) as server:
        facts = {"server": server, "page": PAGE}

        def measure(side: Checkout) -> Costs:
            jobs = {"list": facts, "watch": facts, "bind": pods_to_bind(config, namespace, options)}
            results = {job: side.work("client_worker", ("fairlead", job), jobs[job]) for job in jobs}
            done = {"list": options.pods, "watch": options.events, "bind": options.binds}
            assert {job: result["count"] for job, result in results.items()} == done
            return {job: result["cpu"] / result["count"] for job, result in results.items()}

        measured = pairs.measure_pairs(options.before, options.pairs, measure)
    return pairs.report(measured, options.before, "client")


def beside_official(config: str, namespace: str, recording: bytes, options: argparse.Namespace) -> int:
    """Compare fairlead's client with the official one."""
    peer = next(package.version for package in distributions(name="kubernetes", path=[options.peers]))
    print(f"{pairs.machine()}; fairlead beside kubernetes {peer}; one pod is {len(recording)} bytes")
    comparisons = [*reads(recording, options), *binds(config, namespace, options)]
    print(to_table(HEAD, [item.row() for item in comparisons]))
    print(f"Repeat with: {pairs.repeat('client', sys.argv[1:])}")
    return 0 if all(item.met for item in comparisons) else 1


def main() -> int:
    """Run every comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pairs.add_forms(parser)
    parser.add_argument("--peers", help="the folder that the official client is installed in")
    parser.add_argument("--kubeconfig", help="an API server to bind on (default: a lab of its own)")
    for name, count in SIZES["long"].items():
        parser.add_argument(f"--{name}", type=int, help=f"default: {count}, short: {SIZES['short'][name]}")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of binds; the median counts")
    parser.add_argument("--nodes", type=int, default=100)
    options = parser.parse_args()
    if not (options.before or options.peers):
        parser.error("--peers or --before: there is nothing to compare with")
    for name, count in SIZES[pairs.form(options)].items():
        setattr(options, name, getattr(options, name) or count)
    namespace = f"bench-{uuid4().hex[:8]}"
    with api_server(options.kubeconfig) as config:
        recording = asyncio.run(prepare(config, namespace, options.nodes))
        against = compare if options.before else beside_official
        return against(config, namespace, recording, options)


if __name__ == "__main__":
    sys.exit(main())
