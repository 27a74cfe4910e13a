"""`fairlead lab`: a real Kubernetes on this machine, for tests and demos."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fairlead.cli.lab import running as running_verbs
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
        description="Run a real Kubernetes on this machine, built once from pinned sources.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    _add_up(verbs)
    add_verb(verbs, "status", "list the labs and their programs", _status, output=_HEAD, all_labs=True)
    running_verbs.add(verbs)
    kubeconfig = add_verb(verbs, "kubeconfig", "print the administrator's kubeconfig", _kubeconfig)
    kubeconfig.add_argument("--path", action="store_true", help="print the path of the file instead")
    logs = add_verb(verbs, "logs", "print the log of a program of a lab", _logs)
    logs.add_argument("program", metavar="PROGRAM", help="a program that `fairlead lab status` lists")
    logs.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="follow the log until the program ends, or until interrupted",
    )
    add_verb(verbs, "down", "stop a lab and remove everything of it", _down)
    add_verb(verbs, "reap", "stop every lab whose owner has exited", _reap, output=True, named=False)
    build = add_verb(verbs, "build", "build the programs of labs", _build, output=True, named=False)
    build.add_argument(
        "--profile", choices=_PROFILES, default="control", help="the profile to build for (default: control)"
    )


def _add_up(verbs: Any) -> None:
    verb = add_verb(verbs, "up", "start a lab; missing programs are built first", _up, output=True)
    verb.add_argument(
        "--profile",
        choices=_PROFILES,
        default="control",
        help="api: etcd and the API server; control: also controllers, the scheduler and nodes that kwok "
        "simulates (default); node: also real nodes that run pods (needs root)",
    )
    verb.add_argument(
        "--fleet",
        metavar="FILE",
        help="nodes that kwok simulates, with devices of the catalog (see: fairlead examples fleet.toml)",
    )
    verb.add_argument(
        "--nodes",
        metavar="K",
        type=int,
        help=f"control: plain nodes, if no fleet is named (default: {_PLAIN_NODES}); "
        "node: real nodes (default: 1)",
    )
    verb.add_argument(
        "--owner", metavar="PID", type=int, help="`lab reap` may stop the lab once this process has exited"
    )
    running_verbs.add_programs(verb)
    verb.add_argument(
        "--layout",
        choices=_LAYOUTS,
        default=_LAYOUTS[0],
        help="node: put the files of kubelet and containerd where a distribution does (default: %(default)s)",
    )
    _add_tuning(verb)
    shared.add_catalog(verb)


def _add_tuning(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--scheduler-config",
        metavar="FILE",
        type=Path,
        help="a KubeSchedulerConfiguration for the kube-scheduler; the lab adds the kubeconfig and leader "
        "election if it has none",
    )
    verb.add_argument(
        "--feature-gates",
        metavar="A=true,B=false",
        help="feature gates of Kubernetes, for the API server, the controllers, the scheduler and the "
        "kubelets",
    )
    verb.add_argument(
        "--runtime-config",
        metavar="GROUP/VERSION=true,...",
        help="further APIs that the API server serves, such as scheduling.k8s.io/v1beta1=true",
    )


def _up(options: argparse.Namespace) -> int:
    from fairlead.lab.node import layout
    from fairlead.lab.run.state import LabProfile
    from fairlead.lab.run.steps import StepPrinter
    from fairlead.lab.run.up import LabSpec, up

    # A half-started lab must be removed when this process is stopped: SIGTERM raises as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    profile = LabProfile(options.profile)
    spec = LabSpec(
        profile=profile,
        name=options.name,
        nodes=options.nodes if options.nodes is not None else 1,
        fleet=_fleet(options),
        owner=options.owner,
        prometheus=options.prometheus or options.rules is not None,
        rules=options.rules,
        volumes=options.volumes,
        layout=layout.find_layout(options.layout),
        tuning=_tuning(options),
    )
    printer = StepPrinter(sys.stderr)
    lab = up(home(), spec, printer)
    printer.print_line(f"  {'ready after':24} {lab.times['total']:.1f} s")
    if options.output != "table":
        show(describe(lab), options.output)
        return 0
    option = "" if options.name == "lab" else f" --name {lab.name}"
    print(f"lab {lab.name!r} is up at {lab.server}")
    if lab.prometheus:
        print(f"  Prometheus: {lab.prometheus}")
    print(f"  export KUBECONFIG={lab.kubeconfig}")
    print(f"  fairlead lab kubectl{option} get nodes")
    print(f"  fairlead lab down{option}")
    return 0


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _tuning(options: argparse.Namespace) -> "LabTuning":
    from fairlead.lab.control import tuning

    return tuning.LabTuning(
        feature_gates=""
        if options.feature_gates is None
        else tuning.parse_feature_gates(options.feature_gates),
        runtime_config=""
        if options.runtime_config is None
        else tuning.parse_runtime_config(options.runtime_config),
        scheduler=None
        if options.scheduler_config is None
        else tuning.load_scheduler_config(options.scheduler_config),
    )


def _fleet(options: argparse.Namespace) -> tuple[dict[str, Any], ...]:
    from fairlead.lab.control.fleet import MOST_NODES, load_fleet, plain_fleet
    from fairlead.lab.control.kwok_nodes import manifests

    if options.profile == "api":
        if options.fleet or options.nodes is not None:
            raise LabError("the profile api has no nodes", hint="choose --profile control or --profile node")
        return ()
    if options.fleet:
        if options.profile == "control" and options.nodes is not None:
            raise LabError("--fleet and --nodes both define the nodes", hint="leave one of them out")
        catalog = shared.catalog_of(options)
        return tuple(manifests(load_fleet(options.fleet, catalog), catalog))
    if options.profile == "node":
        return ()
    count = _PLAIN_NODES if options.nodes is None else options.nodes
    if not 0 <= count <= MOST_NODES:
        raise LabError(f"--nodes {count}: out of range", hint=f"choose from 0 to {MOST_NODES}")
    return tuple(manifests(plain_fleet(count), shared.catalog_of(options)))


def describe(lab: "Lab") -> dict[str, Any]:
    """Return a lab as a document."""
    from fairlead.lab.run import process

    dead = lab.stopped_programs()
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
    documents = [describe(lab) for lab in labs]
    documents = sorted_by(documents, options.sort_by, _HEAD, _lab_row, lambda each: each)
    if options.output in ("json", "yaml"):
        show(documents, options.output)
    else:
        rows, headers = [_lab_row(document) for document in documents], not options.no_headers
        empty = "no labs; start one: fairlead lab up"
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
            running = any(map(alive, processes))  # checked before reading: its last lines must be read
            while data := log.read(1 << 16):
                sys.stdout.buffer.write(data)
            sys.stdout.flush()
            if not options.follow or not running:
                return 0
            time.sleep(0.2)


def _down(options: argparse.Namespace) -> int:
    from fairlead.lab.run.down import down

    began = time.monotonic()
    result = down(home(), options.name)
    seconds = time.monotonic() - began
    processes = pluralize(result.processes, "process", "processes")
    print(f"lab {result.name!r} is gone: {processes} ended in {seconds:.1f} s", file=sys.stderr)
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
        print("no lab to reap: every owner runs")
    return 0


def _build(options: argparse.Namespace) -> int:
    from fairlead.lab.build.prerequisites import gather
    from fairlead.lab.control import helm, prometheus
    from fairlead.lab.run.state import LabProfile
    from fairlead.lab.run.steps import StepPrinter

    more = [helm.PART, prometheus.PART] if options.profile == "node" else []
    built = gather(
        LabProfile(options.profile), StepPrinter(sys.stderr), kwok=options.profile != "api", more=more
    )
    documents = [{"program": name, "path": str(path)} for name, path in sorted(built.programs.paths.items())]
    if options.output == "table":
        head = (Column("PROGRAM", Fit.KEEP), Column("PATH", Fit.MIDDLE))
        show_page(
            Page.of(Table.of(head, [tuple(document.values()) for document in documents])), options.color
        )
    else:
        show(documents, options.output)
    return 0
