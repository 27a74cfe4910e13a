"""Records: every field survives, nothing that a reader cannot bound is read, and no text moves a cursor."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.job import LocalJob
from fairlead.ledger.record import JOBS, LONGEST_NAME, LONGEST_REASON, owned_format, printable
from fairlead.ledger.spec import SPECS, JobSpec
from tests.ledger.jobs import FULL_JOB
from tests.strategies import local_jobs


def test_every_field_of_a_job_is_in_its_record() -> None:
    for value in (FULL_JOB, FULL_JOB.requested, FULL_JOB.assumed, FULL_JOB.measured):
        for field in fields(value):  # type: ignore[arg-type] # `measured` is there
            differs = getattr(value, field.name) != field.default
            assert differs or field.name == "exit_code", f"{field.name}: the test needs another value"
    read = JOBS.decode(JOBS.encode(FULL_JOB))
    assert read == FULL_JOB
    assert [share.soft for share in read.shares] == [True, False], "not part of equality"
    assert owned_format(1000, "ann").decode(JOBS.encode(FULL_JOB)) == replace(FULL_JOB, uid=1000, user="ann")


@given(local_jobs())
def test_a_job_is_the_same_after_writing_and_reading(job: LocalJob) -> None:
    text = JOBS.encode(job)
    read = JOBS.decode(text)
    assert read == job
    assert [share.soft for share in read.shares] == [share.soft for share in job.shares]
    assert JOBS.encode(read) == text
    assert read.to_json()["submitted_at"]


def test_a_record_does_not_say_whose_it_is() -> None:
    body = json.loads(JOBS.encode(replace(FULL_JOB, uid=1000, user="ann")))
    assert not {"uid", "user"} & body.keys()
    body |= {"uid": 0, "user": "root"}
    assert owned_format(1000, "ann").decode(json.dumps(body)).user == "ann"


def changed(**values: Any) -> str:
    """Return the record of the full job with other values; a dotted name reaches inside."""
    body = json.loads(JOBS.encode(FULL_JOB))
    for name, value in values.items():
        *path, last = name.split("__")
        place = body
        for step in path:
            place = place[step]
        place[last] = value
    return json.dumps(body)


WRONG: list[dict[str, Any]] = [
    {"name": "\x1b[2Jclear"},
    {"name": "two\nlines"},
    {"name": "right to \u202eleft"},
    {"name": "x" * (LONGEST_NAME + 1)},
    {"name": 5},
    {"name": "\ud800"},
    {"reason": "x" * (LONGEST_REASON + 1)},
    {"reason": "\x07"},
    {"number": 8},
    {"number": -7, "id": "-7"},
    {"number": 10**12 + 1, "id": str(10**12 + 1)},
    {"number": 7.0},
    {"number": True, "id": "True"},
    {"id": "../7"},
    {"kind": "daemon"},
    {"kind": []},
    {"state": "paused"},
    {"submitted": float("inf")},
    {"submitted": float("nan")},
    {"submitted": "now"},
    {"submitted": 10**4000},
    {"submitted": 1e12},
    {"started": 1e12},
    {"ended": -1e12},
    {"priority": 1001},
    {"priority": 0.5},
    {"after": ["x"] * 257},
    {"after": "7"},
    {"after": [7]},
    {"timeout": -1},
    {"exit_code": 256},
    {"exit_code": -9},
    {"runner": [0, 1, "boot"]},
    {"runner": [-1, 1, "boot"]},
    {"runner": [1 << 31, 1, "boot"]},
    {"runner": [5, -1, "boot"]},
    {"runner": [5, 1]},
    {"runner": {"pid": 5}},
    {"shares": [{"device": "\x1b"}]},
    {"shares": [{"device": "a", "memory_bytes": -1, "compute_milli": 0, "whole": False, "soft": False}]},
    {"shares": [{"device": "a", "memory_bytes": 0, "compute_milli": 0, "whole": 1, "soft": False}]},
    {"shares": {}},
    {"requested": []},
    {"requested__memory": 1 << 63},
    {"requested__cpus": -1},
    {"assumed__need__weights": [0.5, 0.1]},
    {"assumed__need__sizes": [2, 1]},
    {"assumed__need__bound": 2},
    {"assumed__need__sizes": []},
    {"assumed__devices": {str(number): 1.0 for number in range(257)}},
    {"assumed__devices": {"\x1b": 1.0}},
    {"measured__gpu_busy": {"gpu-0": "all"}},
    {"measured__at": None},
    {"measured": {}},
    {"boot": None},
]


@pytest.mark.parametrize("values", WRONG, ids=lambda values: str(values)[:60])
def test_what_a_reader_cannot_bound_is_refused(values: dict[str, Any]) -> None:
    assert JOBS.decode(changed()) == FULL_JOB
    with pytest.raises(ValueError, match="no job"):
        JOBS.decode(changed(**values))


@pytest.mark.parametrize("name", ["id", "number", "name", "kind", "state", "submitted", "boot"])
def test_a_record_without_what_every_job_has_is_refused(name: str) -> None:
    body = json.loads(JOBS.encode(FULL_JOB))
    del body[name]
    with pytest.raises(ValueError, match="no job"):
        JOBS.decode(json.dumps(body))


@given(st.text(max_size=600))
def test_texts_are_made_printable_before_they_are_written(text: str) -> None:
    job = replace(FULL_JOB, name=text, reason=text, key=text)
    read = JOBS.decode(JOBS.encode(job))
    assert len(read.name) == min(len(text), LONGEST_NAME)
    assert read.name == printable(text)
    assert read.name.isprintable()
    assert read.reason.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"), [("a\nb\tc", "a b c"), ("\x1b[2J", "?[2J"), ("é ok", "é ok"), ("\udcff", "?")]
)
def test_what_is_not_printable_is_replaced(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(
    st.lists(st.text(), max_size=4),
    st.dictionaries(st.text(), st.text(), max_size=4),
    st.integers(0, 0o777),
)
def test_a_specification_is_the_same_after_writing_and_reading(
    argv: list[str], environment: dict[str, str], umask: int
) -> None:
    bytes_of_no_text = b"\xff\xfe".decode("utf-8", "surrogateescape")
    spec = JobSpec((bytes_of_no_text, *argv), "/tmp", environment, "/out", "/m.onnx", ("x=1",), umask)
    assert SPECS.decode(SPECS.encode(spec)) == spec


@pytest.mark.parametrize(
    "change", [{"argv": "sh"}, {"argv": [1]}, {"umask": 0o1777}, {"environment": [["A", "b"]]}]
)
def test_a_specification_of_other_types_is_refused(change: dict[str, Any]) -> None:
    body = json.loads(SPECS.encode(JobSpec(("sh",), "/"))) | change
    with pytest.raises(ValueError, match="no job-spec"):
        SPECS.decode(json.dumps(body))
