"""`fairlead lab`: a real Kubernetes on this machine, for tests and demos."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fairlead.cli.lab import running as inside
from fairlead.cli.lab.verb import add_verb, home
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import LabError
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.lab.control.tuning import LabTuning
    from fairlead.lab.run.state import Lab

_PROFILES: Final = ("api", "control", "node")
_LAYOUTS: Final = ("plain", "k3s", "k0s")
_PLAIN_NODES: Final = 3
_HEAD: Final = (
    Column("LAB", Fit.KEEP),
    *map(Column, ("PROFILE", "STATE", "SERVER", "NODES", "AGE", "OWNER")),
    Column("KUBECONFIG", Fit.MIDDLE, wide=True),
)
_PROGRAMS: Final = (
    *(Column(name, Fit.KEEP) for name in ("LAB", "PROGRAM")),
    *map(Column, ("RUNNING", "PID", "MEMORY")),
    Column("LOG", Fit.MIDDLE, wide=True),
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "lab",
        help="run a real Kubernetes on this machine",
        description="Run a real Kubernetes on this machine: built once from pinned sources, gone when down.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    _add_up(verbs)
    add_verb(
        verbs, "status", "show which labs there are and how they are", _status, output=_HEAD, all_labs=True
    )
    inside.add(verbs)
    kubeconfig = add_verb(verbs, "kubeconfig", "print the administrator's kubeconfig", _kubeconfig)
    kubeconfig.add_argument("--path", action="store_true", help="print where it is instead")
    logs = add_verb(verbs, "logs", "print what a program of a lab said", _logs)
    logs.add_argument("program", metavar="PROGRAM", help="as `fairlead lab status` calls it")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the program or you end")
    add_verb(verbs, "down", "end a lab and leave nothing of it", _down)
    add_verb(verbs, "reap", "end every lab whose owner died", _reap, output=True, named=False)
    build = add_verb(verbs, "build", "build what labs are made of", _build, output=True, named=False)
    build.add_argument(
        "--profile", choices=_PROFILES, default="control", help="for which labs (default: control)"
    )


def _add_up(verbs: Any) -> None:
    verb = add_verb(verbs, "up", "start a lab; what it is made of is built when missing", _up, output=True)
    verb.add_argument(
        "--profile",
        choices=_PROFILES,
        default="control",
        help="api: etcd and the API server; control: also controllers, the scheduler and nodes that kwok "
        "plays (default); node: also real nodes that run pods (needs root)",
    )
    verb.add_argument(
        "--fleet",
        metavar="FILE",
        help="nodes that kwok plays, with devices of the catalog (see: fairlead examples fleet.toml)",
    )
    verb.add_argument(
        "--nodes",
        metavar="K",
        type=int,
        help=f"control: plain nodes where no fleet is named (default: {_PLAIN_NODES}); "
        "node: real nodes (default: 1)",
    )
    verb.add_argument(
        "--owner", metavar="PID", type=int, help="the lab may be reaped once this process has ended"
    )
    verb.add_argument(
        "--prometheus",
        action="store_true",
        help="node: also a Prometheus that looks at every pod that wants it",
    )
    verb.add_argument(
        "--layout",
        choices=_LAYOUTS,
        default=_LAYOUTS[0],
        help="node: keep the files of kubelet and containerd as a distribution does (default: %(default)s)",
    )
    inside.add_rules(verb)
    _add_tuning(verb)
    shared.add_catalog(verb)


def _add_tuning(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--scheduler-config",
        metavar="FILE",
        type=Path,
        help="a KubeSchedulerConfiguration for the kube-scheduler; where it says nothing of the kubeconfig "
        "and of leader election, the lab does",
    )
    verb.add_argument(
        "--feature-gates",
        metavar="A=true,B=false",
        help="switch features of Kubernetes on or off, in the API server, the controllers, the scheduler and "
        "the kubelets",
    )
    verb.add_argument(
        "--runtime-config",
        metavar="GROUP/VERSION=true,...",
        help="APIs that the API server serves beside the usual, such as scheduling.k8s.io/v1beta1=true",
    )


def _up(options: argparse.Namespace) -> int:
    from fairlead.lab.node import layout
    from fairlead.lab.run.state import LabProfile
    from fairlead.lab.run.steps import StepPrinter
    from fairlead.lab.run.up import LabSpec, up

    # A lab that is half up when we are asked to end must go: SIGTERM is to end us as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    profile = LabProfile(options.profile)
    wish = LabSpec(
        profile=profile,
        name=options.name,
        nodes=options.nodes if options.nodes is not None else 1,
        fleet=_fleet(options),
        owner=options.owner,
        prometheus=options.prometheus or options.rules is not None,
        rules=options.rules,
        layout=layout.named(options.layout),
        tuning=_tuning(options),
    )
    narrator = StepPrinter(sys.stderr)
    lab = up(home(), wish, narrator)
    narrator.say(f"  {'ready after':24} {lab.times['total']:.1f} s")
    if options.output != "table":
        show(describe(lab), options.output)
        return 0
    named = "" if options.name == "lab" else f" --name {lab.name}"
    print(f"lab {lab.name!r} is up at {lab.server}")
    if lab.prometheus:
        print(f"  Prometheus: {lab.prometheus}")
    print(f"  export KUBECONFIG={lab.kubeconfig}")
    print(f"  fairlead lab kubectl{named} get nodes")
    print(f"  fairlead lab down{named}")
    return 0


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _tuning(options: argparse.Namespace) -> "LabTuning":
    from fairlead.lab.control import tuning

    return tuning.LabTuning(
        gates="" if options.feature_gates is None else tuning.gates(options.feature_gates),
        apis="" if options.runtime_config is None else tuning.apis(options.runtime_config),
        scheduler=None if options.scheduler_config is None else tuning.scheduler(options.scheduler_config),
    )


def _fleet(options: argparse.Namespace) -> tuple[dict[str, Any], ...]:
    from fairlead.lab.control.dummy import manifests
    from fairlead.lab.control.fleet import MOST_NODES, load_fleet, plain

    if options.profile == "api":
        if options.fleet or options.nodes is not None:
            raise LabError("the profile api has no nodes", hint="choose --profile control or --profile node")
        return ()
    if options.fleet:
        if options.profile == "control" and options.nodes is not None:
            raise LabError("--fleet and --nodes both say which nodes there are", hint="leave one of them out")
        catalog = shared.catalog_of(options)
        return tuple(manifests(load_fleet(options.fleet, catalog), catalog))
    if options.profile == "node":
        return ()
    count = _PLAIN_NODES if options.nodes is None else options.nodes
    if not 0 <= count <= MOST_NODES:
        raise LabError(f"--nodes {count}", hint=f"from 0 to {MOST_NODES} fit on one machine")
    return tuple(manifests(plain(count), shared.catalog_of(options)))


def describe(lab: "Lab") -> dict[str, Any]:
    """Return what programs may know of a lab."""
    from fairlead.lab.run import process

    dead = lab.dead()
    return {
        "name": lab.name,
        "profile": lab.profile.value,
        "state": "broken" if dead and lab.phase.value == "ready" else lab.phase.value,
        "server": lab.server,
        "prometheus": lab.prometheus or None,
        "kubeconfig": str(lab.kubeconfig),
        "nodes": lab.nodes,
        "owner": lab.owner.pid if lab.owner else None,
        "age_seconds": round(time.time() - lab.created),
        "times_seconds": dict(lab.times),
        "programs": [
            {
                "name": program.name,
                "running": program.name not in dead,
                "pid": program.process.pid,
                "memory_bytes": 0 if program.name in dead else process.memory(program.process),
                "log": program.log,
            }
            for program in lab.programs
        ],
    }


def _status(options: argparse.Namespace) -> int:
    labs = [home().get(options.name)] if options.name else home().labs()
    found = [describe(lab) for lab in labs]
    documents = sorted_by(found, options.sort_by, _HEAD, _lab_row, lambda each: each)
    if options.output in ("json", "yaml"):
        show(documents, options.output)
    else:
        rows, headers = [_lab_row(document) for document in documents], not options.no_headers
        empty = "there is no lab; start one: fairlead lab up"
        show_list(_HEAD, rows, options.output, headers=headers, empty=empty, color=options.color)
        if documents and headers and options.output != "name":
            _show_programs(documents, options)
    return 0 if all(document["state"] == "ready" for document in documents) else 1


def _show_programs(documents: list[dict[str, Any]], options: argparse.Namespace) -> None:
    rows = [_program_row(document, program) for document in documents for program in document["programs"]]
    print()
    for each in (document for document in documents if document["prometheus"]):
        print(f"Prometheus of {each['name']}: {each['prometheus']}\n")
    show_list(_PROGRAMS, rows, options.output, headers=True, color=options.color)


def _lab_row(lab: dict[str, Any]) -> Sequence[str | Cell]:
    owner = "-" if lab["owner"] is None else str(lab["owner"])
    age = f"{lab['age_seconds']} s" if lab["age_seconds"] < 600 else f"{lab['age_seconds'] // 60} min"
    state = Cell(lab["state"], tone=Tone.GOOD if lab["state"] == "ready" else Tone.BAD)
    seconds = Cell(age, lab["age_seconds"])
    nodes, kubeconfig = str(lab["nodes"]), lab["kubeconfig"]
    return (lab["name"], lab["profile"], state, lab["server"], nodes, seconds, owner, kubeconfig)


def _program_row(lab: dict[str, Any], program: dict[str, Any]) -> Sequence[str | Cell]:
    running = Cell("yes", tone=Tone.GOOD) if program["running"] else Cell("no", tone=Tone.BAD)
    memory = format_bytes(program["memory_bytes"])
    return (lab["name"], program["name"], running, str(program["pid"]), memory, program["log"])


def _kubeconfig(options: argparse.Namespace) -> int:
    lab = home().get(options.name)
    print(
        lab.kubeconfig if options.path else lab.kubeconfig.read_text(encoding="utf-8"),
        end="\n" * options.path,
    )
    return 0


def _logs(options: argparse.Namespace) -> int:
    from fairlead.lab.run.process import alive

    lab = home().get(options.name)
    known = sorted(path.stem for path in (lab.folder / "logs").glob("*.log"))
    if options.program not in known:
        raise LabError(f"lab {lab.name!r} runs no {options.program!r}", hint=f"it runs: {', '.join(known)}")
    processes = [each.process for each in lab.programs if each.name == options.program]
    with lab.log(options.program).open("rb") as log:
        while True:
            running = any(map(alive, processes))  # before reading: what it said last must not be missed
            while data := log.read(1 << 16):
                sys.stdout.buffer.write(data)
            sys.stdout.flush()
            if not options.follow or not running:
                return 0
            time.sleep(0.2)


def _down(options: argparse.Namespace) -> int:
    from fairlead.lab.run.down import down

    began = time.monotonic()
    ended = down(home(), options.name)
    seconds = time.monotonic() - began
    processes = pluralize(ended.processes, "process", "processes")
    print(f"lab {ended.name!r} is gone: {processes} ended in {seconds:.1f} s", file=sys.stderr)
    return 0


def _reap(options: argparse.Namespace) -> int:
    from fairlead.lab.run.down import reap

    documents = [{"name": each.name, "processes": each.processes} for each in reap(home())]
    if options.output != "table":
        show(documents, options.output)
    elif documents:
        rows = [tuple(document.values()) for document in documents]
        show_page(Page.of(Table.of(("REAPED", "PROCESSES"), rows)), options.color)
    else:
        print("every lab is wanted")
    return 0


def _build(options: argparse.Namespace) -> int:
    from fairlead.lab.build.prerequisites import gather
    from fairlead.lab.control import helm, prometheus
    from fairlead.lab.run.state import LabProfile
    from fairlead.lab.run.steps import StepPrinter

    more = [helm.PART, prometheus.PART] if options.profile == "node" else []
    kit = gather(
        LabProfile(options.profile), StepPrinter(sys.stderr), kwok=options.profile != "api", more=more
    )
    documents = [{"program": name, "path": str(path)} for name, path in sorted(kit.programs.paths.items())]
    if options.output == "table":
        head = (Column("PROGRAM", Fit.KEEP), Column("PATH", Fit.MIDDLE))
        show_page(
            Page.of(Table.of(head, [tuple(document.values()) for document in documents])), options.color
        )
    else:
        show(documents, options.output)
    return 0
