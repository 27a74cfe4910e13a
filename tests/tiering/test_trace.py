"""Traces: both forms, compressed or not, and every line that is none."""

import gzip
from pathlib import Path

import pytest

from fairlead.access import Access, AccessOp
from fairlead.errors import TraceError
from fairlead.tiering.trace import open_trace
from fairlead.units import Bytes, Seconds

HEAD = "time,key,bytes,op\n"


def read(path: Path) -> list[Access]:
    """Return the accesses of a file."""
    with open_trace(str(path)) as trace:
        return [access for chunk in trace.chunks() for access in chunk]


def test_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text('op,extra,time,bytes,key\nread,,1.5,10,a\nWRITE,,2, 20 ,"b, c"\n\nread,,1,0,a\n')
    assert read(path) == [
        Access(Seconds(1.5), "a", Bytes(10), AccessOp.READ),
        Access(Seconds(2), "b, c", Bytes(20), AccessOp.WRITE),
        Access(Seconds(1), "a", Bytes(0), AccessOp.READ),
    ]


def test_blocks_compressed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(b"version,time,op,size,lbn\n1,5633898,2a,512,42\n1,5633899,28,1024,42\n"))
    with open_trace(str(path)) as trace:
        assert trace.is_blocks
        (chunk,) = trace.chunks()
    assert chunk == [
        Access(Seconds(5633898), "42", Bytes(512), AccessOp.WRITE),
        Access(Seconds(5633899), "42", Bytes(1024), AccessOp.READ),
    ]


def test_a_long_trace_comes_in_chunks(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEAD + "1,a,5,read\n" * 45_000)
    with open_trace(str(path)) as trace:
        assert [len(chunk) for chunk in trace.chunks()] == [20_000, 20_000, 5_000]
        assert trace.count == 45_000


def test_names_of_files_may_be_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xef\xbb\xbf" + HEAD.encode() + b"1,caf\xe9,5,read\n")
    assert read(path)[0].key == "caf\udce9"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the trace is empty"),
        (HEAD.encode(), "the trace has no accesses"),
        (b"1,a,5,read\n", "line 1: no names of columns: '1,a,5,read'"),
        (HEAD.encode() + b"1,a,5,read\n2,b,-1,read\n", "line 3: the bytes are -1"),
        (HEAD.encode() + b"1,a,5.5,read\n", "line 2: the bytes: '5.5' is no number"),
        (HEAD.encode() + b"\n1,a,5,erase\n", "line 3: unknown op 'erase'"),
        (HEAD.encode() + b"soon,a,5,read\n", "line 2: the time: 'soon' is no number"),
        (HEAD.encode() + b"nan,a,5,read\n", "line 2: the time is 'nan'"),
        (HEAD.encode() + b"1,,5,read\n", "line 2: no key"),
        (HEAD.encode() + b"1,a,5\n", "line 2: 3 values instead of 4"),
        (b"version,time,op,size,lbn\n1,2,35,512,7\n", "line 2: unknown op '35'"),
        (gzip.compress(HEAD.encode() + b"1,a,5,read\n" * 1000, mtime=0)[:-20], "cannot be read"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(text)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert caught.value.hint
