"""The answers of Prometheus' HTTP API, decoded into the labels and points that are used."""

from typing import Final

from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder

MAX_SERIES: Final = 200_000
"""Series of one answer."""


class SeriesLabels(Struct, frozen=True, gc=False):
    """The labels of a series that say which accelerator and pod it is about; absent ones are empty."""

    id: str = ""
    uuid: str = field(default="", name="UUID")
    pci: str = field(default="", name="pci_bus_id")
    gpu: str = ""
    instance_id: str = field(default="", name="GPU_I_ID")
    """The number of a MIG instance."""
    node: str = ""
    exported_node: str = ""
    kubernetes_node: str = ""
    old_hostname: str = field(default="", name="Hostname")
    hostname: str = ""
    instance: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    pod_uid: str = ""
    exported_namespace: str = ""
    exported_pod: str = ""
    exported_container: str = ""


Point = tuple[float, str]
"""Seconds since the epoch, and the value as a text."""


class RawSeries(Struct, frozen=True, gc=False):
    """One series of an answer: points of a matrix, or the point of a vector."""

    metric: SeriesLabels = SeriesLabels()
    values: list[Point] = []
    value: Point | None = None


class _Data(Struct, frozen=True):
    result_type: str = field(name="resultType")
    result: list[RawSeries]


class _Answer(Struct, frozen=True):
    status: str
    data: _Data | None = None
    error: str = ""


_DECODER: Final = Decoder(_Answer)


def decode(body: bytes) -> list[RawSeries] | str:
    """Return the series of an answer, or what is wrong with it."""
    try:
        answer = _DECODER.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"the answer is not of Prometheus' HTTP API: {error}"
    if answer.status != "success" or answer.data is None:
        return f"the query failed: {answer.error[:200] or 'no reason given'}"
    if answer.data.result_type not in ("matrix", "vector"):
        return f"the answer is a {answer.data.result_type[:40]!r}, not a vector or matrix"
    return answer.data.result


def to_number(text: str) -> float:
    """Return the value of a point; NaN where it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
