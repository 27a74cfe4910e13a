"""Start the control plane of a lab, on the host's loopback or inside the first node."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead.authority import LeafCertificate
from fairlead.cluster.config.types import ClusterConfig
from fairlead.lab.build.prerequisites import Prerequisites
from fairlead.lab.control import certs, commands, populate, tuning
from fairlead.lab.control.commands import ControlPlane
from fairlead.lab.control.tuning import LabTuning
from fairlead.lab.run import ready
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import LabProgram, NodeNamespaces
from fairlead.lab.run.steps import StepPrinter

LIMIT: Final = 60.0
"""Seconds within which a program must be ready; many times what an idle machine takes."""
_PER_NODE: Final = 0.05
"""Additional seconds for each node, until all of them must be ready."""
_LEAVES: Final = (certs.ADMIN, certs.KUBELET_CLIENT, certs.CONTROLLERS, certs.SCHEDULER, certs.PROXY)
_USERS: Final = ("admin", "kube-controller-manager", "kube-scheduler")


class ControlPlaneStarter:
    """Start a control plane, step by step."""

    def __init__(
        self,
        running: StartingLab,
        prerequisites: Prerequisites,
        steps: StepPrinter,
        tuned: LabTuning,
        node_ns: NodeNamespaces | None = None,
    ) -> None:
        lab = running.lab
        self._running = running
        self._programs = prerequisites.programs
        self._steps = steps
        self._tuning = tuned
        self._node_ns = node_ns
        self.plane = (
            ControlPlane(lab.folder, commands.DEFAULT_PORTS, node_ns.address)
            if node_ns
            else ControlPlane(lab.folder, lab.ports)
        )

    def write_keys(self, more: Iterable[LeafCertificate] = ()) -> None:
        """Write the lab's keys and kubeconfigs."""
        lab, plane = self._running.lab, self.plane
        with self._steps.step("keys"):
            addresses = [plane.address] if plane.address else []
            certs.write_keys(plane.keys, [certs.api_server(addresses), *_LEAVES, *more])
            name = f"fairlead-{lab.name}"
            certs.write_private(lab.kubeconfig, certs.kubeconfig(plane.keys, "admin", lab.server, name))
            for user in _USERS:
                text = certs.kubeconfig(plane.keys, user, plane.server, name)
                certs.write_private(plane.kubeconfig(user), text)
            text = tuning.render_scheduler_config(self._tuning.scheduler, plane.kubeconfig("kube-scheduler"))
            (lab.folder / "scheduler.yaml").write_text(text, encoding="utf-8")
            (lab.folder / "kwok.yaml").write_text(commands.kwok_config(), encoding="utf-8")

    def launch_api(self, *, controllers: bool) -> None:
        """Start etcd and the API server, which waits for etcd by itself."""
        self._start("etcd", commands.etcd(self.plane))
        arguments = commands.api_server(self.plane, controllers=controllers)
        self._start("kube-apiserver", [*arguments, *self._tuning.api_server_arguments()])

    def await_api(self) -> None:
        """Wait until the API server reports ready."""
        lab = self._running.lab
        context, port = ready.admin_tls_context(self.plane.keys), lab.ports["kube-apiserver"]
        with self._steps.step("etcd, kube-apiserver") as step:
            slowest = self._running.program("kube-apiserver")
            ready.wait(
                lambda: ready.responds_ok(port, "/readyz", context), lab.programs, slowest, step, LIMIT
            )

    def start_controllers(self, kwok_nodes: int | None) -> None:
        """Start the controller manager, the scheduler, and kwok for this number of nodes; None: no kwok."""
        with self._steps.step("controllers, scheduler") as step:
            more = self._tuning.common_arguments()
            arguments = commands.controller_manager(self.plane, kwok_nodes or 0)
            manager = self._start("kube-controller-manager", [*arguments, *more])
            scheduler = self._start("kube-scheduler", [*commands.scheduler(self.plane), *more])
            if kwok_nodes is not None:
                self._start("kwok", commands.kwok(self.plane, self._programs.files, kwok_nodes))
            admin = self.admin_config()
            programs = self._running.lab.programs
            ready.wait(lambda: populate.has_default_service_account(admin), programs, manager, step, LIMIT)
            if self._node_ns is None:  # inside a node, the first pod shows that the scheduler works
                port, context = self.plane.ports["kube-scheduler"], ready.unverified_tls_context()
                is_ready = lambda: ready.responds_ok(port, "/readyz", context)  # noqa: E731  # a line, not five
                ready.wait(is_ready, programs, scheduler, step, LIMIT)

    def populate(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Create the nodes that kwok simulates, and wait until all of them are schedulable."""
        total = len(manifests)
        if not total:
            return
        with self._steps.step("nodes created") as step:
            populate.create_nodes(self.admin_config(), manifests, step.report)
        self.await_nodes(total, "nodes ready", "kwok")

    def await_nodes(self, total: int, name: str, program: str) -> None:
        """Wait until `total` nodes are schedulable; `program` is the one that makes them ready."""
        with self._steps.step(name) as step:
            condition = _all_ready(self.admin_config(), total, step.report)
            slowest, programs = self._running.program(program), self._running.lab.programs
            # The cost of a list for the API server grows with the number of nodes.
            poll = 0.1 + total / 2500
            ready.wait(condition, programs, slowest, step, LIMIT + _PER_NODE * total, poll)

    def admin_config(self) -> ClusterConfig:
        """Return the administrator's configuration, for clients on the host."""
        return populate.admin_config(self.plane.keys, self._running.lab.server)

    def _start(self, name: str, arguments: Sequence[str]) -> LabProgram:
        return self._running.start(name, self._programs[name], arguments, self._node_ns)


def _all_ready(config: ClusterConfig, total: int, report: Callable[[int, int], None]) -> Callable[[], bool]:
    def all_ready() -> bool:
        count = populate.count_ready_nodes(config)
        report(min(count, total), total)
        return count >= total

    return all_ready
