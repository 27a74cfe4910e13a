"""CSV files of series: what is read, and that every wrong row is named."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.rightsize.csvfile import read_series
from fairlead.rightsize.workload import PodSeries
from fairlead.series import Series

LABELLED = """timestamp,value,busy,namespace,pod,container,device
20,2048,0.5,shop,web-0,main,gpu-0
10,1024,,shop,web-0,main,gpu-0
2026-11-17T12:00:00Z,1,1,shop,web-1,main,gpu-0
10,7,0,shop,web-0,main,gpu-1
"""
BY_ID = "timestamp_anon,value,container_ip\n1.5,4096.0,aa\n2.5,,aa\n3.5,NaN,aa\n1.5,1,bb\n"


def write(folder: Path, text: str, name: str = "series.csv") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def archive(folder: Path, files: dict[str, str], name: str = "series.tar.gz") -> str:
    path = folder / name
    with tarfile.open(path, "w:gz") as packed:
        for each, text in files.items():
            info = tarfile.TarInfo(each)
            info.size = len(text.encode())
            packed.addfile(info, io.BytesIO(text.encode()))
    return str(path)


def test_samples_are_sorted_into_series_by_their_labels(tmp_path: Path) -> None:
    series, gaps = read_series(write(tmp_path, LABELLED))
    assert gaps == 0
    assert [(each.pod, each.device, len(each.memory)) for each in series] == [
        ("web-0", "gpu-0", 2),
        ("web-1", "gpu-0", 1),
        ("web-0", "gpu-1", 1),
    ]
    assert series[0] == PodSeries(
        "shop",
        "web-0",
        "main",
        "gpu-0",
        "",
        Series((10.0, 20.0), (1024.0, 2048.0), "csv"),
        Series((20.0,), (0.5,), "csv"),
    )
    assert series[1].memory.times == (1794916800.0,)


def test_one_other_column_names_the_series_and_gaps_are_counted(tmp_path: Path) -> None:
    series, gaps = read_series(write(tmp_path, BY_ID))
    assert gaps == 2
    assert [(each.id, each.pod, each.memory.values) for each in series] == [
        ("aa", "", (4096.0,)),
        ("bb", "", (1.0,)),
    ]


def test_compressed_files_and_archives_hold_the_same(tmp_path: Path) -> None:
    plain = read_series(write(tmp_path, BY_ID))
    packed = tmp_path / "series.csv.gz"
    packed.write_bytes(gzip.compress(BY_ID.encode()))
    assert read_series(str(packed)) == plain
    assert read_series(archive(tmp_path, {"x/series.csv": BY_ID, "x/README": "about"})) == plain
    assert read_series(write(tmp_path, "\ufeff" + BY_ID, "bom.csv")) == plain


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("value,pod\n1,x\n", 1, "no column 'timestamp'"),
        ("timestamp,pod\n1,x\n", 1, "no column 'value'"),
        ("timestamp,value\n1,2\n", 1, "nothing names a series"),
        ("timestamp,value,a,b\n1,2,x,y\n", 1, "cannot tell what 'a', 'b' are"),
        ("timestamp,value,pod,other\n1,2,x,y\n", 1, "cannot tell what 'other' are"),
        ("timestamp,value,pod,pod\n1,2,x,y\n", 1, "two columns have one name"),
        ("timestamp,value,pod\n1,2,x\n1,2\n", 3, "2 cells instead of 3"),
        ("timestamp,value,pod\n1,2,x\n\n1,2,x,y\n", 4, "4 cells instead of 3"),
        ("timestamp,value,pod\n1,2,\n", 2, "no pod is named"),
        ("timestamp,value,pod\nnoon,2,x\n", 2, "'noon' is not a time"),
        ("timestamp,value,pod\nnan,2,x\n", 2, "'nan' is not a time"),
        ("timestamp,value,pod\n1,-2,x\n", 2, "value '-2' cannot be"),
        ("timestamp,value,pod\n1,inf,x\n", 2, "value 'inf' cannot be"),
        ("timestamp,value,pod\n1,1e30,x\n", 2, "value '1e30' cannot be"),
        ("timestamp,value,pod\n1,8GiB,x\n", 2, "value '8GiB' cannot be"),
        ("timestamp,value,busy,pod\n1,8,50,x\n", 2, "busy '50' cannot be"),
        ("timestamp,value,pod\n1,2,x\n1,3,x\n", 3, "a second value for this series and time"),
        ('timestamp,value,pod\n1,2,"x\n3,4,y\n', 2, "unexpected end of data"),
        ('timestamp,value,pod\n1,2,x\n1,2,"x"y\n', 3, "expected after"),
    ],
)
def test_a_wrong_row_is_an_error_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        read_series(path)
    assert str(error.value).startswith(f"{path}: line {line}: ")
    assert words in str(error.value)
    assert error.value.hint


def test_a_row_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    series, _ = read_series(write(tmp_path, "timestamp,value,pod\n1,2,x\n1,2,x\n"))
    assert len(series[0].memory) == 1


@pytest.mark.parametrize("files", [{}, {"a.csv": BY_ID, "b.csv": BY_ID}, {"a.txt": BY_ID}])
def test_an_archive_has_one_csv_file(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="CSV files in the archive instead of one"):
        read_series(archive(tmp_path, files))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("head.csv", b"timestamp,value,pod\n"),
        ("latin.csv", b"timestamp,value,pod\n1,2,\xff\xfe\n"),
        ("nul.csv", b"timestamp,value,pod\n1,2,x\0y\n1,\0,x\n"),
        ("cut.csv.gz", gzip.compress(BY_ID.encode(), mtime=0)[:-12]),
        ("not.csv.gz", b"\x1f\x8bnothing"),
        ("not.tar.gz", gzip.compress(b"no archive", mtime=0)),
        ("not.tar", b"no archive"),
        ("pod.csv", b"timestamp,value,pod\n1,2," + b"x" * 200_000 + b"\n"),
    ],
)
def test_a_file_that_is_no_csv_is_refused_with_its_name(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SettingsError) as error:
        read_series(str(path))
    assert str(path) in str(error.value)
    assert error.value.hint


@pytest.mark.parametrize("path", ["/dev/null", "missing.csv", "."])
def test_a_path_that_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_series(path)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path: Path) -> None:
    text = "timestamp,value,pod\n" + "".join(f"{at},1,x\n" for at in range(20_000))
    packed = tmp_path / "series.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (str(packed), archive(tmp_path, {"a.csv": text})):
        with pytest.raises(SettingsError, match="more than 0 MiB"):
            read_series(path, 1 << 16)
