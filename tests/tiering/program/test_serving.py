"""The program, with files that other programs read, write, rename and delete."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.tiering.program.opening import opened_pair
from fairlead.tiering.volumes.pair import Where
from tests.tiering.program.programs import Served
from tests.tiering.volumes.pairs import Volumes

CONTENT = b"c" * 300_000
OWN = {"lock", "status.json", "trace.csv", "volume-id"}
"""The files of the mover."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    volumes = Volumes(tmp_path)
    for name in "abcde":
        volumes.on_slow(f"d/{name}", CONTENT + name.encode())
        (volumes.fast / "d" / name).unlink()
    program = Served(volumes, tmp_path / "log", "--policy", "lru")
    yield program
    if program.process.poll() is None:
        program.stop()


def where(served: Served, key: str) -> Where:
    """Return where a file is."""
    return served.volumes.pair.where(key)


def test_files_come_up_when_they_are_used_and_go_down_for_others(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    volumes = served.volumes
    assert "links made for 5 files" in served.log()
    for name in "abcd":
        assert volumes.read(f"d/{name}") == CONTENT + name.encode()
        served.wait(lambda name=name: where(served, f"d/{name}") is Where.FAST)  # type: ignore[misc]
    served.wait(lambda: where(served, "d/a") is Where.SLOW)
    assert volumes.read("d/a") == CONTENT + b"a"
    served.wait(lambda: where(served, "d/a") is Where.FAST)
    served.wait(lambda: {os.path.basename(path) for path in volumes.left_over()} == OWN)
    assert served.stop() == 0
    assert main(["augment", "tier", "--status", volumes.pair.fast]) == 0
    page = capsys.readouterr().out
    assert "policy lru: as asked" in page
    assert "d/a" in page


def test_what_programs_do_to_links_reaches_the_slow_files(served: Served) -> None:
    fast, slow = served.volumes.fast, served.volumes.slow
    (fast / "d" / "b").unlink()
    (fast / "d" / "c").rename(fast / "renamed")
    (fast / "new").write_bytes(b"new")
    (fast / "new").replace(fast / "d" / "d")
    served.wait(
        lambda: "its slow file is removed" in served.log() and "its slow file follows" in served.log()
    )
    served.wait(lambda: not (slow / "d" / "b").exists() and not (slow / "d" / "c").exists())
    assert served.volumes.read("renamed") == CONTENT + b"c"
    assert served.volumes.read("d/d") == b"new"
    os.rename(fast / "d", fast / "moved")
    served.wait(lambda: where(served, "moved/e") is Where.SLOW)
    assert (fast / "moved" / "e").read_bytes() == CONTENT + b"e"


def test_a_store_reports_accesses_that_no_notice_does(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    volumes.on_slow("a", CONTENT)
    trace = tmp_path / "store.csv"
    trace.write_text("time,key,bytes,op\n1.0,a,300000,read\n")
    served = Served(volumes, tmp_path / "log", "--policy", "lru", "--trace", str(trace))
    with trace.open("a") as file:
        file.write("5.0,a,300000,read\nnonsense\n6.0,../../etc/passwd,1,read\n")
    served.wait(lambda: where(served, "a") is Where.FAST)
    assert served.stop() == 0
    assert served.status()["accesses"] == 1


def test_the_trace_chooses_the_policy(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    state = Path(volumes.pair.state)
    state.mkdir(parents=True)
    rows = "".join(f"{n},{n % 3},1000,read\n" for n in range(2000))
    (state / "trace.csv").write_text(f"time,key,bytes,op\n{rows}2001,cut")
    served = Served(volumes, tmp_path / "log")
    served.wait(lambda: "policy lru: saves" in served.log())
    assert served.stop() == 0


@pytest.mark.parametrize(
    ("fast", "slow", "message"),
    [
        ("nowhere", "slow", "--fast nowhere: no such folder"),
        ("fast", "fast/inside", "one is inside the other"),
        ("fast", "other", "not the slow volume of"),
    ],
)
def test_wrong_folders_are_one_line(
    fast: str,
    slow: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("fast/inside", "slow", "other"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with opened_pair("fast", "slow"):
        pass
    assert main(["serve", "tier", "--fast", fast, "--slow", slow, "--capacity", "1MB"]) == 2
    assert message in capsys.readouterr().err


def test_one_program_moves_the_files_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volumes = Volumes(tmp_path)
    words = ["serve", "tier", "--fast", volumes.pair.fast, "--slow", volumes.pair.slow, "--capacity"]
    with opened_pair(volumes.pair.fast, volumes.pair.slow):
        assert main([*words, "1MB"]) == 2
    assert "another fairlead serve tier moves its files" in capsys.readouterr().err
    assert main([*words, "0"]) == 2
    assert main([*words, "1MB", "--policy", "best"]) == 2
    assert main(["augment", "tier", "--status", str(tmp_path)]) == 2
    assert main(["augment", "tier", "--trace", "x.csv"]) == 2
    assert "--capacity is not set" in capsys.readouterr().err


def test_a_new_fast_volume_gets_links_to_every_slow_file(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    with opened_pair(volumes.pair.fast, volumes.pair.slow):
        pass
    volumes.on_slow("a/b", b"kept")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with opened_pair(str(fresh), volumes.pair.slow) as (_, lines):
        assert lines == [f"links made for 1 files of {volumes.pair.slow}"]
    assert (fresh / "a" / "b").read_bytes() == b"kept"
