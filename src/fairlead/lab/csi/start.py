"""Start the CSI driver in a lab: one program on each real node."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from fairlead.errors import KubeletError, LabError
from fairlead.kubelet.messages import Empty
from fairlead.kubelet.sockets import call
from fairlead.lab.build.debian import DebianTools, ensure_tools
from fairlead.lab.csi import images
from fairlead.lab.csi.messages import ProbeResponse
from fairlead.lab.csi.node import IDENTITY, endpoint
from fairlead.lab.node import inside
from fairlead.lab.run import home, process, ready
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import Lab, LabProgram, NodeNamespaces
from fairlead.lab.run.steps import StepPrinter

NAME: Final = "volumes"
LIMIT: Final = 60.0
"""Seconds within which a kubelet must have registered it; many times what an idle machine takes."""


def start(where: LabHome, name: str, steps: StepPrinter) -> Lab:
    """Start the driver in a running lab; one that runs is left alone."""
    inside.nodes(where.get(name))
    check()
    with home.hold_lock(where.get(name).folder) as acquired:
        if not acquired:
            raise LabError(
                f"lab {name!r} is being started, changed or ended by another process", hint="try again"
            )
        lab = where.get(name)
        return launch(StartingLab(lab, lab.environ), steps)


def check() -> None:
    """Raise if this machine cannot have volumes."""
    if obstacle := images.obstacle():
        raise LabError(obstacle, hint="labs without volumes need neither loop devices nor XFS")


def launch(running: StartingLab, steps: StepPrinter) -> Lab:
    """Start the driver on every node and return when the kubelets have registered it."""
    with steps.step(NAME) as step:
        tools = ensure_tools(step.tick, packages=images.PACKAGES)
        (running.lab.folder / NAME).mkdir(exist_ok=True)
        started = [
            _launch(running, number, node_ns, tools)
            for number, node_ns in enumerate(running.lab.namespaces, 1)
        ]
        for program in started:
            ready.wait_healthy(
                lambda program=program: is_ready(running.lab, program),  # type: ignore[misc]  # bound now
                program,
                step.tick,
                LIMIT,
            )
    return running.lab


def _launch(running: StartingLab, number: int, node_ns: NodeNamespaces, tools: DebianTools) -> LabProgram:
    name = NAME if number == 1 else f"{NAME}-{number}"
    old = next((program for program in running.lab.programs if program.name == name), None)
    if old is not None and process.alive(old.process):
        return old
    lab = running.lab
    arguments = ["-m", "fairlead.lab.csi", "--root", str(lab.folder / NAME), "--tools", str(tools.root)]
    arguments += ["--kubelet", lab.layout.kubelet, "--node", node_ns.node]
    if number == 1:
        arguments += ["--kubeconfig", str(lab.folder / "keys" / "admin.kubeconfig")]
    return running.start(name, Path(sys.executable), arguments, node_ns)


def is_driver(program: LabProgram) -> bool:
    """Return whether a program of a lab is the driver."""
    return program.name == NAME or program.name.startswith(f"{NAME}-")


def is_ready(lab: Lab, program: LabProgram) -> bool:
    """Return whether the driver works on its node, and the kubelet there has registered it."""
    node_ns = next(each for each in lab.namespaces if each.node == program.node)
    socket = Path(f"/proc/{node_ns.init.pid}/root") / endpoint(Path(lab.layout.kubelet)).relative_to("/")
    try:
        answer = asyncio.run(call(socket, f"{IDENTITY}/Probe", Empty(), ProbeResponse, 2.0, 1 << 16))
    except KubeletError:
        return False
    return answer.ready.value
