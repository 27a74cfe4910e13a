"""The answers of the dashboard's API, version 1: rows of tables, and answers about one object.

Times are seconds since the epoch by the server's clock, amounts of memory are bytes, shares are between 0 and
1; an unknown value is null, never 0. `docs/reference/dashboard-api.md` and the OpenAPI document are made from
these.
"""

from typing import Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from fairlead.dashboard.row_types import ApiAnswer, Row

API_VERSION: Final = 1


R = TypeVar("R", bound=Row)


class TableStale(ApiAnswer, frozen=True, kw_only=True):
    """Since when a table is out of date, and why."""

    since: float
    reason: str


class TablePage(Struct, Generic[R], frozen=True, kw_only=True):
    """Rows of a table, in the order of their keys."""

    table: str
    revision: int
    total: int
    next: str | None
    """Ask for the rows after this key; null on the last page."""
    rows: list[R]
    command: str
    """The command that gives the same answer."""
    stale: TableStale | None


class SourceInfo(ApiAnswer, frozen=True, kw_only=True):
    """Where the tables come from."""

    kind: Literal["cluster", "machine", "snapshot"]
    name: str
    taken: float | None = None
    """Of a snapshot."""


class ViewerInfo(ApiAnswer, frozen=True, kw_only=True):
    """Who is asking, and what they may see and do."""

    name: str
    namespaces: tuple[str, ...]
    """`*`: all."""
    actions: tuple[str, ...]


class TableInfo(ApiAnswer, frozen=True, kw_only=True):
    """The size of a table, and the command that gives the same answer."""

    rows: int
    command: str


class StaleSource(ApiAnswer, frozen=True, kw_only=True):
    """A source that does not answer, since when, and why; `since` is null once it answers again."""

    source: str
    since: float | None
    reason: str = ""


class About(ApiAnswer, frozen=True, kw_only=True):
    """The program, its source and the viewer."""

    version: str
    api: int = API_VERSION
    source: SourceInfo
    viewer: ViewerInfo
    tables: dict[str, TableInfo]
    stale: tuple[StaleSource, ...]
    now: float


class WhyReason(ApiAnswer, frozen=True, kw_only=True):
    """One reason, and how many accelerators or nodes it rules out."""

    count: int
    of: int
    text: str
    filter: str = ""
    example: str | None = None


class WhyChange(ApiAnswer, frozen=True, kw_only=True):
    """A change that would let the workload fit."""

    text: str
    smallest: bool = False


class WhyAnswer(ApiAnswer, frozen=True, kw_only=True):
    """Why a workload is where it is, or why it waits."""

    key: str
    fits: bool
    state: str
    summary: str
    reasons: tuple[WhyReason, ...] = ()
    changes: tuple[WhyChange, ...] = ()
    notes: tuple[str, ...] = ()
    decided: float
    source: str
    command: str


class Prediction(ApiAnswer, frozen=True, kw_only=True):
    """What is predicted of a model on one device."""

    key: str
    name: str
    runtime: str = ""
    precision: str = ""
    seconds: float | None = None
    low_seconds: float | None = None
    p90_seconds: float | None = None
    memory_bytes: int | None = None
    energy_joules: float | None = None
    confidence: Literal["high", "medium", "low", "unknown"] = "unknown"
    why: str = ""
    fits: bool = False


class ModelDevices(ApiAnswer, frozen=True, kw_only=True):
    """A model's predicted latency on every device."""

    model: str
    rows: tuple[Prediction, ...]
    command: str


class PipelineStage(ApiAnswer, frozen=True, kw_only=True):
    """A stage of a pipeline."""

    name: str
    host: str = ""
    replicas: int = 1
    rate: float | None = None
    busy: float | None = None
    queue: int | None = None
    dropped: int | None = None
    bottleneck: bool = False


class PipelineLink(ApiAnswer, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """Frames from one stage to another; `cut`: they cross the network."""

    source: str
    target: str
    cut: bool = False
    bytes_per_second: float | None = None
    dropped: int | None = None


class FrameRef(ApiAnswer, frozen=True, kw_only=True):
    """A traced frame."""

    id: str


class PipelineAnswer(ApiAnswer, frozen=True, kw_only=True):
    """A pipeline: its graph, cuts, rates and reasons."""

    key: str
    stages: tuple[PipelineStage, ...]
    links: tuple[PipelineLink, ...]
    reasons: tuple[str, ...] = ()
    frames: tuple[FrameRef, ...] = ()
    command: str


class FrameSpan(ApiAnswer, frozen=True, kw_only=True):
    """What a frame spent in one place."""

    stage: str
    host: str
    start: float
    seconds: float
    what: str


class FrameAnswer(ApiAnswer, frozen=True, kw_only=True):
    """The trace of one frame."""

    id: str
    spans: tuple[FrameSpan, ...]


class DeviceSeries(ApiAnswer, frozen=True, kw_only=True):
    """Measured values of an accelerator in time."""

    key: str
    times: list[float]
    utilisation: list[float | None]
    memory_used_bytes: list[float | None]
    power_watts: list[float | None]
    temperature_celsius: list[float | None]
    command: str


class SimulationSeries(ApiAnswer, frozen=True, kw_only=True):
    """One series of a simulated run."""

    name: str
    unit: str
    values: list[float | None]


class SimulationAnswer(ApiAnswer, frozen=True, kw_only=True):
    """A simulated run in time."""

    key: str
    times: list[float]
    series: tuple[SimulationSeries, ...]
    command: str


class CancelAction(ApiAnswer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cancel a workload."""

    workload: str


class RightsizeAction(ApiAnswer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Carry out a proposal."""

    proposal: str


class DrainAction(ApiAnswer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drain a node."""

    node: str


ACTIONS: Final[dict[str, type[ApiAnswer]]] = {
    "cancel": CancelAction,
    "rightsize": RightsizeAction,
    "drain": DrainAction,
}
"""Each action, and the type of its body."""


class Done(ApiAnswer, frozen=True, kw_only=True):
    """What an action did."""

    done: str


class ErrorDetail(ApiAnswer, frozen=True, kw_only=True):
    """What is wrong, where, and what to do next."""

    what: str
    where: str
    next: str


class ErrorAnswer(ApiAnswer, frozen=True, kw_only=True):
    """The body of every answer that is not 200."""

    error: ErrorDetail


class TableEvent(Struct, Generic[R], frozen=True, kw_only=True):
    """The data of an event `change`: rows that were added or changed, and keys of rows that are gone."""

    table: str
    revision: int
    put: list[R]
    drop: list[str]
    total: int


class StreamHello(ApiAnswer, frozen=True, kw_only=True):
    """The data of the first event of a stream."""

    revision: int
    now: float


class TableReset(ApiAnswer, frozen=True, kw_only=True):
    """The data of an event `reset`: read the table again."""

    table: str


encode: Final = msgspec.json.Encoder().encode
