"""The state of a lab: one value, kept in one JSON file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.errors import LabError
from fairlead.lab.node.layout import PLAIN, NodeLayout, find_layout
from fairlead.lab.run.process import Process, alive, boot_id

FORMAT: Final = 1


class LabProfile(StrEnum):
    """The extent of a lab's cluster."""

    API = "api"
    """etcd and the API server."""
    CONTROL = "control"
    """Also the controller manager, the scheduler, and nodes that kwok simulates."""
    NODE = "node"
    """Also real nodes that run real pods."""


class LabPhase(StrEnum):
    """The phase of a lab's start, as its starter recorded it."""

    STARTING = "starting"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class LabProgram:
    """A program of a lab."""

    name: str
    """Its name for `fairlead lab logs`: `kube-apiserver`, or `kubelet-2` on the second node."""
    process: Process
    log: str
    argv: tuple[str, ...] = ()
    """Its command line, for a restart; empty: it cannot be restarted."""
    node: str = ""
    """The real node that it runs on; empty: the host."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the state file."""
        return {
            "name": self.name,
            "log": self.log,
            **self.process.to_json(),
            "argv": list(self.argv),
            "node": self.node,
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> "LabProgram":
        """Read the fields of the state file; labs of earlier versions have no command lines."""
        argv = tuple(str(word) for word in fields.get("argv", ()))
        started = Process.from_json(fields)
        return LabProgram(str(fields["name"]), started, str(fields["log"]), argv, str(fields.get("node", "")))


@dataclass(frozen=True, slots=True)
class NodeNamespaces:
    """A node's namespaces; they end with their init process."""

    node: str
    address: str
    init: Process


@dataclass(frozen=True, slots=True)
class Lab:
    """One lab."""

    name: str
    profile: LabProfile
    folder: Path
    created: float
    """Seconds since 1970."""
    boot: str = field(default_factory=boot_id)
    owner: Process | None = None
    """The process that the lab was started for; once it has ended the lab is unused. None: it stays."""
    phase: LabPhase = LabPhase.STARTING
    ports: Mapping[str, int] = field(default_factory=dict)
    programs: tuple[LabProgram, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment of its programs."""
    namespaces: tuple[NodeNamespaces, ...] = ()
    nodes: int = 0
    layout: NodeLayout = PLAIN
    """The paths of its real nodes' files."""
    times: Mapping[str, float] = field(default_factory=dict)
    """The duration of each step of the start, in seconds."""

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}" if self.ports else ""

    @property
    def prometheus(self) -> str:
        """The address of its Prometheus; empty: it has none."""
        return f"http://127.0.0.1:{self.ports['prometheus']}" if "prometheus" in self.ports else ""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def file(self) -> Path:
        """The state file."""
        return self.folder / "lab.json"

    def log(self, name: str) -> Path:
        """Return the log of a program."""
        return self.folder / "logs" / f"{name}.log"

    def stopped_programs(self) -> list[str]:
        """Return the names of the programs that no longer run."""
        if self.boot != boot_id():
            return [program.name for program in self.programs]
        return [program.name for program in self.programs if not alive(program.process)]

    def is_orphaned(self) -> bool:
        """Return whether the lab's owner has ended, or the lab is from before this boot."""
        return self.boot != boot_id() or (self.owner is not None and not alive(self.owner))

    def to_json(self) -> dict[str, Any]:
        """Return the document of the state file."""
        return {
            "format": FORMAT,
            "name": self.name,
            "profile": self.profile.value,
            "created": self.created,
            "boot": self.boot,
            "owner": self.owner.to_json() if self.owner else None,
            "phase": self.phase.value,
            "ports": dict(self.ports),
            "programs": [program.to_json() for program in self.programs],
            "environ": dict(self.environ),
            "spaces": [
                {"node": node_ns.node, "address": node_ns.address, **node_ns.init.to_json()}
                for node_ns in self.namespaces
            ],
            "nodes": self.nodes,
            "layout": self.layout.name,
            "times": dict(self.times),
        }


def save(lab: Lab) -> Lab:
    """Write a lab's state file atomically."""
    staging = lab.file.with_suffix(".new")
    staging.write_text(json.dumps(lab.to_json(), indent=1), encoding="utf-8")
    staging.replace(lab.file)
    return lab


def load(folder: Path) -> Lab | None:
    """Read a lab's state file; None if it is missing, unreadable or of another format."""
    try:
        return _from_json(json.loads((folder / "lab.json").read_text(encoding="utf-8")), folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, LabError):
        return None


def _from_json(fields: Mapping[str, Any], folder: Path) -> Lab:
    if fields["format"] != FORMAT:
        raise ValueError(fields["format"])
    return Lab(
        name=folder.name,
        profile=LabProfile(fields["profile"]),
        folder=folder,
        created=float(fields["created"]),
        boot=str(fields["boot"]),
        owner=Process.from_json(fields["owner"]) if fields["owner"] else None,
        phase=LabPhase(fields["phase"]),
        ports={str(name): int(port) for name, port in fields["ports"].items()},
        programs=tuple(LabProgram.from_json(program) for program in fields["programs"]),
        environ={str(name): str(value) for name, value in fields.get("environ", {}).items()},
        namespaces=tuple(
            NodeNamespaces(str(node["node"]), str(node["address"]), Process.from_json(node))
            for node in fields["spaces"]
        ),
        nodes=int(fields["nodes"]),
        layout=find_layout(str(fields.get("layout", PLAIN.name))),
        times={str(step): float(seconds) for step, seconds in fields["times"].items()},
    )
