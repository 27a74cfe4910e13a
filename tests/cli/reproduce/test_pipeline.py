"""`fairlead reproduce pipeline`: its options, its page and its picture; nothing is measured."""

from typing import Any
from xml.etree import ElementTree

import pytest

from fairlead.cli.main import build_parser, main
from fairlead.cli.output.terminal import Page
from fairlead.cli.reproduce.pipeline import page, read_experiment
from fairlead.reproduce.thesis.plot import svg


def row(arrangement: str, height: int, rate: float, gain: float) -> dict[str, Any]:
    return {
        "kernel": "slow",
        "width": height * 16 // 9,
        "height": height,
        "arrangement": arrangement,
        "frames_per_s": rate,
        "latency_s": 0.036,
        "ccr": 0.25 if "process" in arrangement else None,
        "gain": gain,
        "limit": 2.0,
    }


ANSWER: dict[str, Any] = {
    "cores": 2,
    "rounds": 3,
    "published": [
        {
            "machine": "server (Xeon)",
            "cores": 32,
            "one_process": 15.9,
            "four_processes": 27.9,
            "stated_gain_percent": 76.58,
            "gain": 27.9 / 15.9,
        }
    ],
    "one_machine": [
        row("1 process", 360, 110.0, 1.0),
        row("1 process", 720, 27.5, 1.0),
        row("4 processes", 360, 140.0, 1.27),
        row("4 processes", 720, 34.1, 1.24),
        row("2 copies", 360, 190.0, 1.73),
        row("2 copies", 720, 51.3, 1.86),
    ],
    "emulated": {
        "bits_per_s": 1e8,
        "delay_s": 0.005,
        "loss": 0.01,
        "edge_cpu": 0.25,
        "quota": "cgroup v2 cpu.max 2500/10000 us",
    },
    "cuts": [
        {
            "cut": "ESSS",
            "bytes": 921_600,
            "kernel": "slow",
            "width": 1280,
            "height": 720,
            "frames_per_s": 12.8,
            "latency_s": 0.135,
            "ccr": 1.44,
        }
    ],
    "missing": [],
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sizes", "720p"], "--sizes 720p: '720p' is no size"),
        (["--sizes", "4x4"], "'4x4' is no size"),
        (["--rounds", "0"], "--rounds 0: not a number from 1 to 99"),
        (["--edge-cpu", "2"], "--edge-cpu 2: not a part from 0.05 to 1"),
        (["--loss", "60"], "--loss 60: not a percentage from 0 to 50"),
        (["--rate", "fast"], "--rate fast:"),
        (["--rate", "1kb/s"], "--rate 1kb/s: not from 1Mb/s to 100Gb/s"),
        (["--delay", "9s"], "--delay 9s: not from 0 to 5s"),
        (["--delay", "soon"], "--delay soon:"),
    ],
)
def test_options_that_must_be_changed(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["reproduce", "pipeline", *words]) == 2
    assert message in capsys.readouterr().err


def test_what_options_ask_for() -> None:
    words = ["reproduce", "pipeline", "--sizes", "64x32,1280x720", "--rate", "20Mb/s", "--delay", "5ms"]
    full = read_experiment(build_parser().parse_args(words))
    assert [(each.kernel, each.size) for each in full.workloads] == [
        ("slow", "64x32"),
        ("slow", "1280x720"),
        ("fast", "64x32"),
        ("fast", "1280x720"),
    ]
    assert [(each.kernel, each.size) for each in full.cut_workloads] == [
        ("slow", "1280x720"),
        ("fast", "1280x720"),
    ]
    assert full.emulation is not None
    assert (full.emulation.bits_per_s, full.emulation.delay_s, full.emulation.edge_cpu) == (2e7, 0.005, 0.25)
    quick = read_experiment(build_parser().parse_args([*words, "--quick", "--kernel", "fast"]))
    assert (quick.rounds, len(quick.workloads), len(quick.cut_workloads)) == (1, 2, 1)


def test_people_read_published_figures_beside_those_of_here() -> None:
    text = str(Page.of(*page(ANSWER)))
    assert "server (Xeon)  32     15.9/s       27.9/s  1.75x  1.24x" in text
    assert "slow    1280x720  2 copies     51.3      1.86x  2.00x  36 ms    -" in text
    assert "slow    1280x720  ESSS  921,600  12.8      135 ms   1.44" in text
    assert "Emulated on one machine" in text
    assert "delay 5 ms each way, 1 % of reads held as lost" in text


def test_pods_stand_beside_the_same_cut() -> None:
    pods = {"frames_per_s": 11.9, "latency_s": 0.151, "ccr": 1.62}
    how = ANSWER["emulated"] | {"edge": "node-2", "server": "node-1"}
    other = ANSWER["cuts"][0] | {"cut": "EEEE", "pods": None}
    answer = ANSWER | {"lab": how, "cuts": [ANSWER["cuts"][0] | {"pods": pods}, other]}
    text = str(Page.of(*page(answer)))
    assert "CCR   PODS  PODS LATENCY  PODS CCR" in text
    assert "ESSS  921,600  12.8      135 ms   1.44  11.9  151 ms        1.62" in text
    assert "EEEE  921,600  12.8      135 ms   1.44  -     -             -" in text
    assert "two real nodes, node-2 (edge) and node-1 (server)" in text
    assert "PODS" not in str(Page.of(*page(ANSWER | {"lab": None})))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--images", "build"], "--images is of --lab"),
        (["--lab", "--images", "nowhere"], "nowhere/fairlead-operator-image.tar: no such image"),
    ],
)
def test_a_lab_needs_images(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["reproduce", "pipeline", *words]) == 2
    assert message in capsys.readouterr().err


def test_without_hosts_the_page_says_what_is_missing() -> None:
    answer = ANSWER | {"emulated": None, "cuts": [], "missing": ["the cuts between edge and server: no root"]}
    text = str(Page.of(*page(answer)))
    assert "CUT" not in text
    assert text.rstrip().endswith("Missing: the cuts between edge and server: no root.")


def test_the_picture_has_a_line_for_each_arrangement() -> None:
    texts = {
        each.text for each in ElementTree.fromstring(svg(ANSWER)).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"1 process", "4 processes", "2 copies", "slow kernel: frames/s"} <= texts
