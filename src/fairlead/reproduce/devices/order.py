"""Predict every network on every device, and compare the order with the published one."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead.analyze import analyze
from fairlead.catalog import Catalog
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import targets
from fairlead.prediction import Estimate, sort_key
from fairlead.reproduce.devices.published import BOARDS, LATENCIES, NETWORKS, ORDERS, PublishedOrder
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write

PRECISION: Final = "fp16"
"""Of the files: a Jetson computes in it, and an Edge TPU in int8 whatever the file has."""


def order_devices(
    catalog: Catalog, networks: Sequence[str] = NETWORKS, devices: Sequence[str] = BOARDS
) -> dict[str, Any]:
    """Return the contract of `fairlead reproduce devices -o json`."""
    tables = {name: list(_rows(name, predicted(name, devices, catalog))) for name in networks}
    rows = [{"network": name, "devices": table} for name, table in tables.items()]
    known = {name: [str(each["device"]) for each in table] for name, table in tables.items()}
    return {"precision": PRECISION, "networks": rows, "statements": list(compare(ORDERS, known))}


def predicted(network: str, devices: Iterable[str], catalog: Catalog) -> list[Estimate]:
    """Return the estimates of a network of the zoo, the quickest first."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{network}.onnx")
        write(KNOWN[network](1, PRECISION), path)
        query = Query.of(analyze(path))
    return sorted(estimate(query, targets(devices, catalog), Knowledge.of((), catalog)), key=sort_key)


def compare(orders: Iterable[PublishedOrder], predicted_orders: Mapping[str, Sequence[str]]) -> Iterator[Any]:
    """Yield each statement, and whether the predicted order has it so too."""
    for order in orders:
        ours = predicted_orders.get(order.network, ())
        if {order.first, *order.others} <= set(ours):
            agrees = all(ours.index(order.first) < ours.index(other) for other in order.others)
            yield {"statement": order.words, "agrees": agrees}


def _rows(network: str, estimates: Iterable[Estimate]) -> Iterator[dict[str, Any]]:
    published = LATENCIES.get(network, {})
    for each in estimates:
        known = published.get(each.device)
        yield {
            "device": each.device,
            "precision": each.precision,
            "seconds": each.seconds,
            "p90_seconds": each.p90,
            "confidence": each.confidence,
            "published_seconds": known.milliseconds / 1e3 if known else None,
            "published_by": known.source if known else None,
        }
