"""The control plane of a lab, on the host's loopback or inside the first node."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead.cluster.config.types import ClusterConfig
from fairlead.lab.build.prerequisites import Prerequisites
from fairlead.lab.control import certs, commands, populate, tuning
from fairlead.lab.control.certs import LeafCertificate
from fairlead.lab.control.commands import ControlPlane
from fairlead.lab.control.tuning import LabTuning
from fairlead.lab.run import ready
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import LabProgram, NodeNamespaces
from fairlead.lab.run.steps import StepPrinter

LIMIT: Final = 60.0
"""Seconds within which a program must be ready; many times what an idle machine takes."""
_EACH_NODE: Final = 0.05
"""Seconds more for each node, until all of them must be ready."""
_LEAVES: Final = (certs.ADMIN, certs.KUBELET_CLIENT, certs.CONTROLLERS, certs.SCHEDULER, certs.PROXY)
_USERS: Final = ("admin", "kube-controller-manager", "kube-scheduler")


class ControlPlaneStarter:
    """Start a control plane, step by step."""

    def __init__(
        self,
        running: StartingLab,
        kit: Prerequisites,
        narrator: StepPrinter,
        tuned: LabTuning,
        space: NodeNamespaces | None = None,
    ) -> None:
        lab = running.lab
        self._running = running
        self._programs = kit.programs
        self._narrator = narrator
        self._tuning = tuned
        self._space = space
        self.plane = (
            ControlPlane(lab.folder, commands.DEFAULT_PORTS, space.address)
            if space
            else ControlPlane(lab.folder, lab.ports)
        )

    def write_keys(self, more: Iterable[LeafCertificate] = ()) -> None:
        """Write the lab's keys and kubeconfigs."""
        lab, site = self._running.lab, self.plane
        with self._narrator.step("keys"):
            addresses = [site.address] if site.address else []
            certs.write_keys(site.keys, [certs.api_server(addresses), *_LEAVES, *more])
            name = f"fairlead-{lab.name}"
            certs.write_private(lab.kubeconfig, certs.kubeconfig(site.keys, "admin", lab.server, name))
            for user in _USERS:
                text = certs.kubeconfig(site.keys, user, site.server, name)
                certs.write_private(site.kubeconfig(user), text)
            text = tuning.render_scheduler_config(self._tuning.scheduler, site.kubeconfig("kube-scheduler"))
            (lab.folder / "scheduler.yaml").write_text(text, encoding="utf-8")
            (lab.folder / "kwok.yaml").write_text(commands.kwok_config(), encoding="utf-8")

    def launch_api(self, *, controllers: bool) -> None:
        """Start etcd and the API server, which waits for etcd by itself."""
        self._start("etcd", commands.etcd(self.plane))
        arguments = commands.api_server(self.plane, controllers=controllers)
        self._start("kube-apiserver", [*arguments, *self._tuning.api_server()])

    def await_api(self) -> None:
        """Wait until the API server says that it is ready."""
        lab = self._running.lab
        context, port = ready.admin_tls_context(self.plane.keys), lab.ports["kube-apiserver"]
        with self._narrator.step("etcd, kube-apiserver") as step:
            slowest = self._running.program("kube-apiserver")
            ready.wait(
                lambda: ready.responds_ok(port, "/readyz", context), lab.programs, slowest, step, LIMIT
            )

    def start_controllers(self, played: int | None) -> None:
        """Start the controller manager and the scheduler, and kwok for so many nodes; None: no kwok."""
        with self._narrator.step("controllers, scheduler") as step:
            more = self._tuning.all_programs()
            arguments = commands.controller_manager(self.plane, played or 0)
            manager = self._start("kube-controller-manager", [*arguments, *more])
            scheduler = self._start("kube-scheduler", [*commands.scheduler(self.plane), *more])
            if played is not None:
                self._start("kwok", commands.kwok(self.plane, self._programs.files, played))
            where = self.administrator()
            programs = self._running.lab.programs
            ready.wait(lambda: populate.has_default_service_account(where), programs, manager, step, LIMIT)
            if self._space is None:  # inside a node, the first pod tells whether it is well
                port, context = self.plane.ports["kube-scheduler"], ready.unverified_tls_context()
                well = lambda: ready.responds_ok(port, "/readyz", context)  # noqa: E731  # as short as it gets
                ready.wait(well, programs, scheduler, step, LIMIT)

    def populate(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Create the nodes that kwok plays, and wait until all of them would take a pod."""
        total = len(manifests)
        if not total:
            return
        where = self.administrator()
        with self._narrator.step("nodes created") as step:
            populate.create_nodes(where, manifests, step.report)
        self.await_nodes(total, "nodes ready", "kwok")

    def await_nodes(self, total: int, name: str, program: str) -> None:
        """Wait until so many nodes would take a pod; `program` makes them so."""
        where = self.administrator()
        with self._narrator.step(name) as step:
            counted = _all_ready(where, total, step.report)
            slowest, programs = self._running.program(program), self._running.lab.programs
            # Asking for all of them costs the API server the more, the more there are.
            pace = 0.1 + total / 2500
            ready.wait(counted, programs, slowest, step, LIMIT + _EACH_NODE * total, pace)

    def administrator(self) -> ClusterConfig:
        """Return who may do everything, from the host."""
        return populate.admin_config(self.plane.keys, self._running.lab.server)

    def _start(self, name: str, arguments: Sequence[str]) -> LabProgram:
        return self._running.start(name, self._programs[name], arguments, self._space)


def _all_ready(where: ClusterConfig, total: int, tell: Callable[[int, int], None]) -> Callable[[], bool]:
    def counted() -> bool:
        count = populate.count_ready_nodes(where)
        tell(min(count, total), total)
        return count >= total

    return counted
