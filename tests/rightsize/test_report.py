"""Reports: statistics by hand, savings, and what counts as current."""

from dataclasses import replace

import pytest

from fairlead.rightsize.recommend import Verdict
from fairlead.rightsize.report import AdviceOptions, report
from fairlead.rightsize.tail import DAY
from fairlead.rightsize.workload import PodSeries, RequestForm, SizedContainer, SizeField, WorkloadKey
from fairlead.series import Series
from fairlead.units import Bytes

GIB = 1 << 30
WEB = WorkloadKey("shop", "Deployment", "web")
OPTIONS = AdviceOptions(DAY)


def sized(pods: int = 4, requested: int | None = 8, memory: int = 16, **more: int | str) -> SizedContainer:
    return SizedContainer(
        WEB,
        "main",
        SizeField(RequestForm.RESOURCE, "fairlead.dev/gpu-mem", str((requested or 0) * 1024)),
        None if requested is None else Bytes(requested * GIB),
        tuple(f"web-{number}" for number in range(pods)),
        device_memory=Bytes(memory * GIB),
        **more,  # type: ignore[arg-type]
    )


def used(pod: str, *gibs: float, start: float = 0.0, end: float = DAY) -> PodSeries:
    times = tuple(start + at * (end - start) / (len(gibs) - 1) for at in range(len(gibs)))
    memory = Series(times, tuple(gib * GIB for gib in gibs))
    return PodSeries("shop", pod, "main", memory=memory, busy=Series(times, (0.25,) * len(gibs)))


def test_the_figures_of_a_container() -> None:
    values = [*range(1, 101)]
    (row,) = report([sized()], [used("web-0", *(value / 100 for value in values))], OPTIONS).recommendations
    assert (row.samples, row.peak, row.p99) == (100, GIB, round(0.99 * GIB))
    assert row.mean == round(0.505 * GIB)
    assert row.busy == 0.25


def test_the_saving_is_packed_and_summed_over_pods_and_accelerators() -> None:
    # 4 pods of 1 GiB for a day: 1/5 at the peak; 1 + 0.1 * ln(20) = 1.2996 GiB, 1331 MiB.
    series = [used(f"web-{number}", *[1.0] * 50) for number in range(4)]
    found = report([sized()], series, OPTIONS)
    (row,) = found.recommendations
    assert (row.advice.verdict, row.advice.size) == (Verdict.OVER, 1331 << 20)
    assert row.saving == 4 * (8 * GIB - (1331 << 20))
    assert row.saved_accelerators == pytest.approx(row.saving / (16 * GIB))
    document = found.to_json()
    assert document["saving"] == {
        "bytes": row.saving,
        "accelerators_requested": 2,
        "accelerators_recommended": 1,
        "accelerators": 1,
        "packing": "best fit decreasing, by memory alone",
    }
    both = replace(sized(), accelerators=2)
    assert report([both], series, OPTIONS).to_json()["saving"]["accelerators_requested"] == 4


def test_samples_before_the_window_do_not_count() -> None:
    long_ago = used("web-0", *[7.0] * 200, end=DAY / 2)
    recent = used("web-1", *[1.0] * 200, start=DAY / 2)
    (row,) = report([sized()], [long_ago, recent], replace(OPTIONS, window=DAY / 4)).recommendations
    assert row.peak == GIB


def test_the_pods_of_a_job_may_have_ended() -> None:
    ended = used("web-0", *[1.0] * 200, end=DAY / 2)
    for kind, verdict in (("Deployment", Verdict.UNKNOWN), ("Job", Verdict.OVER), ("CronJob", Verdict.OVER)):
        container = replace(sized(), workload=WEB._replace(kind=kind))
        (row,) = report([container], [ended], OPTIONS).recommendations
        assert row.advice.verdict is verdict


def test_a_request_that_is_not_known_has_no_verdict_and_no_saving() -> None:
    unknown = replace(sized(requested=None), note="its size is not known")
    found = report([unknown], [used("web-0", *[1.0] * 200)], OPTIONS)
    (row,) = found.recommendations
    assert (row.advice.verdict, row.advice.reason) == (Verdict.UNKNOWN, "its size is not known")
    assert (row.saving, found.accelerators(advised=True), found.changes) == (0, None, ())


def test_more_memory_is_a_negative_saving() -> None:
    found = report([sized(pods=1, requested=1)], [used("web-0", *[2.0] * 200)], OPTIONS)
    (row,) = found.recommendations
    assert row.advice.verdict is Verdict.UNDER
    assert row.saving == GIB - (row.advice.size or 0) < 0
