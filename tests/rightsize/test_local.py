"""Advice for commands of one machine: a table of runs, and the size of the next."""

from math import exp, log

import pytest

from fairlead.history.learned import LearnedCommand, LearnedRun
from fairlead.rightsize.local import LocalRecommendation, local_report
from fairlead.units import Bytes, Seconds

GIB = 1 << 30
NOW = 1.7e9


def run(gpu: float = 0.0, ram: float = 1.0, ago: float = 60.0, **fields: object) -> LearnedRun:
    values: dict[str, object] = {
        "ended": NOW - ago,
        "seconds": Seconds(60.0),
        "done": True,
        "memory": Bytes(round(ram * GIB)),
        "gpu_memory": Bytes(round(gpu * GIB)),
        "gpus": 1 if gpu else 0,
        "gpu_total": Bytes(16 * GIB) if gpu else None,
    }
    return LearnedRun(**{**values, **fields})  # type: ignore[arg-type]


def rows(*runs: LearnedRun, key: str = "program-1", window: float | None = None) -> list[LocalRecommendation]:
    learned = LearnedCommand(key, "train.py", NOW, runs=runs)
    return list(local_report([learned], 0.01, NOW, window).recommendations)


def test_the_size_follows_from_the_peaks_of_runs() -> None:
    runs = [run(gpu=size, gpu_requested=Bytes(12 * GIB)) for size in (4.0, 4.0, 4.0)]
    gpu, ram = rows(*runs)
    assert (gpu.kind, gpu.name, gpu.resource, ram.resource) == ("Command", "train.py", "gpu-mem", "memory")
    risk_at_peak, scale = 1 / 4, 0.4 * GIB
    size = 4 * GIB + scale * log(risk_at_peak / 0.01)
    assert gpu.advice.size == pytest.approx(size, abs=1 << 20)
    assert gpu.advice.size is not None
    assert gpu.advice.risk == pytest.approx(risk_at_peak * exp((4 * GIB - gpu.advice.size) / scale))
    assert (gpu.advice.verdict, gpu.advice.reason) == ("over-provisioned", "peak 4.0 GiB in 3 runs")
    assert gpu.saving == 12 * GIB - gpu.advice.size


def test_runs_that_differ_need_more() -> None:
    alike, apart = (rows(run(gpu=low), run(gpu=low), run(gpu=4.0))[0].advice.size for low in (4.0, 1.0))
    assert alike is not None
    assert apart is not None
    assert apart > alike + 4 * GIB


@pytest.mark.parametrize(
    ("runs", "verdict", "reason"),
    [
        ([run(gpu=4.0)], "unknown", "too few runs: 1 instead of 2"),
        ([run(gpu=4.0), run(gpu=4.0, done=False)], "unknown", "too few runs: 1 instead of 2"),
        ([run(gpu=4.0)] * 2, "right", "no size is stated: the next run counts by what was learned"),
        ([run(gpu=4.0, gpu_requested=Bytes(2 * GIB))] * 2, "under-provisioned", "above the request"),
        (
            [run(gpu=4.0), run(gpu=4.0), run(gpu=3.9, gpu_requested=Bytes(4 * GIB), done=False, short=True)],
            "under-provisioned",
            "peak 4.0 GiB in 2 runs; 1 exit by a failed allocation",
        ),
        ([run(gpu=4.0, gpu_requested=Bytes(16 * GIB), whole=True)] * 2, "over-provisioned", "peak 4.0 GiB"),
        (
            [run(gpu=4.0, gpu_requested=Bytes(6 * GIB))] * 2,
            "right",
            "a smaller size would save less than 10%",
        ),
    ],
    ids=["one", "failed", "learned", "too small", "short", "whole", "right"],
)
def test_verdicts(runs: list[LearnedRun], verdict: str, reason: str) -> None:
    gpu, _ = rows(*runs)
    assert gpu.advice.verdict == verdict
    assert reason in gpu.advice.reason
    assert gpu.changes == (verdict in ("over-provisioned", "under-provisioned"))


def test_a_command_without_an_accelerator_has_one_row() -> None:
    (ram,) = rows(*[run(ram=2.0, memory_requested=Bytes(8 * GIB))] * 3)
    assert (ram.resource, ram.requested, ram.advice.verdict) == ("memory", 8 * GIB, "over-provisioned")


def test_old_runs_leave_the_window_and_exact_words_are_no_row() -> None:
    runs = (run(ram=9.0, ago=7200.0), run(ram=1.0), run(ram=1.0))
    assert rows(*runs)[0].peaks[-1] == 9 * GIB
    assert rows(*runs, window=3600.0)[0].peaks == (GIB, GIB)
    assert rows(*runs, window=1.0) == []
    assert rows(*runs, key="argv-1") == []
    assert rows(*runs, key="model-1")[0].kind == "Model"
