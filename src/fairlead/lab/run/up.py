"""Start a lab: claim a name, start one program after the other, wait for each; on failure end them all."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fairlead.errors import LabError
from fairlead.lab.build.prerequisites import Prerequisites, gather
from fairlead.lab.control import prometheus
from fairlead.lab.control.commands import PORTS
from fairlead.lab.control.plane import ControlPlaneStarter
from fairlead.lab.control.tuning import LabTuning
from fairlead.lab.csi import start as volumes
from fairlead.lab.node import namespaces
from fairlead.lab.node.layout import PLAIN, NodeLayout
from fairlead.lab.node.start import NodeStarter
from fairlead.lab.run import home, process
from fairlead.lab.run.down import end, reap
from fairlead.lab.run.home import DEFAULT_NAME, LabHome
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import Lab, LabPhase, LabProfile, save
from fairlead.lab.run.steps import StepPrinter

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class LabSpec:
    """The specification of a lab."""

    profile: LabProfile = LabProfile.API
    name: str = DEFAULT_NAME
    nodes: int = 1
    """The number of real nodes, in the node profile."""
    fleet: tuple[Mapping[str, Any], ...] = ()
    """The manifests of the nodes that kwok simulates."""
    owner: int | None = None
    """The PID of the process whose end makes the lab unused."""
    prometheus: bool = False
    """Whether a Prometheus runs in the first real node."""
    rules: Path | None = None
    """The folder of Prometheus's rules."""
    volumes: bool = False
    """Whether a CSI driver runs on the real nodes."""
    layout: NodeLayout = PLAIN
    """The paths of its real nodes' files."""
    tuning: LabTuning = field(default_factory=LabTuning)
    """The settings in which its programs differ from stock."""


def up(where: LabHome, spec: LabSpec, steps: StepPrinter) -> Lab:
    """Start a lab and return it when it is ready; missing programs are built first."""
    check_spec(where, spec)
    for ended in reap(where):
        steps.print_line(f"  ended the unused lab {ended.name!r}")
    more = [prometheus.PART] if spec.prometheus else []
    prerequisites = gather(spec.profile, steps, kwok=bool(spec.fleet), more=more)
    began = time.monotonic()
    with claim_name(where, spec) as claimed:
        try:
            lab = _start_programs(where, claimed, spec, prerequisites, steps)
        except BaseException:  # also Ctrl-C: half a lab is of no use
            end(where, claimed.folder)
            raise
        total = {"total": round(time.monotonic() - began, 2)}
        return save(replace(lab, phase=LabPhase.READY, times={**steps.times, **total}))


def check_spec(where: LabHome, spec: LabSpec) -> None:
    """Raise, before anything is built, if this machine cannot start such a lab."""
    folder = where.folder(spec.name)
    prometheus.check_rules(spec.rules)
    if spec.prometheus and spec.profile is not LabProfile.NODE:
        raise LabError("Prometheus runs in a real node", hint="choose --profile node")
    if spec.volumes and spec.profile is not LabProfile.NODE:
        raise LabError("volumes are mounted on real nodes", hint="choose --profile node")
    if spec.layout != PLAIN and spec.profile is not LabProfile.NODE:
        raise LabError(f"only real nodes have the layout {spec.layout.name}", hint="choose --profile node")
    if spec.profile is LabProfile.API and spec.tuning.scheduler is not None:
        raise LabError("the profile api has no scheduler", hint="choose --profile control")
    if spec.owner is not None and process.find(spec.owner) is None:
        raise LabError(f"--owner {spec.owner}: no such process")
    if spec.profile is LabProfile.NODE:
        obstacle = namespaces.obstacle(folder)
        if obstacle:
            raise LabError(obstacle, hint="the profiles api and control need no root and no namespaces")
        if spec.volumes:
            volumes.check()
        if not 1 <= spec.nodes <= namespaces.MOST_NODES:
            raise LabError(
                f"{spec.nodes} real nodes", hint=f"choose a number from 1 to {namespaces.MOST_NODES}"
            )
        real = {namespaces.node_name(number) for number in range(1, spec.nodes + 1)}
        for name in (node["metadata"]["name"] for node in spec.fleet):
            if name in real:
                raise LabError(
                    f"the fleet has a node {name!r}, which is the name of a real node",
                    hint="rename its group",
                )


@contextmanager
def claim_name(where: LabHome, spec: LabSpec) -> Iterator[Lab]:
    """Create the folder of a new lab, and hold its lock inside the block."""
    folder = where.folder(spec.name)
    with ExitStack() as stack:
        with home.hold_root_lock(where):
            if folder.exists():
                raise LabError(
                    f"lab {spec.name!r} exists already",
                    hint=f"end it with: fairlead lab down --name {spec.name}, or choose another --name",
                )
            taken = [port for other in where.labs() for port in other.ports.values()]
            staging = home.make_staging(folder)
            stack.enter_context(home.hold_lock(staging))
            lab = Lab(
                name=spec.name,
                profile=spec.profile,
                folder=folder,
                created=time.time(),
                owner=None if spec.owner is None else process.find(spec.owner),
                ports=home.free_ports(PORTS[spec.profile], taken),
                nodes=len(spec.fleet) + (spec.nodes if spec.profile is LabProfile.NODE else 0),
                layout=spec.layout,
            )
            save(replace(lab, folder=staging))
            staging.rename(folder)  # a folder without a state or a lock is one that any process may reap
        for name in ("logs", "tmp"):
            (folder / name).mkdir()
        yield lab


def _start_programs(
    where: LabHome, lab: Lab, spec: LabSpec, prerequisites: Prerequisites, steps: StepPrinter
) -> Lab:
    # No other variables of the user: a proxy or an ETCD_ variable would take effect in unexpected places.
    env = {
        "PATH": os.environ.get("PATH", _PATH),
        "HOME": str(lab.folder),
        "TMPDIR": str(lab.folder / "tmp"),
        "LANG": "C.UTF-8",
    }
    running = StartingLab(lab, env)
    if lab.profile is LabProfile.NODE:
        NodeStarter(running, prerequisites, steps, spec.nodes, spec.tuning).start(spec.fleet)
        if spec.prometheus:
            prometheus.launch(where, running, steps, spec.rules)
        if spec.volumes:
            volumes.launch(running, steps)
    else:
        control = ControlPlaneStarter(running, prerequisites, steps, spec.tuning)
        control.write_keys()
        control.launch_api(controllers=lab.profile is LabProfile.CONTROL)
        control.await_api()
        if lab.profile is LabProfile.CONTROL:
            control.start_controllers(len(spec.fleet))
            control.populate(spec.fleet)
    running.check()
    return running.lab
