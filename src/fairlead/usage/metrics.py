"""The state of measured use as rows of metric families; the program that serves them makes the page. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fairlead.series import Staleness
from fairlead.usage.status import UseStatus
from fairlead.use import UseFault


class UsageFamily(NamedTuple):
    """The fields of a `fairlead.metrics.MetricFamily`, in its order; that room is on the same floor."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]
    series: Mapping[tuple[str, ...], float]


def families(status: UseStatus) -> Iterator[UsageFamily]:
    """Yield the families of the state; every state and fault has a series, so that alerts can rate them."""
    yield UsageFamily(
        "fairlead_usage_staleness",
        "gauge",
        "1 for the state that measured use is in: fresh, stale or missing.",
        ("state",),
        {(state.value,): float(status.staleness is state) for state in Staleness},
    )
    if status.age is not None:
        text = "Seconds since the newest sample of measured use."
        yield UsageFamily("fairlead_usage_age_seconds", "gauge", text, (), {(): status.age})
    yield UsageFamily(
        "fairlead_usage_series",
        "gauge",
        "Devices, and pods on devices, with measured use within the window.",
        ("kind", "state"),
        {
            ("device", Staleness.FRESH.value): float(status.devices_fresh),
            ("device", Staleness.STALE.value): float(status.devices_stale),
            ("pod", Staleness.FRESH.value): float(status.pods_fresh),
            ("pod", Staleness.STALE.value): float(status.pods_stale),
        },
    )
    yield UsageFamily(
        "fairlead_usage_faults_total",
        "counter",
        "Measurements that count as missing, by the fault.",
        ("fault",),
        {(fault.value,): float(status.faults.get(fault, 0)) for fault in UseFault},
    )
