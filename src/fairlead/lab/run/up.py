"""Start a lab: claim a name, start one program after the other, wait for each; undo all of it on failure."""

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
    """What kind of lab is asked for."""

    profile: LabProfile = LabProfile.API
    name: str = DEFAULT_NAME
    nodes: int = 1
    """How many real nodes, in the node profile."""
    fleet: tuple[Mapping[str, Any], ...] = ()
    """The nodes that kwok plays, as the API takes them."""
    owner: int | None = None
    """The number of the process with whose end the lab may go."""
    prometheus: bool = False
    """Whether a Prometheus runs in the first real node."""
    rules: Path | None = None
    """The folder of Prometheus's rules."""
    layout: NodeLayout = PLAIN
    """Where its real nodes keep their files."""
    tuning: LabTuning = field(default_factory=LabTuning)
    """What its programs are told beyond the usual."""


def up(where: LabHome, wish: LabSpec, narrator: StepPrinter) -> Lab:
    """Start a lab and return it when it is ready; programs that are missing are built first."""
    check_spec(where, wish)
    for ended in reap(where):
        narrator.print_line(f"  reaped lab {ended.name!r}, which nobody wanted any more")
    more = [prometheus.PART] if wish.prometheus else []
    kit = gather(wish.profile, narrator, kwok=bool(wish.fleet), more=more)
    began = time.monotonic()
    with _claimed(where, wish) as claim:
        try:
            lab = _rise(where, claim, wish, kit, narrator)
        except BaseException:  # also Ctrl-C: half a lab is of no use to anyone
            end(where, claim.folder)
            raise
        total = {"total": round(time.monotonic() - began, 2)}
        return save(replace(lab, phase=LabPhase.READY, times={**narrator.times, **total}))


def check_spec(where: LabHome, wish: LabSpec) -> None:
    """Raise, before anything is built, when the wish cannot be granted."""
    folder = where.folder(wish.name)
    prometheus.check_rules(wish.rules)
    if wish.prometheus and wish.profile is not LabProfile.NODE:
        raise LabError("Prometheus runs in a real node", hint="choose --profile node")
    if wish.layout != PLAIN and wish.profile is not LabProfile.NODE:
        raise LabError(f"only real nodes have the layout {wish.layout.name}", hint="choose --profile node")
    if wish.profile is LabProfile.API and wish.tuning.scheduler is not None:
        raise LabError("the profile api has no scheduler", hint="choose --profile control")
    if wish.owner is not None and process.find(wish.owner) is None:
        raise LabError(f"there is no process {wish.owner} that could own a lab")
    if wish.profile is LabProfile.NODE:
        obstacle = namespaces.obstacle(folder)
        if obstacle:
            raise LabError(obstacle, hint="the profiles api and control need no root and no namespaces")
        if not 1 <= wish.nodes <= namespaces.MOST_NODES:
            raise LabError(f"{wish.nodes} real nodes", hint=f"from 1 to {namespaces.MOST_NODES} fit")
        real = {namespaces.node_name(number) for number in range(1, wish.nodes + 1)}
        for name in (node["metadata"]["name"] for node in wish.fleet):
            if name in real:
                raise LabError(
                    f"the fleet has a node {name!r}, as a real one is called", hint="rename its group"
                )


@contextmanager
def _claimed(where: LabHome, wish: LabSpec) -> Iterator[Lab]:
    """Make the folder of a lab that no one else has, and hold its lock meanwhile."""
    folder = where.folder(wish.name)
    with ExitStack() as stack:
        with home.hold_root_lock(where):
            if folder.exists():
                raise LabError(
                    f"lab {wish.name!r} is there already",
                    hint=f"end it with: fairlead lab down --name {wish.name}, or choose another --name",
                )
            taken = [port for other in where.labs() for port in other.ports.values()]
            folder.mkdir(mode=0o700)
            stack.enter_context(home.hold_lock(folder))
            lab = Lab(
                name=wish.name,
                profile=wish.profile,
                folder=folder,
                created=time.time(),
                owner=None if wish.owner is None else process.find(wish.owner),
                ports=home.free_ports(PORTS[wish.profile], taken),
                nodes=len(wish.fleet) + (wish.nodes if wish.profile is LabProfile.NODE else 0),
                layout=wish.layout,
            )
            save(lab)
        for name in ("logs", "tmp"):
            (folder / name).mkdir()
        yield lab


def _rise(where: LabHome, lab: Lab, wish: LabSpec, kit: Prerequisites, narrator: StepPrinter) -> Lab:
    # Nothing else of the user's: a proxy or an ETCD_ variable of his would work in the strangest places.
    env = {
        "PATH": os.environ.get("PATH", _PATH),
        "HOME": str(lab.folder),
        "TMPDIR": str(lab.folder / "tmp"),
        "LANG": "C.UTF-8",
    }
    running = StartingLab(lab, env)
    if lab.profile is LabProfile.NODE:
        NodeStarter(running, kit, narrator, wish.nodes, wish.tuning).start(wish.fleet)
        if wish.prometheus:
            prometheus.launch(where, running, narrator, wish.rules)
    else:
        control = ControlPlaneStarter(running, kit, narrator, wish.tuning)
        control.write_keys()
        control.launch_api(controllers=lab.profile is LabProfile.CONTROL)
        control.await_api()
        if lab.profile is LabProfile.CONTROL:
            control.start_controllers(len(wish.fleet))
            control.populate(wish.fleet)
    running.check()
    return running.lab
