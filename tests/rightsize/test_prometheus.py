"""Series of pods from a Prometheus on loopback: ours and dcgm-exporter's, and what is wrong with others."""

import asyncio
import json
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from fairlead.cluster.http.fetch import FetchAccess, Fetcher
from fairlead.rightsize.prometheus import PodHistoryReader, steps_query
from fairlead.rightsize.workload import PodSeries
from fairlead.usage.dialects import DialectMetric, UseQuantity, UseScope
from fairlead.usage.prometheus import QueryFault
from fairlead.use import UseFault
from tests.cluster.loopback import serve_responses

OURS, OURS_BUSY = "fairlead_pod_accelerator_memory_used_bytes", "fairlead_pod_accelerator_busy_ratio"
DCGM = "DCGM_FI_DEV_FB_USED"
Rows = list[tuple[dict[str, str], list[tuple[float, str]]]]


def labels(pod: str, **more: str) -> dict[str, str]:
    return {
        "node": "box",
        "id": "pci-0000-3b-00-0",
        "namespace": "shop",
        "pod": pod,
        "container": "main",
        **more,
    }


def dcgm(pod: str, uuid: str = "GPU-1") -> dict[str, str]:
    exporter = {"namespace": "monitoring", "pod": "dcgm-exporter-x7k2p", "container": "exporter"}
    named = {"exported_namespace": "shop", "exported_pod": pod, "exported_container": "main"}
    return {"Hostname": "box", "UUID": uuid, "gpu": "0", **exporter, **named}


def ask(answers: dict[str, Rows], status: int = 200) -> "list[PodSeries] | QueryFault":
    """Return what a reader makes of the answers, by the metric that a query names."""

    async def handler(request: web.BaseRequest) -> web.Response:
        expression = parse_qs((await request.read()).decode())["query"][0]
        name = expression.partition("_over_time(")[2].partition("[")[0]
        result = [{"metric": each, "values": points} for each, points in answers.get(name, [])]
        data = {"resultType": "matrix", "result": result}
        return web.Response(text=json.dumps({"status": "success", "data": data}), status=status)

    async def run() -> "list[PodSeries] | QueryFault":
        async with serve_responses(handler) as seen, Fetcher.open(FetchAccess()) as fetcher:
            return await PodHistoryReader(fetcher, seen.server).pod_series(86400.0)

    return asyncio.run(run())


def test_steps_have_the_peak_of_memory_and_the_mean_of_busy_time() -> None:
    memory = DialectMetric("x", UseScope.POD, UseQuantity.MEMORY)
    busy = DialectMetric("y", UseScope.HOLDER, UseQuantity.BUSY, 0.01)
    assert steps_query(memory, 86400.0) == "(max_over_time(x[180s]))[86400s:180s]"
    assert steps_query(busy, 60.0) == "(avg_over_time(y[15s]) * 0.01)[60s:15s]"


def test_our_own_series_name_pod_and_container() -> None:
    (one,) = [
        ask(
            {
                OURS: [(labels("web-0", pod_uid="u"), [(1.0, "7"), (2.0, "NaN"), (3.0, "-1"), (4.0, "9")])],
                OURS_BUSY: [(labels("web-0", pod_uid="u"), [(1.0, "0.5"), (2.0, "7")])],
            }
        )
    ]
    assert isinstance(one, list)
    (series,) = one
    assert (series.namespace, series.pod, series.container, series.id) == ("shop", "web-0", "main", "u")
    assert series.device == "box/pci-0000-3b-00-0"
    assert (series.memory.times, series.memory.values) == ((1.0, 4.0), (7.0, 9.0))
    assert series.busy.values == (0.5,)


def test_the_memory_of_a_device_is_that_of_its_only_pod() -> None:
    rows: Rows = [
        (dcgm("first"), [(1.0, "1"), (2.0, "1")]),
        (dcgm("second"), [(3.0, "2"), (4.0, "2")]),
        (dcgm("a", "GPU-2"), [(1.0, "3"), (3.0, "3")]),
        (dcgm("b", "GPU-2"), [(2.0, "3"), (4.0, "3")]),
    ]
    found = ask({DCGM: rows})
    assert isinstance(found, list)
    assert [(each.namespace, each.pod, each.container) for each in found] == [
        ("shop", "first", "main"),
        ("shop", "second", "main"),
    ]


def test_our_devices_without_pods_leave_dcgm_to_name_them() -> None:
    found = ask({OURS: [], DCGM: [(dcgm("web-0"), [(1.0, "5")])]})
    assert isinstance(found, list)
    assert [each.pod for each in found] == ["web-0"]


@pytest.mark.parametrize(
    ("answers", "status", "fault"),
    [
        ({}, 200, UseFault.NO_SERIES),
        ({OURS: []}, 503, UseFault.UNREACHABLE),
        ({OURS: []}, 404, UseFault.GARBAGE),
    ],
)
def test_a_prometheus_without_an_answer_says_why(
    answers: dict[str, Rows], status: int, fault: UseFault
) -> None:
    found = ask(answers, status)
    assert isinstance(found, QueryFault)
    assert found.fault is fault
    assert found.detail
