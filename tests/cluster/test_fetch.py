"""Pages of other servers: trusted by a file of authorities, bounded in bytes and time, without redirects."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from fairlead.cluster.http.fetch import FetchAccess, Fetched, Fetcher, FetchFailure
from tests.cluster.loopback import Authority, Handler, always, serve_responses

HOME, STRANGER = Authority("home"), Authority("stranger")
PAGE = always(lambda: web.Response(text="a page"))


def fetch(
    handler: Handler,
    access: FetchAccess | None = None,
    tls: object = None,
    path: str = "/",
    seconds: float = 10.0,
    limit: int = 1 << 20,
) -> Fetched | FetchFailure:
    """Return the result of one request."""

    async def run() -> Fetched | FetchFailure:
        async with (
            serve_responses(handler, tls) as seen,  # type: ignore[arg-type]  # a context, or none
            Fetcher.open(access or FetchAccess()) as fetcher,
        ):
            return await fetcher.fetch(f"{seen.server}{path}", limit=limit, seconds=seconds)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("authority", "host", "name", "text"),
    [
        (HOME, "127.0.0.1", "", ""),
        (HOME, "agent", "agent", ""),
        (HOME, "agent", "", "presents a certificate that is not trusted"),
        (HOME, "agent", "other", "presents a certificate that is not trusted"),
        (STRANGER, "127.0.0.1", "", "presents a certificate that is not trusted"),
    ],
)
def test_a_server_is_trusted_by_its_authority_and_its_name(
    tmp_path: Path, authority: Authority, host: str, name: str, text: str
) -> None:
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    access = FetchAccess(ca_file=str(tmp_path / "ca.pem"), server_name=name)
    result = fetch(PAGE, access, HOME.server(tmp_path, host=host))
    if text:
        assert isinstance(result, FetchFailure)
        assert text in result.text
    else:
        assert result == Fetched(200, "text/plain", b"a page")


def test_a_file_of_authorities_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    server = HOME.server(tmp_path)
    path = tmp_path / "ca.pem"
    gone = fetch(PAGE, FetchAccess(ca_file=str(path)), server)
    path.write_text("no certificate")
    bad = fetch(PAGE, FetchAccess(ca_file=str(path)), server)
    for failure in (gone, bad):
        assert isinstance(failure, FetchFailure)
        assert str(path) in failure.text


def test_replaced_authorities_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"

    async def run() -> list[type]:
        async with (
            serve_responses(PAGE, HOME.server(tmp_path)) as seen,
            Fetcher.open(FetchAccess(ca_file=str(path))) as fetcher,
        ):
            results = []
            for authority in (STRANGER, HOME):
                path.write_bytes(authority.pem)
                results.append(await fetcher.fetch(seen.server, limit=100, seconds=10))
            return [type(result) for result in results]

    assert asyncio.run(run()) == [FetchFailure, Fetched]


def test_a_redirect_is_not_followed() -> None:
    moved = always(lambda: web.Response(status=301, headers={"Location": "http://127.0.0.1:1/"}))
    assert fetch(moved) == Fetched(301, "application/octet-stream", b"", "http://127.0.0.1:1/")


def test_a_server_that_does_not_answer_in_time_is_left() -> None:
    async def hang(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    result = fetch(hang, seconds=0.2)
    assert isinstance(result, FetchFailure)
    assert "did not answer in time" in result.text


def test_an_answer_at_the_limit_is_read_and_one_byte_more_is_not() -> None:
    assert fetch(PAGE, limit=6) == Fetched(200, "text/plain", b"a page")
    result = fetch(PAGE, limit=5)
    assert isinstance(result, FetchFailure)
    assert result.too_large


def test_an_address_that_is_none_is_a_failure() -> None:
    async def run() -> list[Fetched | FetchFailure]:
        async with Fetcher.open(FetchAccess()) as fetcher:
            urls = ("http://", "nonsense", "http://127.0.0.1:99999", "ftp://127.0.0.1/")
            return [await fetcher.fetch(url, limit=1, seconds=1) for url in urls]

    for result in asyncio.run(run()):
        assert isinstance(result, FetchFailure)
        assert result.hint
