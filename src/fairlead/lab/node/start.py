"""Real nodes: each in namespaces of its own, with containerd, a kubelet and a kube-proxy."""

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
        self, running: StartingLab, kit: Prerequisites, narrator: StepPrinter, count: int, tuned: LabTuning
    ) -> None:
        if kit.tools is None or kit.images is None:
            raise LabError("the node profile was not given its tools and images")
        self._running = running
        self._kit = kit
        self._tools, self._images = kit.tools, kit.images
        self._narrator = narrator
        self._count = count
        self._tuning = tuned
        running.env = self._tools.environment(running.env) | {
            # containerd looks for its shim where it looks for everything.
            "PATH": f"{kit.programs['containerd'].parent}:{self._tools.environment(running.env)['PATH']}"
        }

    def start(self, fleet: Sequence[Mapping[str, Any]]) -> None:
        """Start everything, and wait until a pod runs: the name server's."""
        with self._narrator.step("namespaces"):
            made = [self._running.create_namespaces(number, self._folder(number)) for number in self._numbers]
            namespaces.join(made)
            self._open_way_in(made[0])
        control = ControlPlaneStarter(self._running, self._kit, self._narrator, self._tuning, made[0])
        leaves = [leaf for space in made for leaf in certs.kubelet(space.node, space.address)]
        control.write_keys(leaves)
        imports = [
            self._launch_runtime(number, space) for number, space in zip(self._numbers, made, strict=True)
        ]
        control.launch_api(controllers=True)
        control.await_api()
        control.start_controllers(len(fleet) or None)
        for number, space in zip(self._numbers, made, strict=True):
            self._launch_kubelet(number, space, control)
        populate.create_objects(control.administrator(), files.name_server())
        control.populate(fleet)
        self._await_images(imports)
        control.await_nodes(self._count + len(fleet), "real nodes ready", self._called("kubelet", 1))
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
    def _called(program: str, number: int) -> str:
        """Return a program's name: the first node's has no number, since mostly there is no other."""
        return program if number == 1 else f"{program}-{number}"

    def _open_way_in(self, first: NodeNamespaces) -> None:
        """Make the API server reachable from the host's loopback."""
        port = self._running.lab.ports["kube-apiserver"]
        with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
            self._running.start_relay(listener, first, commands.DEFAULT_PORTS["kube-apiserver"])

    def _launch_runtime(self, number: int, space: NodeNamespaces) -> LabProgram:
        """Start containerd, and what imports the images as soon as it can."""
        folder, tools = self._folder(number), self._tools
        wiring = folder / "cni"
        wiring.mkdir()
        (wiring / "lab.conflist").write_text(files.cni(namespaces.pod_range(number)), encoding="utf-8")
        snapshotter = files.snapshotter(folder)
        config = folder / "containerd.toml"
        runc = self._kit.programs.paths.get(RUNC, tools.runc)
        text = files.containerd(runc, tools.cni, wiring, snapshotter, self._layout)
        config.write_text(text, encoding="utf-8")
        self._start("containerd", number, ["--config", str(config)], space)
        ctr = f'"$1" -a {self._layout.socket}'
        script = (
            f"until {ctr} version >/dev/null 2>&1; do sleep 0.05; done; "
            f'exec {ctr} -n k8s.io images import --local --snapshotter {snapshotter} "$2"'
        )
        shell = ["/bin/sh", "-c", script, "sh", str(self._kit.programs["ctr"]), str(self._images)]
        return self._running.start_one_shot(self._called("images", number), shell, space)

    def _launch_kubelet(self, number: int, space: NodeNamespaces, control: ControlPlaneStarter) -> None:
        """Start a node's kubelet and kube-proxy."""
        folder, keys, name = self._folder(number), control.plane.keys, space.node
        server = f"https://{control.plane.address}:{control.plane.ports['kube-apiserver']}"
        for user in (f"kubelet-{name}", "kube-proxy"):
            text = certs.kubeconfig(keys, user, server, f"fairlead-{self._running.lab.name}")
            certs.write_private(control.plane.kubeconfig(user), text)
        group = f"{cgroups.name_prefix(self._running.lab.folder)}{number}"
        cgroups.create(group)
        (folder / "resolv.conf").write_text(files.RESOLV_CONF, encoding="utf-8")
        text = files.kubelet(keys, folder, name, group, self._layout)
        (folder / "kubelet.yaml").write_text(text, encoding="utf-8")
        arguments = commands.kubelet(folder, keys, name, space.address, self._layout.kubelet)
        self._start("kubelet", number, [*arguments, *self._tuning.all_programs()], space)
        self._start("kube-proxy", number, commands.proxy(keys, name, namespaces.PODS), space)

    def _start(self, program: str, number: int, arguments: Sequence[str], space: NodeNamespaces) -> None:
        name = self._called(program, number)
        self._running.start(name, self._kit.programs[program], arguments, space)

    def _await_images(self, imports: Sequence[LabProgram]) -> None:
        """Wait until every node has its images."""
        with self._narrator.step("images imported") as step:
            for errand in imports:
                ready.wait(_finished(errand), self._running.lab.programs, errand, step, LIMIT)

    def _await_pod(self, control: ControlPlaneStarter) -> None:
        where = control.administrator()
        with self._narrator.step("name server's pod ready") as step:
            slowest = self._running.program(self._called("kubelet", 1))
            runs = lambda: populate.is_pod_ready(where, "kube-system", "k8s-app=kube-dns")  # noqa: E731
            ready.wait(runs, self._running.lab.programs, slowest, step, LIMIT, 0.1)


def _finished(errand: LabProgram) -> Callable[[], bool]:
    def finished() -> bool:
        code = exit_code(errand.process)
        if code:
            raise LabError(f"{errand.name} failed; it said last:\n{ready.tail(Path(errand.log))}")
        return code == 0

    return finished
