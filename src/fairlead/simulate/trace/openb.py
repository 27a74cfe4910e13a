"""The published protocol on the openb trace: fill a cluster to 130 % demand, and measure the allocation.

Every pod of the list arrives, and then random copies, until demand is 1.3 times the capacity of the cluster.
The seed shuffles the order. No pod ends, and a refused pod does not return.
"""

import csv
import gzip
import random
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fairlead.errors import UserError
from fairlead.placement import DeviceState, NodeState
from fairlead.request import WHOLE, Demand, Request
from fairlead.schedule.decision.decide import place
from fairlead.schedule.score.mix import typical_demand
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.units import Bytes, pluralize

DEMAND: Final = 1.3
"""The demand, relative to the capacity of the cluster."""
FIRST_SEED: Final = 42
MOST_ROWS: Final = 1_000_000
_MEBI: Final = 1 << 20
_NODE: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


@dataclass(frozen=True, slots=True)
class FillResult:
    """The result of one run."""

    seed: int
    allocation: float
    """The part of all compute that is allocated when demand has reached 130 %."""
    refused: int
    seconds: float
    """Processor time on one core: other processes may use the machine."""


def read_nodes(path: str) -> tuple[NodeState, ...]:
    """Read a list of nodes: sn, cpu_milli, memory_mib, gpu, model."""
    nodes = tuple(_node(path, number, row) for number, row in _rows(path, _NODE))
    if not any(node.devices for node in nodes):
        raise UserError(f"{path}: no node has an accelerator", "give the list of nodes, as openb has it")
    return nodes


def read_pods(path: str) -> tuple[Request, ...]:
    """Read a list of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec if there is one."""
    pods = tuple(_pod(path, number, row) for number, row in _rows(path, _POD))
    if not any(compute_of(pod) for pod in pods):
        raise UserError(f"{path}: no pod asks for an accelerator", "give a list of pods, as openb has it")
    return pods


def compute_of(pod: Request) -> int:
    """Return the total compute that a pod requests, in thousandths of an accelerator."""
    return pod.demand.count * (pod.demand.compute or 0)


def inflate(pods: Sequence[Request], capacity: int, seed: int) -> list[Request]:
    """Return all pods and random copies until demand reaches its target, in the order of the seed."""
    chance = random.Random(seed)  # noqa: S311  # a simulation
    arrived = list(pods)
    total = sum(compute_of(pod) for pod in pods)
    while total < DEMAND * capacity:
        pod = chance.choice(pods)
        arrived.append(replace(pod, name=f"{pod.name}-{len(arrived)}"))
        # As published: a pod of several accelerators counts as one here.
        total += pod.demand.compute or 0
    arrived.sort(key=lambda pod: pod.name)
    chance.shuffle(arrived)
    return arrived


def shuffle_names(nodes: Sequence[NodeState], seed: int) -> list[NodeState]:
    """Return the nodes with their names shuffled, in the order of names."""
    names = [node.name for node in nodes]
    random.Random(seed).shuffle(names)  # noqa: S311  # a simulation
    shuffled = (replace(node, name=name) for node, name in zip(nodes, names, strict=True))
    return sorted(shuffled, key=lambda node: node.name)


def fill(
    nodes: Sequence[NodeState],
    pods: Sequence[Request],
    policy: Policy,
    seed: int,
    progress: Callable[[float], None] = lambda _: None,
) -> FillResult:
    """Run the protocol once; `progress` receives the demand so far, relative to its target."""
    started = time.process_time()
    capacity = WHOLE * sum(len(node.devices) for node in nodes)
    cluster = EngineCluster(shuffle_names(nodes, seed), mix=typical_demand(pods))
    demand = allocated = refused = 0
    for number, pod in enumerate(inflate(pods, capacity, seed)):
        demand += compute_of(pod)
        placed = place(cluster, pod, policy, explain=False).placed
        allocated += placed * compute_of(pod)
        refused += not placed
        if demand >= DEMAND * capacity:
            break
        if number % 256 == 0:
            progress(demand / (DEMAND * capacity))
    return FillResult(seed, allocated / capacity, refused, time.process_time() - started)


def _node(path: str, number: int, row: Mapping[str, str]) -> NodeState:
    name = row["sn"].strip() or _complain(path, number, "sn", "is empty")
    count = _number(path, number, row, "gpu")
    if count > 1024:
        _complain(path, number, "gpu", f"{count} accelerators are more than a node has")
    device = DeviceState("", row["model"].strip())
    return NodeState(
        name,
        _number(path, number, row, "cpu_milli"),
        Bytes(_MEBI * _number(path, number, row, "memory_mib")),
        pods=1 << 30,
        devices=tuple(replace(device, id=f"gpu-{at}") for at in range(count)),
    )


def _pod(path: str, number: int, row: Mapping[str, str]) -> Request:
    count, milli = (_number(path, number, row, name) for name in ("num_gpu", "gpu_milli"))
    if milli > WHOLE or (count > 0) != (milli > 0):
        _complain(path, number, "gpu_milli", f"{milli} does not go with {pluralize(count, 'accelerator')}")
    spec = (row.get("gpu_spec") or "").strip()
    models = tuple(sorted({name.strip() for name in spec.split("|")} - {""}))
    return Request(
        row["name"].strip() or _complain(path, number, "name", "is empty"),
        cpu=_number(path, number, row, "cpu_milli"),
        memory=Bytes(_MEBI * _number(path, number, row, "memory_mib")),
        demand=Demand(count, compute=milli, models=models) if count else Demand(),
    )


def _number(path: str, number: int, row: Mapping[str, str], name: str) -> int:
    text = (row[name] or "").strip() or "0"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e12 or value != int(value):
        _complain(path, number, name, f"{text!r} is not a whole number from 0 on")
    return int(value)


def _complain(path: str, number: int, name: str, text: str) -> str:
    raise UserError(f"{path}, line {number}: {name}: {text}", "see: fairlead docs bench-openb")


def _rows(path: str, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    hint = "give a CSV file, plain or compressed with gzip"
    try:
        with Path(path).open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        opener = gzip.open if packed else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in names if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(f"{path}: has no column {', '.join(missing)}", hint)
            for number, row in enumerate(reader, start=2):
                if number > MOST_ROWS:
                    raise UserError(f"{path}: more than {MOST_ROWS} lines", "give a smaller list")
                if any(row[name] is None for name in names):
                    raise UserError(f"{path}, line {number}: the line ends too early", hint)
                yield number, row
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}", hint) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: is not a CSV file: {error}", hint) from error
