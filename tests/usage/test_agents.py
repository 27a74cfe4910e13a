"""Agents' own pages: read in parallel, parsed strictly; an agent that fails costs its own node only."""

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from fairlead.metrics import MetricFamily
from fairlead.usage.agents import AgentTarget
from fairlead.usage.index import DeviceIndex, KnownDevice
from fairlead.usage.page import read_page
from fairlead.usage.source import SourceName, UsageSettings, open_source
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport
from tests.cluster.loopback import serve_responses
from tests.usage.worlds import FOREIGN, GPU, NOW, OURS_BUSY, OURS_MEMORY, POD_MEMORY, sample

BUILD = MetricFamily("fairlead_build_info", "gauge", "The program.", ("version",), {("1",): 1.0})
POD_LABELS = ("namespace", "pod", "container", "pod_uid", "id", "node")


def page(*families: MetricFamily) -> bytes:
    return "".join(line for family in (*families, BUILD) for line in family.lines()).encode()


def device(name: str, value: float, identity: str = GPU.device) -> MetricFamily:
    labels = ("id", "model", "unified")
    return MetricFamily(name, "gauge", "A text.", labels, {(identity, 'T4 "x"\\,}', "false"): value})


def pods(**containers: float) -> MetricFamily:
    rows: dict[tuple[str, ...], float] = {
        ("shop", "web", name, "uid-web", GPU.device, "stated"): value for name, value in containers.items()
    }
    return MetricFamily(POD_MEMORY, "gauge", "A text.", POD_LABELS, rows)


PAGES: Mapping[str, bytes] = {
    "/good": page(device(OURS_MEMORY, 2**30), device(OURS_BUSY, 0.5), pods(a=1.0, b=2.0), device(FOREIGN, 7)),
    "/empty": page(),
    "/html": b"<html>Sign in</html>",
    "/broken": page() + f'{OURS_MEMORY}{{id="x" 1\n'.encode(),
}


def read(*paths: str, **more: float) -> UseReport:
    """Read one node for each path; the node has the path's name."""

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/hangs":
            await asyncio.sleep(30)
        body = PAGES.get(request.path)
        return web.Response(body=body) if body is not None else web.Response(status=403)

    async def run() -> UseReport:
        async with serve_responses(respond) as seen:
            targets = [AgentTarget(path.strip("/"), f"{seen.server}{path}") for path in paths]
            settings = UsageSettings(SourceName.AUTO, period=more.get("period", 15.0))
            async with open_source(settings, lambda: INDEX, lambda: targets) as source:
                assert await source.backfill(NOW, 600) == ()
                return await source.read(NOW)

    return asyncio.run(run())


INDEX = DeviceIndex(
    KnownDevice(DeviceKey(node, GPU.device))
    for node in ("good", "empty", "html", "broken", "forbidden", "hangs")
)
GOOD = DeviceKey("good", GPU.device)


def test_a_page_has_the_use_of_devices_and_pods() -> None:
    report = read("/good", "/empty")
    assert report.devices == {GOOD: sample(2**30, 0.5)}
    assert report.pods == {PodDeviceKey("uid-web", *GOOD): sample(3)}
    assert report.foreign == {GOOD: 7}
    assert (report.source, report.faults, report.detail) == ("agents", {}, "")


@pytest.mark.parametrize(
    ("path", "fault", "text"),
    [
        ("/html", UseFault.GARBAGE, "html: http://127.0.0.1:"),
        ("/broken", UseFault.GARBAGE, "has a line that cannot be read"),
        ("/forbidden", UseFault.UNREACHABLE, "answers 403"),
    ],
)
def test_an_agent_that_fails_costs_its_own_node_only(path: str, fault: UseFault, text: str) -> None:
    report = read("/good", path)
    assert list(report.devices) == [GOOD]
    assert report.faults == {fault: 1}
    assert report.detail.startswith("1 of 2 agents could not be read")
    assert text in report.detail


def test_an_agent_that_does_not_answer_ends_with_the_period() -> None:
    report = read("/good", "/hangs", period=1.0)
    assert list(report.devices) == [GOOD]
    assert report.faults == {UseFault.UNREACHABLE: 1}
    assert "hangs: not read within 1 s" in report.detail


def test_without_agents_the_report_says_so() -> None:
    report = read()
    assert report.faults == {UseFault.NO_SERIES: 1}
    assert "install the agents" in report.detail


LINES = [
    f"{OURS_MEMORY}1",
    f"{OURS_MEMORY} ",
    f"{OURS_MEMORY}{{id=x}} 1",
    f'{OURS_MEMORY}{{id="x"}}1',
    f'{OURS_MEMORY}{{id="x",id="y"}} 1',
    f'{OURS_MEMORY}{{id="x}} 1',
    f'{OURS_MEMORY}{{id="x"}} 1 2 3',
    f'{OURS_MEMORY}{{id="x"}} 1 now',
]


@pytest.mark.parametrize("line", LINES[1:])
def test_a_line_outside_the_format_makes_the_page_garbage(line: str) -> None:
    assert isinstance(read_page(page() + line.encode() + b"\n", "box"), str)


def test_lines_of_other_metrics_are_not_read() -> None:
    body = page(device(f"{OURS_MEMORY}_other", 1)) + LINES[0].encode() + b"\nother{{{ nonsense\n"
    assert read_page(body, "box") == []


def test_a_value_may_carry_a_time_and_labels_are_unescaped() -> None:
    line = rf'{OURS_MEMORY}{{id="a\"b\\c\n",}} 1.5e3 1700000000000'
    rows = read_page(page() + line.encode() + b"\n", "box")
    assert not isinstance(rows, str)
    ((_, labels, value),) = rows
    assert (labels.id, labels.node, value) == ('a"b\\c\n', "box", 1500.0)


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_bytes_make_the_parser_raise(body: bytes, rest: bytes) -> None:
    read_page(body, "box")
    for separator in (b"{", b" ", b'{id="'):
        read_page(page() + OURS_MEMORY.encode() + separator + rest, "box")
