"""What the agent may ask of the limiter; everything else is refused with its rule."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.enforcement.request import Limit, ListDaemons, Refused, StopDaemon, parse_request

NAME = "0f8fad5bd9cb469fa16570867728950e"
GPU = "GPU-0f8fad5b-d9cb-469f-a165-70867728950e"
MIG = "MIG-1f8fad5b-d9cb-469f-a165-70867728950e"
GOOD = {"start": NAME, "devices": [GPU, MIG], "memory": 4096, "percent": 25}


def parse(request: Any) -> Any:
    return parse_request(json.dumps(request).encode())


def test_the_requests_of_an_agent() -> None:
    limit = Limit(NAME, (GPU, MIG), 4096, 25)
    assert parse(GOOD) == parse(limit.to_json()) == limit
    whole = Limit(NAME, (GPU,), 1)
    assert parse(whole.to_json()) == whole
    assert parse({"stop": NAME}) == StopDaemon(NAME)
    assert parse({"list": True}) == ListDaemons()


NAMES: list[Any] = ["", "..", NAME[:-1], NAME.upper(), f"{NAME}\n", f"../{NAME}", f"{NAME}/../../etc", 1]
DEVICES: list[Any] = [[], GPU, [GPU] * 2, [f"{GPU[:-2]}{at:02}" for at in range(33)], [1], [[GPU]], {}, None]
DEVICES += [[f"{GPU}{tail}"] for tail in ("\n", ",all", " -M", "0")] + [["0"], ["all"], [GPU, "0"]]
SIZES: list[Any] = [0, -1, 1 << 25, "1", 1.0, True, None, [1]]
PERCENTS: list[Any] = [0, 101, "25", True, None]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(({"start": value}, "start: a name") for value in NAMES),
        *(({"devices": value}, "devices: 1 to 32") for value in DEVICES),
        *(({"memory": value}, "memory: 1 to") for value in SIZES),
        *(({"percent": value}, "percent: 1 to 100") for value in PERCENTS),
        ({"program": "/bin/sh"}, "the requests are"),
        ({"list": True}, "the requests are"),
    ],
    ids=lambda part: ascii(part)[:40],
)
def test_a_hostile_start_is_refused_by_its_rule(change: dict[str, Any], says: str) -> None:
    refused = parse({**GOOD, **change})
    assert isinstance(refused, Refused)
    assert refused.reason.startswith(says)


@pytest.mark.parametrize(
    "request_", [{"stop": ".."}, {"stop": 1}, {"list": 1}, {}, [], 1, None, {"stop": ""}]
)
def test_another_request_is_refused(request_: Any) -> None:
    assert isinstance(parse(request_), Refused)


@settings(max_examples=50)
@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_no_bytes_end_the_program(line: bytes) -> None:
    parse_request(line)


def test_deep_nesting_is_refused() -> None:
    assert isinstance(parse_request(b"[" * 100_000), Refused)
