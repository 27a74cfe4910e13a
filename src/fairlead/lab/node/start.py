"""Start real nodes: each in its own namespaces, with containerd, a kubelet and a kube-proxy."""

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.errors import LabError
from fairlead.lab.build.prerequisites import RUNC, Prerequisites
from fairlead.lab.control import certs, commands, populate
from fairlead.lab.control.plane import LIMIT, ControlPlaneStarter
from fairlead.lab.control.tuning import LabTuning
from fairlead.lab.node import cgroups, files, namespaces
from fairlead.lab.node.layout import NodeLayout
from fairlead.lab.run import ready
from fairlead.lab.run.process import exit_code
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import LabProgram, NodeNamespaces
from fairlead.lab.run.steps import StepPrinter


class NodeStarter:
    """Start real nodes, the first of them with the control plane."""

    def __init__(
        self,
        running: StartingLab,
        prerequisites: Prerequisites,
        steps: StepPrinter,
        count: int,
        tuned: LabTuning,
    ) -> None:
        if prerequisites.tools is None or prerequisites.images is None:
            raise LabError("the node profile lacks its tools and images")
        self._running = running
        self._prerequisites = prerequisites
        self._tools, self._images = prerequisites.tools, prerequisites.images
        self._steps = steps
        self._count = count
        self._tuning = tuned
        env = self._tools.environment(running.env)
        # containerd searches PATH for its shim.
        running.env = env | {"PATH": f"{prerequisites.programs['containerd'].parent}:{env['PATH']}"}

    def start(self, fleet: Sequence[Mapping[str, Any]]) -> None:
        """Start everything, and wait until the pod of the DNS server runs."""
        with self._steps.step("namespaces"):
            created = [
                self._running.create_namespaces(number, self._folder(number)) for number in self._numbers
            ]
            namespaces.join(created)
            self._expose_api_server(created[0])
        control = ControlPlaneStarter(
            self._running, self._prerequisites, self._steps, self._tuning, created[0]
        )
        leaves = [leaf for node_ns in created for leaf in certs.kubelet(node_ns.node, node_ns.address)]
        control.write_keys(leaves)
        imports = [
            self._launch_runtime(number, node_ns)
            for number, node_ns in zip(self._numbers, created, strict=True)
        ]
        control.launch_api(controllers=True)
        control.await_api()
        control.start_controllers(len(fleet) or None)
        for number, node_ns in zip(self._numbers, created, strict=True):
            self._launch_kubelet(number, node_ns, control)
        populate.create_objects(control.admin_config(), files.dns_server())
        control.populate(fleet)
        self._await_images(imports)
        control.await_nodes(self._count + len(fleet), "real nodes ready", self._program_name("kubelet", 1))
        self._await_pod(control)

    @property
    def _numbers(self) -> range:
        return range(1, self._count + 1)

    @property
    def _layout(self) -> NodeLayout:
        return self._running.lab.layout

    def _folder(self, number: int) -> Path:
        return self._running.lab.folder / "nodes" / str(number)

    @staticmethod
    def _program_name(program: str, number: int) -> str:
        """Return a program's name: the first node's has no number, since most labs have one node."""
        return program if number == 1 else f"{program}-{number}"

    def _expose_api_server(self, first: NodeNamespaces) -> None:
        """Make the API server reachable from the host's loopback."""
        port = self._running.lab.ports["kube-apiserver"]
        with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
            self._running.start_relay(listener, first, commands.DEFAULT_PORTS["kube-apiserver"])

    def _launch_runtime(self, number: int, node_ns: NodeNamespaces) -> LabProgram:
        """Start containerd, and the import of the images, which waits for containerd."""
        folder, tools = self._folder(number), self._tools
        wiring = folder / "cni"
        wiring.mkdir()
        (wiring / "lab.conflist").write_text(files.cni(namespaces.pod_range(number)), encoding="utf-8")
        snapshotter = files.snapshotter(folder)
        config = folder / "containerd.toml"
        runc = self._prerequisites.programs.paths.get(RUNC, tools.runc)
        text = files.containerd(runc, tools.cni, wiring, snapshotter, self._layout)
        config.write_text(text, encoding="utf-8")
        self._start("containerd", number, ["--config", str(config)], node_ns)
        ctr = f'"$1" -a {self._layout.socket}'
        script = (
            f"until {ctr} version >/dev/null 2>&1; do sleep 0.05; done; "
            f'exec {ctr} -n k8s.io images import --local --snapshotter {snapshotter} "$2"'
        )
        shell = ["/bin/sh", "-c", script, "sh", str(self._prerequisites.programs["ctr"]), str(self._images)]
        return self._running.start_one_shot(self._program_name("images", number), shell, node_ns)

    def _launch_kubelet(self, number: int, node_ns: NodeNamespaces, control: ControlPlaneStarter) -> None:
        """Start a node's kubelet and kube-proxy."""
        folder, keys, name = self._folder(number), control.plane.keys, node_ns.node
        server = f"https://{control.plane.address}:{control.plane.ports['kube-apiserver']}"
        for user in (f"kubelet-{name}", "kube-proxy"):
            text = certs.kubeconfig(keys, user, server, f"fairlead-{self._running.lab.name}")
            certs.write_private(control.plane.kubeconfig(user), text)
        group = f"{cgroups.name_prefix(self._running.lab.folder)}{number}"
        cgroups.create(group)
        (folder / "resolv.conf").write_text(files.RESOLV_CONF, encoding="utf-8")
        text = files.kubelet(keys, folder, name, group, self._layout)
        (folder / "kubelet.yaml").write_text(text, encoding="utf-8")
        arguments = commands.kubelet(folder, keys, name, node_ns.address, self._layout.kubelet)
        self._start("kubelet", number, [*arguments, *self._tuning.common_arguments()], node_ns)
        self._start("kube-proxy", number, commands.proxy(keys, name, namespaces.PODS), node_ns)

    def _start(self, program: str, number: int, arguments: Sequence[str], node_ns: NodeNamespaces) -> None:
        name = self._program_name(program, number)
        self._running.start(name, self._prerequisites.programs[program], arguments, node_ns)

    def _await_images(self, imports: Sequence[LabProgram]) -> None:
        """Wait until every node has its images."""
        with self._steps.step("images imported") as step:
            for job in imports:
                ready.wait(_succeeded(job), self._running.lab.programs, job, step, LIMIT)

    def _await_pod(self, control: ControlPlaneStarter) -> None:
        admin = control.admin_config()
        with self._steps.step("DNS pod ready") as step:
            slowest = self._running.program(self._program_name("kubelet", 1))
            is_ready = lambda: populate.is_pod_ready(admin, "kube-system", "k8s-app=kube-dns")  # noqa: E731
            ready.wait(is_ready, self._running.lab.programs, slowest, step, LIMIT, 0.1)


def _succeeded(job: LabProgram) -> Callable[[], bool]:
    def succeeded() -> bool:
        code = exit_code(job.process)
        if code:
            raise LabError(f"{job.name} failed; last lines of its log:\n{ready.tail(Path(job.log))}")
        return code == 0

    return succeeded
