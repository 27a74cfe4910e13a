"""A pipeline as data: its stages, and the edges between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.pipeline.edge import EdgeContract
from fairlead.pipeline.ports import ANY, PortType
from fairlead.units import Bytes, Seconds

LOCAL: Final = "local"
"""The name of the coordinator's own machine."""


OLD: Final = Seconds(1.0)
"""By default: the age of frames that asks for more replicas; how long more are needed, or fewer do."""
UP_AFTER: Final = Seconds(30.0)
DOWN_AFTER: Final = Seconds(300.0)


class StageRole(StrEnum):
    """What a stage does; also the key of its target in a file."""

    SOURCE = "source"
    RUN = "run"
    EXEC = "exec"
    SINK = "sink"


class StageKind(StrEnum):
    """What does the work of a stage."""

    SOURCE = "source"
    FUNCTION = "function"
    ONNX = "onnx"
    EXEC = "exec"
    SINK = "sink"


class OnError(StrEnum):
    """What happens when a stage raises, or its process ends."""

    STOP = "stop"
    SKIP = "skip"
    """The frame that the stage worked on is dropped and counted."""
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """How many frames a stage receives at once, and how long the first of them waits."""

    most: int
    wait: Seconds
    latency: Seconds | None = None
    """Results within this time; the size and the wait are chosen while the stage runs. None: fixed."""


@dataclass(frozen=True, slots=True)
class ReplicaScale:
    """Bounds of a number of replicas that follows the load of the stage."""

    least: int
    most: int
    age: Seconds = OLD
    """Frames that are older when a busy stage takes them ask for more replicas."""
    up_after: Seconds = UP_AFTER
    """How long more of them must be needed."""
    down_after: Seconds = DOWN_AFTER
    """How long fewer of them must be enough."""


@dataclass(frozen=True, slots=True)
class CanarySpec:
    """Another version of a stage that takes some of its frames, beside its replicas."""

    host: str
    """Where it is: one process."""
    percent: int
    """Of the frames, at most."""


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage."""

    name: str
    role: StageRole
    target: str
    """The name of a source or a sink, `module:function`, `model.onnx`, or the first word of a command."""
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: PortType = ANY
    outputs: PortType = ANY
    replicas: int = 1
    """Of a stage with `scale`: those of now; in a file, those with which a run begins."""
    ordered: bool = True
    """Of replicas: the next stage receives the frames in the order of the source."""
    batch: BatchSpec | None = None
    on_error: OnError = OnError.STOP
    timeout: Seconds | None = None
    """How long one call may take; None: any time."""
    cores: tuple[int, ...] = ()
    """The cores that its process is pinned to; empty: all of them."""
    memory: Bytes | None = None
    """How much its process may hold; None: any amount."""
    is_stateful: bool = False
    """Its class has state for each stream, and checkpoints of it."""
    line: int = 0
    """Of the file; 0: from Python."""
    command: tuple[str, ...] = ()
    """Of an `exec` stage: the program and its arguments."""
    on: str = LOCAL
    """The name or the class of a host, or labels as `key=value,key=value`; `local`: this machine."""
    is_placed: bool = False
    """The file states `on`: a plan leaves the stage there."""
    scale: ReplicaScale | None = None
    """Bounds between which the number of replicas follows the load; None: the number is fixed."""

    canary: CanarySpec | None = None
    """Another version of it, on one more host, for some of the frames; None: there is none."""

    @property
    def settings(self) -> "StageSpec":
        """The stage without its place, in the file and among hosts, and without what follows the load."""
        bare = replace(self, line=0, on="", is_placed=False)
        return bare if self.scale is None else replace(bare, replicas=0, scale=_ANY_SCALE)

    @property
    def is_replicated(self) -> bool:
        """Whether it is joined with its neighbours as replicas are, also while there is one of them."""
        return self.replicas > 1 or (self.scale is not None and self.scale.most > 1)

    @property
    def kind(self) -> StageKind:
        """What does the work."""
        if self.role is StageRole.RUN:
            return StageKind.ONNX if self.target.endswith(".onnx") else StageKind.FUNCTION
        return StageKind(self.role.value)


_ANY_SCALE: Final = ReplicaScale(0, 0)


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """Frames from one stage to another, and what happens when the second one is slower."""

    source: str
    target: str
    contract: EdgeContract
    line: int = 0
    encode: str = ""
    """`jpeg`: how frames travel between hosts; empty: as they are."""

    @property
    def name(self) -> str:
        """The edge as it is shown."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class HostSpec:
    """Another machine, where `fairlead pipeline worker` listens."""

    name: str
    address: str
    """HOST:PORT; empty: the host has a class or a pod only, and cannot be reached."""
    host_class: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Of a pipeline in a cluster: how the pod of the host is made."""

    def matches(self, selector: str) -> bool:
        """Return whether a stage with this `on` may be on the host."""
        if "=" not in selector:
            return selector in (self.name, self.host_class)
        pairs = [pair.partition("=") for pair in selector.split(",")]
        return all(self.labels.get(key.strip()) == value.strip() for key, _, value in pairs)


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A whole pipeline."""

    name: str
    stages: tuple[StageSpec, ...]
    edges: tuple[EdgeSpec, ...]
    fuse: bool = True
    """Neighbours share a process where nothing speaks against it."""
    folder: str = ""
    """Where modules and relative paths are looked for; empty: the working directory."""
    path: str = ""
    """The file; empty: from Python."""
    hosts: tuple[HostSpec, ...] = ()
    cluster: Mapping[str, Any] = field(default_factory=dict)
    """What the pipeline has in a cluster beside stages, edges and hosts."""

    def stage(self, name: str) -> StageSpec:
        """Return the stage of this name."""
        return next(stage for stage in self.stages if stage.name == name)

    def hosts_of(self, stage: StageSpec) -> tuple[str, ...]:
        """Return the hosts that a stage may be on; replicas take them in turn."""
        if stage.on == LOCAL:
            return (LOCAL,)
        return tuple(host.name for host in self.hosts if host.address and host.matches(stage.on))

    def loading_hosts(self, stage: StageSpec) -> tuple[str, ...]:
        """Return the hosts that must be able to load a stage: those that it may be on, and its canary's."""
        hosts = self.hosts_of(stage)
        return hosts if stage.canary is None else (*hosts, stage.canary.host)

    def places_of(self, stage: StageSpec) -> tuple[tuple[str, str], ...]:
        """Return the host of each replica of a stage, with its address; empty: the coordinator's machine.

        A canary comes last.
        """
        hosts, addresses = self.hosts_of(stage), {host.name: host.address for host in self.hosts}
        chosen = [hosts[index % len(hosts)] for index in range(stage.replicas)]
        chosen += [stage.canary.host] if stage.canary is not None else []
        return tuple((name, addresses.get(name, "")) for name in chosen)

    def inputs_of(self, name: str) -> tuple[EdgeSpec, ...]:
        """Return the edges that end at a stage, in the order of the file."""
        return tuple(edge for edge in self.edges if edge.target == name)

    def outputs_of(self, name: str) -> tuple[EdgeSpec, ...]:
        """Return the edges that begin at a stage, in the order of the file."""
        return tuple(edge for edge in self.edges if edge.source == name)

    def in_order(self) -> list[StageSpec]:
        """Return the stages so that each comes behind those that its frames come from."""
        done: list[StageSpec] = []
        left = list(self.stages)
        while left:
            names = {stage.name for stage in done}
            ready = (each for each in left if all(edge.source in names for edge in self.inputs_of(each.name)))
            stage = next(ready)
            done.append(stage)
            left.remove(stage)
        return done

    @property
    def is_chain(self) -> bool:
        """Whether no stage joins or branches."""
        ins = [len(self.inputs_of(stage.name)) for stage in self.stages]
        outs = [len(self.outputs_of(stage.name)) for stage in self.stages]
        return len(self.sources) == 1 and max(ins) <= 1 and max(outs) <= 1

    @property
    def sources(self) -> tuple[StageSpec, ...]:
        """The sources; the index of one is the number of its stream."""
        return tuple(stage for stage in self.stages if stage.role is StageRole.SOURCE)
