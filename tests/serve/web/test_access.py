"""Token authentication: how a request carries the token, and how the token is replaced."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.serve.web.access import TokenGuard, bearer_token
from fairlead.serve.web.httpd import Response, ServingOptions, answer
from tests.serve.web.served import ask, serving

TOKEN = b"s3cret.token-_~+/=="


def write(path: Path, content: bytes) -> str:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)
    return str(path)


def head(authorization: bytes = b"", path: bytes = b"/metrics") -> bytes:
    line = b"Authorization: " + authorization + b"\r\n" if authorization else b""
    return b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n"


def test_pages_need_the_token(tmp_path: Path) -> None:
    guard = TokenGuard(write(tmp_path / "token", TOKEN + b"\n"), lambda _: None)
    with serving(ServingOptions(guard=guard)) as port:
        assert ask(port, head(b"Bearer " + TOKEN)).endswith(b"\r\n\r\n/metrics")
        for path in (b"/metrics", b"/", b"/elsewhere"):
            reply = ask(port, head(path=path))
            assert reply.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
            assert b"\r\nWWW-Authenticate: Bearer\r\n" in reply
            assert reply.endswith(b"\r\n\r\nunauthorized\n")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(tmp_path: Path, path: str) -> None:
    guard = TokenGuard(write(tmp_path / "token", TOKEN), lambda _: None)
    assert guard(path, head(path=path.encode()))
    assert not guard(path + "/", head(path=path.encode()))


@pytest.mark.parametrize(
    ("request_head", "token"),
    [
        (head(b"Bearer " + TOKEN), TOKEN),
        (b"GET / HTTP/1.1\nauthorization:bearer  x \n\n", b"x"),
        (head(b"Basic " + TOKEN), b""),
        (head(b"Bearer"), b""),
        (head(TOKEN), b""),
        (head(b"Bearer a b"), b""),
        (head(b"Bearer a\r\nAuthorization: Bearer b"), b""),
        (head(b"\r\n Bearer a"), b""),
        (b"GET / HTTP/1.1\r\nAuthorization : Bearer a\r\n\r\n", b""),
        (b"GET / HTTP/1.1\r\nX-Authorization: Bearer a\r\n\r\n", b""),
        (b"GET / HTTP/1.1\r\n\r\nAuthorization: Bearer a\r\n\r\n", b""),
        (b"Authorization: Bearer a HTTP/1.1\r\n\r\n", b""),
        (b"", b""),
    ],
)
def test_the_bearer_token_of_a_head(request_head: bytes, token: bytes) -> None:
    assert bearer_token(request_head) == token


def test_a_new_token_applies_at_once(tmp_path: Path) -> None:
    lines: list[str] = []
    guard = TokenGuard(write(tmp_path / "token", b"old"), lines.append)
    write(tmp_path / "token", b"new")
    assert guard("/metrics", head(b"Bearer new"))
    assert not guard("/metrics", head(b"Bearer old"))
    assert lines == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"a b", "holds more than one word"),
        (b"a" * 5000, "is too long"),
        (None, "cannot be read"),
    ],
)
def test_without_a_valid_token_all_requests_are_refused_and_that_is_logged_once(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    lines: list[str] = []
    guard = TokenGuard(write(tmp_path / "token", TOKEN), lines.append)
    if content is None:
        (tmp_path / "token").unlink()
    else:
        write(tmp_path / "token", content)
    for authorization in (b"", b"Bearer", b"Bearer " + TOKEN, b"Bearer " + (content or b"")):
        assert not guard("/metrics", head(authorization))
    assert len(lines) == 1
    assert why in lines[0]
    assert "refused until it holds a token" in lines[0]
    assert guard("/healthz", head())
    write(tmp_path / "token", TOKEN)
    assert guard("/metrics", head(b"Bearer " + TOKEN))


@given(st.binary(max_size=300))
def test_no_request_without_the_token_gets_a_page(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    guard = TokenGuard(write(tmp_path_factory.mktemp("access") / "token", TOKEN), lambda _: None)
    for request in (junk, b"GET /metrics HTTP/1.1\r\n" + junk, head(b"Bearer " + junk)):
        assert b"behind" not in answer(request, lambda _: Response(200, b"behind"), guard)
