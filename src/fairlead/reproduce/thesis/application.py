"""The thesis's application as the text of a pipeline: which stage is where, and in which process. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

EDGE, LOCAL = "edge", "local"
"""The coordinator is on the server, so that the edge has nothing but its stages to do."""
STAGES: Final = ("grey", "convolve", "relu", "pool")
"""The four microservices; the first is the thesis's master."""
MARK: Final = "mark"
FREE: Final = (*STAGES, MARK)
"""The stages that can be on either host."""
_ALL: Final = ("camera", *FREE, "log")
_TARGETS: Final = {"grey": "Grey", "convolve": "Convolve", "relu": "Relu", "pool": "Pool", MARK: "mark"}
OUTPUT: Final = "out.jsonl"
CUTS: Final = ("SSSS", "ESSS", "EESS", "EEES", "EEEE")
"""As the thesis names them: E on the edge, S on the server."""


@dataclass(frozen=True, slots=True)
class ThesisWorkload:
    """What is computed for each frame."""

    kernel: str
    height: int = 720
    width: int = 1280

    @property
    def size(self) -> str:
        """Width and height as people write them."""
        return f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class StageArrangement:
    """Where the stages are."""

    on: Mapping[str, str] = field(default_factory=dict)
    """By stage: its host; a stage that is missing is on no host by itself, and free for a plan."""
    split: Collection[str] = ()
    """Stages that begin a process of their own on the machine of the stage before."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    address: str = ""
    """Of the edge; empty: there is one machine."""


def cut(letters: str, address: str) -> StageArrangement:
    """Return the arrangement of a cut; with four letters the results stay at the last stage's host."""
    padded = letters + letters[-1] * (len(FREE) - len(letters))
    places = {name: EDGE if letter == "E" else LOCAL for name, letter in zip(FREE, padded, strict=True)}
    return StageArrangement(places, address=address)


def all_cuts() -> list[str]:
    """Return every cut of all stages that can be on either host, a letter for each."""
    return ["E" * kept + "S" * (len(FREE) - kept) for kept in range(len(FREE) + 1)]


def letters_of(assignment: Mapping[str, str]) -> str:
    """Return the letters of an assignment of hosts to stages."""
    return "".join("E" if assignment[name] == EDGE else "S" for name in FREE)


def stage_splits(processes: int) -> tuple[str, ...]:
    """Return the stages that begin a process if the four stages have so many processes."""
    return {1: (), 2: ("relu",), 3: ("convolve", "relu"), 4: ("convolve", "relu", "pool")}[processes]


def pipeline_text(
    workload: ThesisWorkload, arrangement: StageArrangement, frames: int, rate: float = 0.0
) -> str:
    """Return the pipeline; with a rate it is paced, else as fast as it goes."""
    return "\n".join([*_head(workload, arrangement), *_stages(workload, arrangement, frames, rate), ""])


def _head(workload: ThesisWorkload, arrangement: StageArrangement) -> Iterator[str]:
    yield f"pipeline: thesis-{workload.kernel}"
    if arrangement.address:
        yield "hosts:"
        yield f'  {EDGE}: {{address: "{arrangement.address}"}}'
    yield "stages:"


def _stages(
    workload: ThesisWorkload, arrangement: StageArrangement, frames: int, rate: float
) -> Iterator[str]:
    pace = f", rate: {rate:g}" if rate else ""
    size = f"count: {frames}, height: {workload.height}, width: {workload.width}"
    source = f'function: "{workload.kernel}.py:frames", arguments: {{{size}}}{pace}'
    at_edge = f", on: {EDGE}" if arrangement.address else ""
    yield f"  - {{name: camera, source: generator, options: {{{source}}}{at_edge}}}"
    yield from stage_lines(workload, arrangement)
    yield f"  - {{name: log, sink: jsonl, options: {{path: {OUTPUT}}}}}"
    yield from edge_lines(arrangement.split)


def stage_lines(workload: ThesisWorkload, arrangement: StageArrangement) -> Iterator[str]:
    """Yield the entries of the stages between source and sink."""
    for name in FREE:
        keys = [f'name: {name}, run: "{workload.kernel}.py:{_TARGETS[name]}"']
        if name in arrangement.on:
            keys.append(f"on: {arrangement.on[name]}")
        if name in arrangement.replicas:
            keys.append(f"replicas: {arrangement.replicas[name]}")
        yield f"  - {{{', '.join(keys)}}}"


def edge_lines(split: Collection[str] = ()) -> Iterator[str]:
    """Yield the edges of the chain."""
    yield "edges:"
    for one, two in pairwise(_ALL):
        queue = ", max_age: 1h" if two in split else ""
        yield f"  - {{from: {one}, to: {two}, depth: 2{queue}}}"


def bytes_out(workload: ThesisWorkload) -> dict[str, int]:
    """Return the bytes of the array that each stage makes."""
    height, width = workload.height, workload.width
    inner = (height - 2) * (width - 2) * 4
    pooled = ((height - 2) // 2) * ((width - 2) // 2) * 4
    return {
        "camera": 3 * height * width,
        "grey": height * width,
        "convolve": inner,
        "relu": inner,
        "pool": pooled,
    }


def crossing_bytes(letters: str, workload: ThesisWorkload) -> int:
    """Return the bytes that cross the link for each frame in a cut of four letters."""
    sent: Sequence[str] = ("camera", *STAGES)
    kept = letters.count("E")
    return bytes_out(workload)[sent[kept]] if kept < len(STAGES) else 0
