"""The check of measured use: without a Prometheus, with a good one, and with each thing that can lack."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from fairlead.doctor.examine import examine
from fairlead.doctor.finding import Finding, Severity
from fairlead.doctor.telemetry import device_index, with_telemetry
from fairlead.doctor.view import ClusterView
from fairlead.usage.source import SourceName, UsageSettings
from fairlead.use import DeviceKey
from tests.cluster.loopback import serve_responses
from tests.doctor.worlds import GPU, NOW, device_slice, healthy, labelled, pod
from tests.usage.test_prometheus import Series
from tests.usage.worlds import OLD_MEMORY, OURS_MEMORY, POD_MEMORY

AT = NOW.timestamp()
DEVICES = [({"id": GPU, "instance": at}, [(AT - 5, "1048576")]) for at in ("box", "other")]
PODS = [({"id": GPU, "instance": "box", "pod_uid": "small"}, [(AT - 5, "7")])]
GOOD = {OURS_MEMORY: DEVICES, POD_MEMORY: PODS}


def findings(series: Mapping[str, Any] | None, view: ClusterView | None = None) -> list[Finding]:
    """Return the findings of the check; None: the server answers with an HTML page."""
    server = Series(series or {}, AT)

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if series is None:
            return web.Response(text="<html>", content_type="text/html")
        form = await request.post()
        return web.Response(body=server(str(form["query"])))

    async def run() -> ClusterView:
        async with serve_responses(respond) as seen:
            settings = UsageSettings(SourceName.PROMETHEUS, seen.server)
            return await with_telemetry(view or healthy(), settings, AT)

    return [each for each in examine(asyncio.run(run())) if each.check == "telemetry"]


def test_without_a_prometheus_nothing_is_checked() -> None:
    (found,) = [each for each in examine(healthy()) if each.check == "telemetry"]
    assert (found.verdict, found.text[:11]) == (Severity.OK, "not checked")


def test_a_complete_reading_is_well() -> None:
    (found,) = findings(GOOD)
    assert found.verdict is Severity.OK
    assert found.text.endswith(" has the use of 2 accelerators and 1 pod, by the names of fairlead")


CASES: dict[str, tuple[Mapping[str, Any] | None, Severity, str]] = {
    "a login page": (None, Severity.FAIL, "with an HTML page"),
    "no series": ({}, Severity.FAIL, "has no series of"),
    "a lag": (
        {OURS_MEMORY: [(labels, [(AT - 200, "1")]) for labels, _ in DEVICES]},
        Severity.FAIL,
        "is 200 s old",
    ),
    "a node that is not scraped": (
        {**GOOD, OURS_MEMORY: DEVICES[:1]},
        Severity.WARN,
        "no use of 1 accelerator of 2",
    ),
    "a device that is not ours": (
        {**GOOD, OURS_MEMORY: [*DEVICES, ({"id": "x", "instance": "y"}, [(AT, "1")])]},
        Severity.WARN,
        "1 series of no known accelerator (node 'y', device 'x')",
    ),
    "no attribution": ({OURS_MEMORY: DEVICES}, Severity.WARN, "has the use of no pod"),
    "a value that is missing": (
        {**GOOD, POD_MEMORY: [*PODS, ({"id": GPU, "instance": "box", "pod_uid": "x"}, [(AT - 5, "NaN")])]},
        Severity.WARN,
        "1 x not-a-number",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_lacks_is_said_with_what_to_do(case: str) -> None:
    series, verdict, text = CASES[case]
    (found,) = findings(series)
    assert (found.verdict, bool(found.todo)) == (verdict, True)
    assert text in found.text


def test_a_prometheus_with_dcgm_exporter_is_matched_by_uuid_and_by_address() -> None:
    attributes = {"uuid": {"string": "GPU-1"}}
    slices = (device_slice(device={"attributes": attributes}), device_slice("other"))
    exporter = pod("exporter", "other", status={"podIP": "10.1.2.3"})
    view = healthy(slices=slices, pods=(*healthy().pods, exporter))
    labels = [
        {"UUID": "GPU-1", "exported_namespace": "default", "exported_pod": "small"},
        {"pci_bus_id": "00000000:3B:00.0", "instance": "10.1.2.3:9400"},
    ]
    (found,) = findings({OLD_MEMORY: [(each, [(AT - 1, "5")]) for each in labels]}, view)
    assert found.text.endswith("2 accelerators and 1 pod, by the names of dcgm-exporter")


def test_the_agents_list_names_devices_that_slices_leave_out() -> None:
    view = healthy(nodes=(labelled(listed=[GPU, "pci-0000-86-00-0"]),), slices=(device_slice(),))
    index = device_index(view)
    assert len(index) == 2
    assert index.device("box", "pci-0000-86-00-0") == DeviceKey("box", "pci-0000-86-00-0")
    assert {index.memory(DeviceKey("box", each)) for each in (GPU, "pci-0000-86-00-0")} == {4096 << 20}
