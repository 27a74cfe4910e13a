"""Requests and answers: every request gets one JSON line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.warden.devices import Devices
from fairlead.warden.protocol import answer
from fairlead.warden.session import REQUEST_LIMIT
from fairlead.warden.store import Store
from tests.warden.specs import ACCELERATORS, CLAIM, bent, claim, good

NOT_JSON = "the request is not a JSON object"
WRONG = ": the requests are put with spec, remove, and list"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path), Devices(str(tmp_path)), lambda _: None)


def ask(store: Store, request: Any) -> Any:
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    reply = answer(line, store, lambda _: None)
    assert reply.endswith(b"\n")
    assert reply.count(b"\n") == 1
    return json.loads(reply)


def test_put_list_remove(store: Store, tmp_path: Path) -> None:
    put = ask(store, {"put": ACCELERATORS, "spec": good()})
    assert put == {"ok": True, "sha256": put["sha256"], "changed": True}
    assert ask(store, {"list": True}) == {"ok": True, "files": {ACCELERATORS: put["sha256"]}}
    assert ask(store, {"remove": ACCELERATORS}) == {"ok": True, "removed": True}
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (b"", NOT_JSON),
        (b"GET / HTTP/1.1\r", NOT_JSON),
        (b"\x00\xff\xfe", NOT_JSON),
        (b"PRI * HTTP/2.0\r", NOT_JSON),
        (b"[]", NOT_JSON),
        (b"null", NOT_JSON),
        (b"[" * 100_000, NOT_JSON),
        (b'{"put":' * 20_000, NOT_JSON),
        (b"9" * 10_000, NOT_JSON),
        (b"{}", WRONG),
        ({"put": ACCELERATORS}, f"'put'{WRONG}"),
        ({"put": 1, "spec": {}}, WRONG),
        ({"put": [ACCELERATORS], "spec": {}}, WRONG),
        ({"put": ACCELERATORS, "spec": good(), "mode": 0o666}, WRONG),
        ({"put": ACCELERATORS, "spec": good(), "remove": CLAIM}, WRONG),
        ({"remove": None}, WRONG),
        ({"list": 1}, WRONG),
        ({"list": "/etc"}, WRONG),
        ({"read": "/etc/shadow"}, f"'read'{WRONG}"),
        ({"put": ACCELERATORS, "spec": bent("annotations", {})}, "annotations: not allowed"),
        ({"remove": "../../etc/passwd"}, "not a file name of ours"),
        (b" " * (REQUEST_LIMIT + 1), "the request is longer than 262144 bytes"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_an_invalid_request_is_refused(store: Store, tmp_path: Path, request_: Any, error: str) -> None:
    reply = ask(store, request_)
    assert reply["ok"] is False
    assert error in reply["error"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("depth", [10, 300, 900, 990, 999, 1500])
@pytest.mark.parametrize("where", ["kind", "devices.0.name", "devices.0.containerEdits.env.0"])
def test_deeply_nested_requests_are_answered(store: Store, depth: int, where: str) -> None:
    text = json.dumps({"put": ACCELERATORS, "spec": bent(where, "DEEP")})
    reply = ask(store, text.replace('"DEEP"', "[" * depth + "]" * depth).encode())
    assert reply["ok"] is False


def test_a_log_line_is_one_printable_line(store: Store) -> None:
    lines: list[str] = []
    evil = json.dumps({"put": "a\nfairlead warden: all is well\x1b[2J", "spec": {}}).encode()
    answer(evil, store, lines.append)
    assert lines[0].startswith(r"refused put 'a\nfairlead warden: all is well")
    assert lines[0].isprintable()


def test_a_duplicate_key_is_read_once_and_written_once(store: Store, tmp_path: Path) -> None:
    file, spec = claim()
    text = json.dumps({"put": file, "spec": spec})
    twice = text.replace('"kind":', '"kind": "nvidia.com/gpu", "kind":')
    assert ask(store, twice.encode())["ok"]
    assert (tmp_path / file).read_text().count('"kind"') == 1


def test_a_missing_folder_is_an_error_answer(store: Store, tmp_path: Path) -> None:
    tmp_path.rename(tmp_path.with_name("gone"))
    error = "the CDI folder cannot be used: No such file or directory"
    assert ask(store, {"list": True}) == {"ok": False, "error": error}


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_answered(store: Store, data: bytes) -> None:
    assert ask(store, data)["ok"] is False
