"""The published protocol, on a small trace."""

import argparse
import gzip
from pathlib import Path

import pytest

from fairlead.cli.model import bench_openb
from fairlead.errors import FairleadError
from fairlead.request import Demand
from fairlead.schedule import POLICIES
from fairlead.simulate.trace.openb import (
    DEMAND,
    compute_of,
    fill,
    inflate,
    read_nodes,
    read_pods,
    shuffle_names,
)
from fairlead.units import Bytes

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n-{at},{cpu},65536,{gpus},{model}\n"
    for at, (cpu, gpus, model) in enumerate([(32000, 4, "T4"), (64000, 8, "G2"), (16000, 2, "P100")] * 4)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n" + "".join(
    f"p-{at},{cpu},1024,{count},{milli},{spec},LS\n"
    for at, (cpu, count, milli, spec) in enumerate(
        [
            (4000, 1, 500, ""),
            (8000, 1, 1000, "T4|G2"),
            (2000, 1, 250, ""),
            (4000, 0, 0, ""),
            (9000, 4, 1000, ""),
        ]
        * 4
    )
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(NODES)
    with gzip.open(tmp_path / "pods.csv.gz", "wt") as file:
        file.write(PODS)
    return tmp_path


def test_lists_are_read_plain_or_compressed(folder: Path) -> None:
    nodes, pods = read_nodes(str(folder / "nodes.csv")), read_pods(str(folder / "pods.csv.gz"))
    assert (nodes[1].cpu, nodes[1].memory, len(nodes[1].devices)) == (64000, 64 << 30, 8)
    assert nodes[2].devices[1].model == "P100"
    assert pods[1].demand == Demand(1, compute=1000, models=("G2", "T4"))
    assert (pods[3].demand, pods[3].memory) == (Demand(), Bytes(1 << 30))


def test_columns_beyond_the_first_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,460\n")
    assert read_pods(str(path))[0].demand == Demand(1, compute=460)


def test_demand_grows_to_its_target_and_the_seed_decides_the_order(folder: Path) -> None:
    pods = read_pods(str(folder / "pods.csv.gz"))
    capacity = 56_000
    arrived = inflate(pods, capacity, 42)
    assert sum(map(compute_of, arrived)) >= DEMAND * capacity
    assert {pod.name for pod in pods} <= {pod.name for pod in arrived}
    assert len({pod.name for pod in arrived}) == len(arrived)
    assert [pod.name for pod in arrived] == [pod.name for pod in inflate(pods, capacity, 42)]
    assert [pod.name for pod in arrived] != [pod.name for pod in inflate(pods, capacity, 43)]


def test_nodes_swap_names(folder: Path) -> None:
    nodes = read_nodes(str(folder / "nodes.csv"))
    swapped = shuffle_names(nodes, 1)
    assert sorted(node.name for node in nodes) == [node.name for node in swapped]
    assert sorted(node.cpu for node in nodes) == sorted(node.cpu for node in swapped)
    assert [node.cpu for node in swapped] != [node.cpu for node in nodes]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_fills_the_cluster_deterministically(folder: Path, policy: str) -> None:
    nodes, pods = read_nodes(str(folder / "nodes.csv")), read_pods(str(folder / "pods.csv.gz"))
    reported: list[float] = []
    one = fill(nodes, pods, POLICIES[policy], 42, reported.append)
    two = fill(nodes, pods, POLICIES[policy], 42)
    assert (one.allocation, one.refused) == (two.allocation, two.refused)
    assert 0.4 < one.allocation <= 1
    assert reported


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "has no column name"),
        (b"name,cpu_milli\np,1\n", "has no column memory_mib, num_gpu, gpu_milli"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1\n", "line 2: the line ends too early"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,nan,1,1,1000\n", "line 2: cpu_milli: 'nan'"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,-1,1,1,1000\n", "line 2: cpu_milli: '-1'"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1.5,1,1,1000\n", "line 2: cpu_milli: '1.5'"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1e30,1,1,1000\n", "line 2: cpu_milli"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1001\n", "line 2: gpu_milli: 1001"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,0\n", "line 2: gpu_milli: 0"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n,1,1,1,1000\n", "line 2: name: is empty"),
        (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,0,0\n", "no pod asks"),
        (b"\x00\xff\xfe" * 100, "is not a CSV file"),
        (gzip.compress(PODS.encode(), mtime=0)[:-20], "pods.csv"),
        (gzip.compress(PODS.encode(), mtime=0)[:30] + b"rotten", "pods.csv"),
    ],
)
def test_bad_lists_are_reported_by_line_and_column(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_bytes(content)
    with pytest.raises(FairleadError, match=text):
        read_pods(str(path))


@pytest.mark.parametrize("name", ["", "none.csv"])
def test_a_path_that_is_not_a_file_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(FairleadError, match=str(tmp_path)):
        read_nodes(str(tmp_path / name))


def test_nodes_without_accelerators_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,\n")
    with pytest.raises(FairleadError, match="no node has an accelerator"):
        read_nodes(str(path))
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,99999,T4\n")
    with pytest.raises(FairleadError, match="more than a node has"):
        read_nodes(str(path))


def command(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench_openb.add(parser.add_subparsers())
    return parser.parse_args(["openb", *words])


def test_the_command_prints_the_contract(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--pods", str(folder / "pods.csv.gz"), "--nodes", str(folder / "nodes.csv"), "--seeds", "2"]
    options = command(*files, "-o", "json")
    assert options.run(options) == 0
    printed = capsys.readouterr().out
    for key in ('"policy"', '"nodes"', '"gpus"', '"allocation_percent_mean"', '"seeds"', '"seconds"'):
        assert key in printed
    options = command(*files)
    assert options.run(options) == 0
    assert "fairlead on 12 nodes with 56 accelerators" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--seeds", "0"), ("--policy", "nonsense")])
def test_the_command_refuses_invalid_options(folder: Path, words: tuple[str, ...]) -> None:
    options = command("--pods", str(folder / "pods.csv.gz"), "--nodes", str(folder / "nodes.csv"), *words)
    with pytest.raises(FairleadError):
        options.run(options)
