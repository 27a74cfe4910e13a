"""Fixtures on a real Kubernetes: one API server for a whole test run, a fresh namespace for each test.

`real_node` is a second lab of the run, with a real node; `node_namespace` is a fresh namespace there. Tests
that use it run one after the other, on one worker: they share the node's kubelet and may restart it.

`FAIRLEAD_TEST_KUBECONFIG` names a cluster of the user's own (kind, k3s) to use instead. Without one, if the
lab cannot be built, tests skip, in one counted line; with CI=true that is a failure.
"""

import asyncio
import fcntl
import io
import json
import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.kinds import NAMESPACES, PODS, SERVICE_ACCOUNTS, Kind
from fairlead.errors import ClusterError, LabError, MissingApiError, NotFoundError
from fairlead.lab.build.debian import ensure_tools
from fairlead.lab.build.prerequisites import gather
from fairlead.lab.build.programs import ensure
from fairlead.lab.control import helm, prometheus
from fairlead.lab.csi import images
from fairlead.lab.csi import start as volumes
from fairlead.lab.node import inside, namespaces
from fairlead.lab.node.layout import PLAIN, NodeLayout
from fairlead.lab.node.load import load
from fairlead.lab.run import home, process
from fairlead.lab.run.down import down
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.restart import RestartedProgram, restart
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up

OWN_CLUSTER = "FAIRLEAD_TEST_KUBECONFIG"
LABEL = "fairlead.dev/test"
"""A cluster-wide object with this label and the namespace as its value is deleted with the namespace."""
_NO_LAB = "no lab: "
_CLUSTER_WIDE = (("", "v1", "nodes"), ("apiextensions.k8s.io", "v1", "customresourcedefinitions"))


def skip_without_lab(reason: str) -> NoReturn:
    """Skip a test that needs a lab; with CI=true, which promises one, fail."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"with CI=true a skip is a failure: {_NO_LAB}{reason}")
    pytest.skip(f"{_NO_LAB}{reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report all skips for lack of a lab at the same place, so that pytest counts them in one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and f": {_NO_LAB}" in report.longrepr[2]:
        report.longrepr = (__file__, None, report.longrepr[2])  # type: ignore[assignment]  # None: no line
    return report


@dataclass(frozen=True, slots=True)
class RealApi:
    """A real API server."""

    config: ClusterConfig
    kubeconfig: Path
    lab: Lab | None
    """None: a cluster of the user's own, which tests must not harm."""


@dataclass(frozen=True, slots=True)
class RealCluster:
    """A real API server, and a namespace there that no other test uses."""

    api: RealApi
    namespace: str

    @property
    def config(self) -> ClusterConfig:
        """The administrator's configuration."""
        return self.api.config

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """Open a client."""
        async with Client.connect(self.api.config) as client:
            yield client


@dataclass(frozen=True, slots=True)
class RealNode:
    """A lab with one real node, shared by all tests of a run that use it."""

    config: ClusterConfig
    """The administrator's configuration."""
    home: LabHome
    name: str
    folder: Path
    """A folder of the host that the node sees at the same path."""

    @property
    def lab(self) -> Lab:
        """The current state of the lab: a restart changes it."""
        return self.home.get(self.name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.lab.kubeconfig

    @property
    def kubelet(self) -> Path:
        """The kubelet's folder of the node, at its path on the host."""
        return self.lab.folder / "nodes" / "1" / "kubelet"

    @property
    def helm(self) -> Path:
        """Helm; to be called with `environ`."""
        return helm.program(StepPrinter(io.StringIO()))

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which helm and kubectl talk to this lab."""
        return helm.environment(self.lab, os.environ)

    def load(self, *archives: Path) -> list[str]:
        """Import images into the node and return their names."""
        return [loaded.image for loaded in load(self.lab, archives, ensure(["ctr"])["ctr"])]

    def restart(self, program: str, *, kill: bool = False) -> RestartedProgram:
        """Restart a program of the lab, and return when it is healthy again."""
        return restart(self.home, self.name, program, StepPrinter(io.StringIO()), kill=kill)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl, which must succeed, and return its output."""
        argv = [str(ensure(["kubectl"])["kubectl"]), *arguments]
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        """Run a program inside the node: with its files, processes and network."""
        return inside.run(self.lab.namespaces[0], argv)

    def provide_volumes(self) -> None:
        """Start the lab's CSI driver, unless it runs."""
        if obstacle := images.obstacle():
            skip_without_lab(obstacle)
        try:
            ensure_tools(packages=images.PACKAGES)
        except LabError as error:
            skip_without_lab(str(error).splitlines()[0])
        volumes.start(self.home, self.name, StepPrinter(io.StringIO()))

    def prometheus(self, rules: Path | None = None) -> str:
        """Start a Prometheus in the node, or restart it with other rules; return its address on the host."""
        return prometheus.start(self.home, self.name, StepPrinter(io.StringIO()), rules).prometheus


def pytest_unconfigure() -> None:
    """End the run's labs if a worker died before it could."""
    where = home.default(os.environ)
    for name in (f"test-{os.getpid()}", f"test-{os.getpid()}-node"):
        if (where.root / name).exists():
            down(where, name)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run all tests of the real node, and of every other group, on one worker."""
    for item in items:
        if "real_node" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("node"))
        group = item.get_closest_marker("xdist_group")
        # xdist 3.8 writes the group to an attribute that pytest 9.2 ignores (pytest-dev/pytest-xdist#1386).
        if group is not None and config.getoption("loadgroup", default=False) and hasattr(item, "_id"):
            item._id = item._id.parse(f"{item.nodeid}@{group.args[0]}")


@pytest.fixture(scope="session")
def real_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApi]:
    """Return the API server of this test run; the first test that uses it starts it."""
    own = os.environ.get(OWN_CLUSTER)
    if own:
        yield RealApi(kubeconfig.load(own), Path(own), None)
        return
    with _shared_lab(tmp_path_factory, LabProfile.API) as lab:
        yield RealApi(kubeconfig.load(str(lab.kubeconfig)), lab.kubeconfig, lab)


@pytest.fixture
def real_cluster(real_api: RealApi) -> Iterator[RealCluster]:
    """Return a fresh namespace on the API server; it is removed with its objects afterwards."""
    namespace = f"test-{uuid.uuid4().hex[:10]}"
    asyncio.run(open_namespace(real_api, namespace))
    try:
        yield RealCluster(real_api, namespace)
    finally:
        asyncio.run(wipe_namespace(real_api, namespace))


@pytest.fixture(scope="session")
def real_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """Return the lab with a real node of this test run; the first test that uses it starts it."""
    where = home.default(os.environ)
    obstacle = namespaces.obstacle(where.root)
    if obstacle:
        skip_without_lab(obstacle)
    with _shared_lab(tmp_path_factory, LabProfile.NODE) as lab:
        folder = lab.folder / "shared"
        folder.mkdir(exist_ok=True)
        yield RealNode(kubeconfig.load(str(lab.kubeconfig)), where, lab.name, folder)


@pytest.fixture
def node_namespace(real_node: RealNode) -> Iterator[str]:
    """Return the name of a fresh namespace of the real node's lab; its pods are gone afterwards."""
    namespace = f"test-{uuid.uuid4().hex[:10]}"
    asyncio.run(open_namespace(RealApi(real_node.config, real_node.kubeconfig, None), namespace))
    try:
        yield namespace
    finally:
        asyncio.run(_drop_namespace(real_node.config, namespace))


@pytest.fixture
def namespace(real_cluster: RealCluster) -> str:
    """Return the name of a fresh namespace."""
    return real_cluster.namespace


async def _drop_namespace(config: ClusterConfig, namespace: str) -> None:
    """Delete a namespace of a cluster with controllers and kubelets, and wait until it has no pods.

    The controllers delete the rest seconds later; no new objects can be created there.
    """
    async with Client.connect(config) as client:
        await client.delete(NAMESPACES, namespace)
        await client.delete_collection(PODS, namespace, grace=1)
        for _ in range(600):
            if not (await client.list(PODS, namespace)).items:
                return
            await asyncio.sleep(0.1)
    raise AssertionError(f"pods of namespace {namespace} are not deleted")


@contextmanager
def own_node(layout: NodeLayout, nodes: int = 1) -> Iterator[RealNode]:
    """Run a separate lab, whose real nodes have the file layout of a distribution."""
    where = home.default(os.environ)
    obstacle = namespaces.obstacle(where.root)
    if obstacle:
        skip_without_lab(obstacle)
    name = f"test-{os.getpid()}-{layout.name}"
    lab = _start(where, name, os.getpid(), LabProfile.NODE, layout, nodes)
    try:
        (lab.folder / "shared").mkdir()
        yield RealNode(kubeconfig.load(str(lab.kubeconfig)), where, name, lab.folder / "shared")
    finally:
        down(where, name)


@contextmanager
def _shared_lab(factory: pytest.TempPathFactory, profile: LabProfile) -> Iterator[Lab]:
    """Hold the lab of this test run; the first holder starts it, the last one ends it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    base = factory.getbasetemp().parent if worker else factory.getbasetemp()
    # Workers are children of the run, which owns the lab: it is unused once the run ends, however it ends.
    owner = os.getppid() if worker else os.getpid()
    me = process.find(os.getpid())
    assert me is not None
    name, where = f"test-{owner}" + ("-node" if profile is LabProfile.NODE else ""), home.default(os.environ)
    with _holders(base / f"{profile}-holders.json") as holders:
        lab = _running(where, name) or _start(where, name, owner, profile)
        holders.append(me.to_json())
    try:
        yield lab
    finally:
        with _holders(base / f"{profile}-holders.json") as holders:
            holders.remove(me.to_json())
            if not holders:
                down(where, name)


def _running(where: LabHome, name: str) -> Lab | None:
    lab = next((lab for lab in where.labs() if lab.name == name), None)
    return lab if lab is not None and not lab.is_orphaned() else None


def _start(
    where: LabHome, name: str, owner: int, profile: LabProfile, layout: NodeLayout = PLAIN, nodes: int = 1
) -> Lab:
    quiet = StepPrinter(io.StringIO())
    try:
        gather(profile, quiet, kwok=False)
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])
    return up(where, LabSpec(profile, name, nodes=nodes, owner=owner, layout=layout), quiet)


@contextmanager
def _holders(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Read and change the list of processes that hold the lab, under a lock; dead ones are dropped."""
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        listed = json.loads(file.read() or "[]")
        holders = [holder for holder in listed if process.alive(process.Process.from_json(holder))]
        yield holders
        file.truncate(0)
        file.write(json.dumps(holders))


async def open_namespace(api: RealApi, namespace: str) -> None:
    """Create a namespace in which pods can be created."""
    async with Client.connect(api.config) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        if api.lab is None:  # its controllers create the service account that pods need
            for _ in range(100):
                with suppress(NotFoundError):
                    await client.get(SERVICE_ACCOUNTS, "default", namespace)
                    return
                await asyncio.sleep(0.1)


async def wipe_namespace(api: RealApi, namespace: str) -> None:
    """Remove a namespace with all its objects.

    A bare API server has no namespace controller, and nothing removes finalizers.
    """
    async with Client.connect(api.config) as client:
        for group, version, plural in _CLUSTER_WIDE:
            kind = Kind.of(group, version, plural, namespaced=False)
            await client.delete_collection(kind, labels=f"{LABEL}={namespace}", grace=0)
        await client.delete(NAMESPACES, namespace)
        kinds = await _namespaced_kinds(client)
        await asyncio.gather(*(_empty(client, kind, namespace) for kind in kinds))
        if api.lab is not None:
            body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            await client.request("PUT", f"/api/v1/namespaces/{namespace}/finalize", body=body.encode())


async def _empty(client: Client, kind: Kind[Any], namespace: str) -> None:
    try:
        listing = await client.list(kind, namespace)
    except MissingApiError:  # another test has just deleted its definition
        return
    for item in listing.items:
        with suppress(ClusterError):
            if item.metadata.finalizers:
                without = {"metadata": {"finalizers": None}}
                await client.patch(kind, item.metadata.name, without, namespace)
            await client.delete(kind, item.metadata.name, namespace, grace=0)


async def _namespaced_kinds(client: Client) -> list[Kind[Any]]:
    """Return every namespaced kind that can be listed and deleted."""
    groups = json.loads(await client.request("GET", "/apis"))["groups"]
    versions = [("", "v1"), *((group["name"], group["preferredVersion"]["version"]) for group in groups)]
    kinds: list[Kind[Any]] = []
    for group, version in versions:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        rows: list[dict[str, Any]] = []
        with suppress(MissingApiError):  # its definition is gone, but the list of groups still has it
            rows = json.loads(await client.request("GET", path))["resources"]
        for row in rows:
            if row["namespaced"] and {"list", "delete"} <= set(row["verbs"]) and "/" not in row["name"]:
                kinds.append(Kind.of(group, version, row["name"], namespaced=True, name=row["kind"]))
    return kinds
