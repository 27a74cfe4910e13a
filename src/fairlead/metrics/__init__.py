"""Metrics in Prometheus' text format.

exposition.py  families of series, histograms, and how they are written
snapshot.py    the values of an agent's page
page.py        the page: accelerators, samples, the agent itself
dcgm_names.py  GPUs under the names of NVIDIA's dcgm-exporter
holdings.py    what containers and claims hold, and what pods use
"""

from fairlead.metrics.exposition import BOUNDS, CONTENT_TYPE, Histogram, MetricFamily
from fairlead.metrics.page import render
from fairlead.metrics.snapshot import MetricsSnapshot, PublishStatus

__all__ = [
    "BOUNDS",
    "CONTENT_TYPE",
    "Histogram",
    "MetricFamily",
    "MetricsSnapshot",
    "PublishStatus",
    "render",
]
