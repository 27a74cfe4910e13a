"""Do one job with one client in a process of its own, and print its CPU, time and memory.

Run by client.py: `client_worker.py CLIENT JOB`, with the job's facts as JSON on standard input.
"""

import asyncio
import gc
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

Facts = dict[str, Any]
Result = dict[str, float]
Pod = tuple[str, str, str]
"""A name, a uid, and the node to bind to."""


def memory(what: str) -> int:
    """Return the bytes of memory of this process: now (VmRSS), or at the peak (VmHWM)."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what))


@contextmanager
def measure(result: Result) -> Iterator[None]:
    """Record CPU, wall time and the growth to the peak of memory."""
    gc.collect()
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # resets the peak; getrusage would count the parent's too
    before, used, began = memory("VmRSS"), time.process_time(), time.perf_counter()
    yield
    result["wall"] = time.perf_counter() - began
    result["cpu"] = time.process_time() - used
    result["peak"] = memory("VmHWM") - before


def split(facts: Facts) -> tuple[list[Pod], list[Pod]]:
    """Return the pods that warm the connections up, and those that count."""
    return facts["pods"][: facts["warm"]], facts["pods"][facts["warm"] :]


def fairlead_list(facts: Facts, result: Result) -> None:
    """List with the client of this project."""
    from fairlead.cluster.client import Client  # noqa: PLC0415 - each process loads its own client only
    from fairlead.cluster.config.types import ClusterConfig  # noqa: PLC0415
    from fairlead.cluster.kinds import PODS  # noqa: PLC0415

    async def run() -> None:
        async with Client.connect(ClusterConfig(server=facts["server"])) as client:
            with measure(result):
                listed = await client.list(PODS, limit=facts["page"])
            result["count"] = len(listed.items)

    asyncio.run(run())


def fairlead_watch(facts: Facts, result: Result) -> None:
    """Watch with the client of this project."""
    from fairlead.cluster.client import Client  # noqa: PLC0415
    from fairlead.cluster.config.types import ClusterConfig  # noqa: PLC0415
    from fairlead.cluster.kinds import PODS  # noqa: PLC0415

    async def run() -> None:
        count = 0
        async with Client.connect(ClusterConfig(server=facts["server"])) as client:
            with measure(result):
                async for event in client.watch(PODS, resource_version="1"):
                    count += event.type == "MODIFIED"
        result["count"] = count

    asyncio.run(run())


def fairlead_bind(facts: Facts, result: Result) -> None:
    """Bind with the client of this project."""
    from fairlead.cluster.client import Client  # noqa: PLC0415
    from fairlead.cluster.config import kubeconfig  # noqa: PLC0415

    async def run() -> None:
        async with Client.connect(kubeconfig.load(facts["kubeconfig"])) as client:

            async def one(pod: str, uid: str, node: str) -> None:
                async with slots:
                    await client.bind(facts["namespace"], pod, uid, node)

            slots = asyncio.Semaphore(facts["at_once"])
            warm, pods = split(facts)
            await asyncio.gather(*(one(*pod) for pod in warm))
            with measure(result):
                await asyncio.gather(*(one(*pod) for pod in pods))
        result["count"] = len(pods)

    asyncio.run(run())


def official(facts: Facts) -> Any:
    """Return the official client's package and an API object for the facts' server."""
    package = importlib.import_module("kubernetes.client")
    if "kubeconfig" in facts:
        importlib.import_module("kubernetes.config").load_kube_config(facts["kubeconfig"])
        return package, package.CoreV1Api()
    settings = package.Configuration()
    settings.host = facts["server"]
    return package, package.CoreV1Api(package.ApiClient(settings))


def official_list(facts: Facts, result: Result) -> None:
    """List with the official client, page by page, keeping every pod as fairlead does."""
    _, api = official(facts)
    items: list[Any] = []
    with measure(result):
        page = api.list_pod_for_all_namespaces(limit=facts["page"])
        items += page.items
        while page.metadata.var_continue:
            page = api.list_pod_for_all_namespaces(limit=facts["page"], _continue=page.metadata.var_continue)
            items += page.items
    result["count"] = len(items)


def official_watch(facts: Facts, result: Result) -> None:
    """Watch with the official client."""
    _, api = official(facts)
    watch = importlib.import_module("kubernetes.watch").Watch()
    count = 0
    with measure(result):
        stream = watch.stream(api.list_pod_for_all_namespaces, resource_version="1", timeout_seconds=600)
        for event in stream:
            count += event["type"] == "MODIFIED"
    result["count"] = count


def binding(package: Any, namespace: str, pod: Pod) -> Any:
    """Return a binding in the official client's types."""
    name, uid, node = pod
    return package.V1Binding(
        metadata=package.V1ObjectMeta(name=name, namespace=namespace, uid=uid),
        target=package.V1ObjectReference(api_version="v1", kind="Node", name=node),
    )


def official_bind(facts: Facts, result: Result) -> None:
    """Bind with the official client in threads, without parsing the answer, on which it would raise."""
    package, api = official(facts)
    warm, pods = split(facts)

    def one(pod: Pod) -> None:
        body = binding(package, facts["namespace"], pod)
        answer = api.create_namespaced_pod_binding(pod[0], facts["namespace"], body, _preload_content=False)
        answer.read()
        if answer.status != 201:
            raise RuntimeError(f"{answer.status}: {answer.data!r}")

    with ThreadPoolExecutor(facts["at_once"] // 2) as pool:
        list(pool.map(one, warm))
        with measure(result):
            list(pool.map(one, pods))
    result["count"] = len(pods)


def official_aio_bind(facts: Facts, result: Result) -> None:
    """Bind with the official client's asyncio part, without parsing the answer."""
    package = importlib.import_module("kubernetes.aio.client")
    load = importlib.import_module("kubernetes.aio.config").load_kube_config
    warm, pods = split(facts)

    async def run() -> None:
        await load(facts["kubeconfig"])
        slots = asyncio.Semaphore(facts["at_once"])
        async with package.ApiClient() as connection:
            api = package.CoreV1Api(connection)

            async def one(pod: Pod) -> None:
                async with slots:
                    body = binding(package, facts["namespace"], pod)
                    answer = await api.create_namespaced_pod_binding_without_preload_content(
                        pod[0], facts["namespace"], body
                    )
                    if answer.status != 201:
                        raise RuntimeError(f"{answer.status}")
                    await answer.read()

            await asyncio.gather(*(one(pod) for pod in warm))
            with measure(result):
                await asyncio.gather(*(one(pod) for pod in pods))
        result["count"] = len(pods)

    asyncio.run(run())


JOBS: dict[str, Callable[[Facts, Result], None]] = {
    "fairlead list": fairlead_list,
    "fairlead watch": fairlead_watch,
    "fairlead bind": fairlead_bind,
    "official list": official_list,
    "official watch": official_watch,
    "official bind": official_bind,
    "official-aio bind": official_aio_bind,
}


def main() -> None:
    """Do the job."""
    result: Result = {}
    JOBS[f"{sys.argv[1]} {sys.argv[2]}"](json.load(sys.stdin), result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
