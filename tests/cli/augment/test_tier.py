"""`fairlead augment tier`: its document, its page, and one line for every wrong word."""

import json
from pathlib import Path

import pytest

from fairlead.cli.main import main

TRACE = "time,key,bytes,op\n" + "".join(f"{n},{'abac'[n % 4]},1000,read\n" for n in range(40))


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def test_the_document(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["augment", "tier", "--trace", trace, "--capacity", "2000", "--explain", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["policies", "chosen", "why", "accesses", "frontier"]
    assert list(document["policies"]) == ["none", "lru", "lru-ghost", "s3-fifo", "2q", "arc"]
    lru = document["policies"]["lru"]
    saved = 0.008 + 1000 / 150e6 - 1000 / 500e6
    cost = 0.008 + 1000 / 150e6 + 1000 / 500e6
    assert lru == {
        "hit_ratio": 0.475,
        "byte_hit_ratio": 0.475,
        "moves": 21,
        "bytes_moved": 21_000,
        "net_s": pytest.approx(19 * saved - 21 * cost),
        "promotions": 21,
        "dirty_demotions": 0,
        "clean_demotions": 19,
    }
    chosen = document["policies"][document["chosen"]]
    assert chosen["net_s"] == max(each["net_s"] for each in document["policies"].values())
    assert document["frontier"][0] == {"policy": "none", "hit_ratio": 0.0, "moves": 0}


def test_the_page(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["augment", "tier", "--trace", trace, "--capacity", "1Mi", "--seek", "4ms"]) == 0
    page = capsys.readouterr().out.splitlines()
    assert page[0] == "40 accesses, 1.0 MiB on the fast volume"
    assert page[1].split() == ["POLICY", "HITS", "BYTE", "HITS", "MOVES", "MOVED", "NET", "TIME"]
    assert page[-1].startswith(
        ("lru: saves", "lru-ghost: saves", "s3-fifo: saves", "2q: saves", "arc: saves")
    )
    main(["augment", "tier", "--trace", trace, "--capacity", "1Mi", "--explain"])
    assert "The frontier" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--capacity", "0"], "--capacity 0: no file fits"),
        (["--capacity", "-1"], "--capacity -1: '-1' is not an amount of memory"),
        (["--capacity", "1Gi", "--hdd", "0MB/s"], "--hdd 0MB/s: a volume has a rate above 0"),
        (["--capacity", "1Gi", "--ssd", "fast"], "--ssd fast: 'fast' is not a bandwidth"),
        (["--capacity", "1Gi", "--seek", "8"], ""),
        (["--capacity", "1Gi", "--seek", "8 parsecs"], "--seek 8 parsecs: '8 parsecs' is not a duration"),
        (["--capacity", "1Gi", "--trace", "/nowhere.csv"], "/nowhere.csv: cannot be read: No such file"),
    ],
)
def test_a_wrong_word_is_one_line_and_a_hint(
    trace: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["augment", "tier", "--trace", trace, *words]) == (2 if message else 0)
    assert message in capsys.readouterr().err
