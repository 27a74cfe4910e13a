"""Prometheus' answers, good and hostile: each becomes samples, or a report with the fault and what to do."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.http.fetch import FetchAccess, Fetcher
from fairlead.errors import SettingsError
from fairlead.series import Staleness
from fairlead.usage.answer import RawSeries, decode
from fairlead.usage.dialects import DIALECTS
from fairlead.usage.history import UseHistory
from fairlead.usage.prometheus import PrometheusSource
from fairlead.usage.source import SourceName, UsageSettings, check_settings, open_source
from fairlead.use import UseFault, UseReport
from tests.cluster.loopback import RecordedRequests, serve_responses
from tests.usage.worlds import (
    GIB,
    GPU,
    INDEX,
    MIB,
    NOW,
    OLD_MEMORY,
    OURS_BUSY,
    OURS_MEMORY,
    POD_MEMORY,
    WEB,
    answer,
    matrix,
    sample,
    vector,
)

BOX = {"id": GPU.device, "node": "box"}
Answer = Callable[[str], bytes | web.Response]


class Series:
    """A Prometheus with a few series, which a test changes between two reads."""

    def __init__(self, series: Mapping[str, Any], clock: float = NOW) -> None:
        self.series = dict(series)
        self.clock = clock

    def __call__(self, query: str) -> bytes:
        if query.startswith("max("):
            name = query.partition("timestamp(")[2].partition(")")[0]
            back = 900 if "900s" in query else 300
            points = [point for _, points in self.series.get(name, ()) for point in points]
            times = [at for at, _ in points if at > self.clock - back]
            return vector(self.clock, max(times, default=None))
        name, _, rest = query.partition("[")
        start = self.clock - float(rest.removesuffix("s]"))
        rows = [
            (labels, [p for p in points if p[0] >= start]) for labels, points in self.series.get(name, ())
        ]
        return matrix(*(row for row in rows if row[1]))


def reads(server: Answer, *times: float, access: FetchAccess | None = None) -> list[UseReport]:
    """Return the reports of one source."""
    return talk(server, times, access or FetchAccess())[0]


def talk(
    server: Answer, times: tuple[float, ...], access: FetchAccess
) -> tuple[list[UseReport], RecordedRequests]:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        (query,) = parse_qs((await request.read()).decode())["query"]
        body = server(query)
        return web.Response(body=body, content_type="application/json") if isinstance(body, bytes) else body

    async def run() -> tuple[list[UseReport], RecordedRequests]:
        async with serve_responses(respond) as seen, Fetcher.open(access) as fetcher:
            source = PrometheusSource(fetcher, f"{seen.server}/", lambda: INDEX, 15.0)
            return [await source.read(now) for now in times], seen

    return asyncio.run(run())


def ours(at: float, value: str = str(GIB)) -> dict[str, Any]:
    return {OURS_MEMORY: [(BOX, [(at, value)])]}


def test_the_newest_samples_carry_their_own_times() -> None:
    pods = {"namespace": "shop", "pod": "web", "container": "a", **BOX}
    busy = {OURS_BUSY: [(BOX, [(NOW - 25, "0.5"), (NOW - 10, "0.75")])]}
    server = Series({**ours(NOW - 10), **busy, POD_MEMORY: [(pods, [(NOW - 10, "4096")])]})
    (report,) = reads(server, NOW)
    assert report.devices == {GPU: sample(GIB, 0.75, NOW - 10)}
    assert report.pods == {WEB: sample(4096, at=NOW - 10)}
    assert (report.at, report.source, report.faults, report.detail) == (NOW, "prometheus", {}, "")


def test_other_names_are_found_when_the_known_ones_answer_nothing() -> None:
    server = Series(ours(NOW))

    def answer(query: str) -> bytes:
        if len(queries) >= 8:  # the second read
            server.series = {OLD_MEMORY: [({"pci_bus_id": "3B:00.0", "Hostname": "box"}, [(NOW, "5")])]}
        queries.append(query)
        return server(query)

    queries: list[str] = []
    first, second, third = reads(answer, NOW, NOW, NOW)
    assert first.devices == {GPU: sample(GIB)}
    assert second.devices == third.devices == {GPU: sample(5 * MIB)}
    assert [query for query in queries if query.startswith("max(")][3:] == [
        "max(timestamp(fairlead_accelerator_memory_used_bytes))",  # the second read finds it gone
        *(f"max(timestamp({dialect.metrics[0].name}))" for dialect in DIALECTS),
        "max(timestamp(DCGM_FI_DEV_FB_USED))",  # the third read asks for what the second has found
    ]


def test_a_series_that_missed_three_scrapes_has_ended() -> None:
    gone = [(NOW - 59 + 10 * step, "1") for step in range(3)]
    server = Series({OURS_MEMORY: [(BOX, gone), ({**BOX, "of": "new"}, [(NOW - 5, "2")])]})
    (report,) = reads(server, NOW)
    assert report.devices == {GPU: sample(2, at=NOW - 5)}
    server = Series({OURS_MEMORY: [(BOX, [(at + 10, value) for at, value in gone])]})
    (report,) = reads(server, NOW)
    assert report.devices == {GPU: sample(1, at=NOW - 29)}


def html(status: int = 200) -> web.Response:
    return web.Response(text="<html>Sign in</html>", content_type="text/html", status=status)


def plain(status: int, body: bytes = b"") -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


FAILED = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error"}).encode()
HOSTILE: dict[str, tuple[Answer, UseFault, str]] = {
    "nothing": (lambda _: b"", UseFault.GARBAGE, "not of Prometheus' HTTP API"),
    "no JSON": (lambda _: b"\x00\xff garbage", UseFault.GARBAGE, "not of Prometheus' HTTP API"),
    "half of the JSON": (lambda _: matrix((BOX, [(NOW, "1")]))[:-9], UseFault.GARBAGE, "not of Prometheus'"),
    "another shape": (lambda _: b'{"status":"success","data":[1]}', UseFault.GARBAGE, "not of Prometheus'"),
    "a list": (lambda _: b"[]", UseFault.GARBAGE, "not of Prometheus'"),
    "deep nesting": (lambda _: b"[" * 100_000, UseFault.GARBAGE, "not of Prometheus'"),
    "a label that is a number": (
        lambda _: b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"id":1}}]}}',
        UseFault.GARBAGE,
        "not of Prometheus'",
    ),
    "a scalar": (
        lambda _: b'{"status":"success","data":{"resultType":"scalar","result":[]}}',
        UseFault.GARBAGE,
        "a 'scalar', not a vector or matrix",
    ),
    "an error": (lambda _: FAILED, UseFault.GARBAGE, "the query failed: parse error"),
    "an error with its status": (
        lambda _: plain(422, FAILED),
        UseFault.GARBAGE,
        "answers 422; the query failed: parse",
    ),
    "a login page": (
        lambda _: html(),
        UseFault.GARBAGE,
        "with an HTML page; check the address: a login page",
    ),
    "a redirect": (
        lambda _: web.Response(status=302, headers={"Location": "https://login.example"}),
        UseFault.GARBAGE,
        "redirects to 'https://login.example'; set that address",
    ),
    "no such path": (lambda _: plain(404, b"404 page not found"), UseFault.GARBAGE, "answers 404; check the"),
    "no credentials": (lambda _: plain(401), UseFault.UNREACHABLE, "refuses the credentials (401); set a"),
    "a server error": (lambda _: plain(503), UseFault.UNREACHABLE, "answers 503; read the log"),
    "compressed": (
        lambda _: web.Response(body=b"x", headers={"Content-Encoding": "gzip"}),
        UseFault.UNREACHABLE,
        "compresses its response",
    ),
    "too many series": (
        lambda _: answer({"resultType": "matrix", "result": [{}] * 200_001}),
        UseFault.LIMIT,
        "answers with 200001 series; at most 200000 are read",
    ),
    "no series": (Series({}), UseFault.NO_SERIES, f"has no series of {OURS_MEMORY}"),
    "series of unknown devices": (
        Series({OURS_MEMORY: [({"id": "x", "node": "y"}, [(NOW, "1")])]}),
        UseFault.NO_SERIES,
        "has 1 series of fairlead, none of a known accelerator (node 'y', device 'x')",
    ),
    "a lag of five minutes": (
        Series(ours(NOW - 300)),
        UseFault.LAGGING,
        "is 300 s old; check the targets",
    ),
    "not a number": (Series(ours(NOW, "NaN")), UseFault.NOT_A_NUMBER, ""),
    "no number at all": (Series(ours(NOW, "lots")), UseFault.NOT_A_NUMBER, ""),
    "infinity": (Series(ours(NOW, "+Inf")), UseFault.NOT_A_NUMBER, ""),
    "doubled series": (
        Series({OURS_MEMORY: [({**BOX, "replica": each}, [(NOW, each)]) for each in ("1", "2")]}),
        UseFault.DUPLICATE,
        "",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_answer_that_cannot_be_used_is_a_report_that_says_why(case: str) -> None:
    answer, fault, text = HOSTILE[case]
    (report,) = reads(answer, NOW)
    assert (report.devices, report.pods, report.faults) == ({}, {}, {fault: 1})
    assert text in report.detail
    history = UseHistory()
    history.on_report(report)
    status = history.status(NOW)
    assert status.staleness is Staleness.MISSING
    assert text in status.reason
    assert fault.value in status.reason


def test_a_source_that_starts_to_fail_leaves_old_samples_and_says_why() -> None:
    server = Series(ours(NOW))
    calls = []

    def answer(query: str) -> bytes | web.Response:
        calls.append(query)
        return server(query) if len(calls) <= 8 else html(502)

    history = UseHistory()
    for report in reads(answer, NOW, NOW + 61):
        history.on_report(report)
    status = history.status(NOW + 61)
    assert status.staleness is Staleness.STALE
    assert status.reason.startswith("no new sample for 61 s (limit 60 s); http://127.0.0.1:")
    assert status.faults == {UseFault.UNREACHABLE: 1}


def test_a_clock_that_is_ahead_is_named() -> None:
    (report,) = reads(Series(ours(NOW + 100), NOW + 100), NOW)
    history = UseHistory()
    history.on_report(report)
    status = history.status(NOW)
    assert (status.staleness, status.faults) == (Staleness.MISSING, {UseFault.CLOCK_SKEW: 1})
    assert "is 100 s in the future; compare the clocks" in status.reason


def test_a_clock_that_is_behind_gives_stale_samples() -> None:
    (report,) = reads(Series(ours(NOW - 100), NOW - 100), NOW)
    history = UseHistory()
    history.on_report(report)
    status = history.status(NOW)
    assert (status.staleness, status.faults) == (Staleness.STALE, {UseFault.LAGGING: 1})
    assert "is 100 s old; compare the clocks" in status.reason


def test_a_server_that_is_gone_is_unreachable() -> None:
    async def run() -> UseReport:
        async with serve_responses(lambda _: asyncio.sleep(0, html())) as seen:
            url = seen.server
        settings = UsageSettings(url=url)
        async with open_source(settings, lambda: INDEX) as source:
            assert await source.backfill(NOW, 600) == ()
            return await source.read(NOW)

    report = asyncio.run(run())
    assert report.faults == {UseFault.UNREACHABLE: 1}
    assert "nothing answers at http://127.0.0.1:" in report.detail
    assert report.detail.endswith("check the address, and that the server runs")


def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"[" * (1 << 20))
        except ConnectionError:
            return response

    async def run() -> Any:
        async with serve_responses(respond) as seen, Fetcher.open(FetchAccess()) as fetcher:
            return await fetcher.fetch(seen.server, limit=3 << 20, seconds=10)

    failure = asyncio.run(run())
    assert failure.too_large
    assert "has more than 3 MiB" in failure.text


def test_credentials_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("jane:pass\n")
    path = str(tmp_path / "secret")
    for access, header in (
        (FetchAccess(token_file=path), "Bearer jane:pass"),
        (FetchAccess(basic_file=path), "Basic amFuZTpwYXNz"),
        (FetchAccess(), None),
    ):
        _, seen = talk(Series({}), (NOW,), access)
        assert {headers.get("Authorization") for headers in seen.headers} == {header}
    (report,) = reads(Series({}), NOW, access=FetchAccess(token_file=str(tmp_path / "gone")))
    assert report.faults == {UseFault.UNREACHABLE: 1}
    assert "gone: the token cannot be read" in report.detail


def test_the_window_is_filled_at_the_start_with_true_times() -> None:
    points = [(NOW - 300 + 5 * step, str(step)) for step in range(60)]
    server = Series({OURS_MEMORY: [(BOX, points)]})

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        (query,) = parse_qs((await request.read()).decode())["query"]
        return web.Response(body=server(query))

    async def run() -> UseHistory:
        history = UseHistory()
        async with (
            serve_responses(respond) as seen,
            open_source(UsageSettings(url=seen.server), lambda: INDEX) as source,
        ):
            for report in await source.backfill(NOW, 600):
                history.on_report(report)
            history.on_report(await source.read(NOW))
        return history

    history = asyncio.run(run())
    memory = history.device(GPU).memory
    assert len(memory) == pytest.approx(20, abs=1), "one for each refresh period"
    assert set(zip(memory.times, memory.values, strict=True)) <= {(at, float(text)) for at, text in points}
    assert memory.times[-1] == NOW - 5
    assert history.status(NOW).faults == {}


@pytest.mark.parametrize(
    "settings",
    [
        UsageSettings(SourceName.PROMETHEUS),
        UsageSettings(url="prometheus:9090"),
        UsageSettings(url="http://"),
        UsageSettings(token_file="a", basic_file="b"),
        UsageSettings(period=0.5),
        UsageSettings(period=30, window=20),
        UsageSettings(window=100_000),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(settings: UsageSettings) -> None:
    with pytest.raises(SettingsError):
        check_settings(settings)


def test_without_a_source_there_are_no_measurements() -> None:
    async def run() -> UseReport:
        async with open_source(UsageSettings(), lambda: INDEX) as source:
            return await source.read(NOW)

    assert asyncio.run(run()) == UseReport(NOW, "none", detail="no source of measured use is set")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_make_the_decoder_raise(body: bytes) -> None:
    assert isinstance(decode(body), str)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
POINT = st.tuples(st.floats() | JSON, st.text(max_size=8) | JSON)
ROW = st.fixed_dictionaries({"metric": st.just(BOX) | JSON, "values": st.lists(POINT, max_size=3) | JSON})


@given(st.lists(ROW, max_size=3), st.sampled_from(["matrix", "vector", "scalar"]) | JSON)
def test_no_answer_of_almost_the_right_shape_makes_the_decoder_raise(rows: list[Any], kind: Any) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": kind, "result": rows}})
    series = decode(body.encode())
    assert isinstance(series, str) or all(isinstance(each, RawSeries) for each in series)
