"""Profiles that tests share, and their kind on a real API server."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairlead.calibration import (
    Calibration,
    Features,
    Latency,
    MeasuredRun,
    ObservedUse,
    OperatorWork,
    Setup,
    Trial,
)
from fairlead.keys import DEVICE
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.units import Bytes, Seconds, Watts
from tests import kinds
from tests.labs import RealApi, RealCluster

SETUP = Setup("l4", "onnxruntime-cuda", "1.2", "fp16", 0, 121e12, 16e9, Watts(72.0))
MADE = "2026-11-16T04:00:00+00:00"
MEASURED = MeasuredRun(
    Seconds(0.0101), Seconds(0.02), 9, Seconds(0.03), 0.5, Bytes(100), Bytes(10), Watts(20.5), made=MADE
)
LATENCY = Latency(Seconds(0.011), Seconds(0.017), 40, 1.25)
HOST = "a host"


def features(letter: str) -> Features:
    """Return the features of a model whose digest repeats a hexadecimal digit."""
    work = {"conv": OperatorWork(2, 10, 20, 15, 30, 40), "other": OperatorWork(1)}
    return Features(letter * 40, 1, 3, Bytes(50), work, Bytes(7), Bytes(8))


def calibration(device: str = "l4", **changes: Any) -> Calibration:
    """Return a calibration of two models, of which one did not run."""
    trials = (
        Trial("plain", features("a"), MEASURED),
        Trial("points", features("b"), None, "it crashed"),
    )
    return replace(Calibration(replace(SETUP, device=device), HOST, MADE, trials), **changes)


def observed(device: str = "l4", **changes: Any) -> ObservedUse:
    """Return what was observed of a third model on the same setup."""
    use = ObservedUse(
        setup=replace(SETUP, device=device),
        host=HOST,
        digest="c" * 40,
        model="detector.onnx",
        made=MADE,
        image="registry.example.org/detector@sha256:0",
        peak_bytes=Bytes(2_000),
        latency=LATENCY,
        watts=Watts(30.0),
        ramp=Seconds(4.5),
    )
    return replace(use, **changes)


def definition() -> dict[str, Any]:
    """Return the definition of the kind that is shipped for `kubectl apply`."""
    return kinds.definition("modelprofiles.yaml")


def define(api: RealApi) -> None:
    """Install the kind on a real API server; all tests of a run share it."""
    kinds.define_kind(api, "modelprofiles.yaml", MODEL_PROFILES)


def serving_profiles(cluster: RealCluster) -> Iterator[RealCluster]:
    """Yield a cluster that serves the kind; then delete the profiles of devices named after its namespace."""
    define(cluster.api)
    yield cluster
    asyncio.run(drop(cluster, f"{DEVICE}={cluster.namespace}"))


async def drop(cluster: RealCluster, labels: str) -> None:
    """Delete the profiles that have these labels."""
    async with cluster.connect() as client:
        await client.delete_collection(MODEL_PROFILES, labels=labels)
