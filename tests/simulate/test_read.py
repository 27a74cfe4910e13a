"""Reading traces: documents, tables, recorded clusters, and errors that name file and field."""

import gzip
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from fairlead.catalog import load
from fairlead.errors import FairleadError
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Demand, Gang, Request
from fairlead.share import DeviceShare
from fairlead.simulate.trace.job import Trace
from fairlead.simulate.trace.machines import read_fleet
from fairlead.simulate.trace.read import TraceReader, check_faults
from fairlead.units import Bytes
from tests.simulate.plays import play

CATALOG = load([])
GIB = 1 << 30
JOB = "jobs: [{name: a, duration: 5m, gpu-memory: 3GiB}]\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time\n"


def written(tmp_path: Path, text: str | bytes, name: str = "trace.yaml") -> str:
    """Return the path of a file with this text."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def trace(tmp_path: Path, text: str, over: float | None = None, name: str = "trace.yaml") -> Trace:
    """Return the trace of a text."""
    return TraceReader(CATALOG, 0, over).read(written(tmp_path, text, name))


def test_a_job_has_its_request_and_its_real_use(tmp_path: Path) -> None:
    text = """
jobs:
  - name: a
    at: 2m
    duration: 1h
    start: 10s
    gpu-memory: 3GiB
    over-provision: 50
    most: 4GiB
    models: [t4, a10]
    cpu: 1.5
    memory: 1GiB
    priority: -5
    load: 0.25
    real: {start: 1GiB, plateau: 3GiB, ramp: 8s, spikes: [{after: 20s, for: 2s, memory: 5GiB}]}
"""
    (job,) = trace(tmp_path, text).jobs
    (request,) = job.requests
    assert (job.arrival, job.duration, job.start, job.load) == (120, 3600, 10, 0.25)
    assert request.demand.memory == 4 << 30
    assert (request.demand.count, request.demand.models) == (1, ("t4", "a10"))
    assert (request.cpu, request.memory, request.priority) == (1500, 1 << 30, -5)
    assert [step.memory / 2**30 for step in job.memory][-3:] == [3, 5, 3]
    assert [step.after for step in job.memory][-3:] == [8, 20, 22]


def test_over_provision_of_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    (job,) = trace(tmp_path, JOB, over=100).jobs
    assert job.requests[0].demand.memory == 6 << 30
    assert job.memory[0].memory == 3 << 30


def test_replicas_are_a_gang(tmp_path: Path) -> None:
    (job,) = trace(tmp_path, "jobs: [{name: a, duration: 5m, accelerators: 2, replicas: 3}]").jobs
    assert [request.name for request in job.requests] == ["a-0", "a-1", "a-2"]
    assert all(request.whole and request.gang and request.gang.size == 3 for request in job.requests)


def test_a_recipe_makes_the_same_jobs_for_the_same_seed(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "generate: [{name: g, count: 50, arrivals: uniform 20s-40s, duration: exponential 9s, cpu: 1}]",
    )
    first, again, other = (TraceReader(CATALOG, seed).read(path).jobs for seed in (1, 1, 2))
    assert first == again != other
    gaps = [after.arrival - before.arrival for before, after in pairwise(first)]
    assert first[0].arrival == 0
    assert all(20 <= gap <= 40 for gap in gaps)


def test_a_mix_draws_by_weight(tmp_path: Path) -> None:
    mix = "[{weight: 3, duration: 1s, gpu-memory: 1GiB}, {duration: 2s, gpu-memory: 2GiB}]"
    text = f"generate: [{{name: g, count: 400, mix: {mix}}}]"
    jobs = trace(tmp_path, text).jobs
    assert 260 <= sum(job.duration == 1 for job in jobs) <= 340


def test_a_table_gives_the_same_jobs_as_a_document(tmp_path: Path) -> None:
    text = (
        "name,at,duration,gpu-memory,models,real-start,real-plateau,real-ramp\n"
        "a,1m,5m,3GiB,t4|a10,1GiB,2GiB,8s\nb,0,60,1GiB,,,,\n"
    )
    first, second = trace(tmp_path, text, name="trace.csv").jobs
    assert (first.arrival, first.duration, first.requests[0].demand.models) == (60, 300, ("t4", "a10"))
    assert (first.memory[-1].memory, second.memory) == (2 << 30, ())


def test_a_recorded_cluster_has_its_times_and_no_interference(tmp_path: Path) -> None:
    pods = (
        PODS
        + "p0,1000,512,1,500,T4|A10,LS,Running,100,250\np1,1000,512,0,0,,BE,Running,130,140\n"
        + "p2,1,1,1,1000,,LS,Failed,9,9\n"
    )
    path = written(tmp_path, gzip.compress(pods.encode()), "pods.csv.gz")
    trace_read = TraceReader(CATALOG).read(path)
    assert [(job.name, job.arrival, job.duration) for job in trace_read.jobs] == [
        ("p0", 91, 150),
        ("p1", 121, 10),
    ]
    assert trace_read.jobs[0].requests[0].demand.models == ("A10", "T4")
    assert trace_read.settings == {"interference": "none"}
    nodes = written(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\n", "nodes.csv")
    fleet = read_fleet(nodes, CATALOG)
    assert len(fleet.nodes[0].devices) == 2
    assert float(fleet.power["T4"].full) == 70


def test_machines_take_their_figures_from_the_catalog(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: nano, count: 2, cpu: 4, memory: 4GiB, devices: [jetson-nano], taints: ["edge=yes:NoSchedule"]}
  - {name: server, devices: [{model: v100, count: 2, memory: 32510MiB}]}
power:
  v100: {idle: 26.5, full: 250}
"""
    fleet = read_fleet(written(tmp_path, text), CATALOG)
    assert [node.name for node in fleet.nodes] == ["nano-0", "nano-1", "server"]
    assert fleet.nodes[0].devices[0].unified
    assert str(fleet.nodes[0].taints[0]) == "edge=yes:NoSchedule"
    assert [device.id for device in fleet.nodes[2].devices] == ["v100-0", "v100-1"]
    assert fleet.nodes[2].devices[0].memory == 32510 << 20
    assert (fleet.power["v100"].idle, fleet.power["v100"].awake) == (26.5, 37.5)


WRONG = {
    "jobs: []": "no jobs",
    "[1, 2]": "expected fields with names, found a list",
    "version: 7\n" + JOB: "version: 7 is not one that is known",
    "jobs: [{name: a, duration: 5m, gpu-memory: -3}]": "gpu-memory: -3 is negative",
    "jobs: [{name: a, duration: 5m, gpu-memory: .nan}]": "gpu-memory: nan is not an amount",
    "jobs: [{name: a, duration: 5m, gpu-memory: 1e300}]": "gpu-memory: ",
    "jobs: [{name: a, duration: 5m, gpu-memory: much}]": "gpu-memory: 'much' is not an amount of memory",
    "jobs: [{name: a, duration: 5m, gpu-memory: 0}]": "gpu-memory: 0 is less than 1 MiB",
    "jobs: [{name: a, duration: 5m, accelerators: 1.5}]": "accelerators: '1.5' is not a whole number",
    "jobs: [{name: a, duration: 0s, gpu-memory: 1GiB}]": "duration: 0.0 is not a positive number",
    "jobs: [{name: a, duration: soon, gpu-memory: 1GiB}]": "duration: 'soon' is not a duration",
    "jobs: [{name: a, gpu-memory: 1GiB}]": "duration is missing",
    "jobs: [{name: a, duration: 1s, gpu-memroy: 1GiB}]": "unknown key 'gpu-memroy'",
    "jobs: [{name: a, duration: 1s, models: [t44]}]": "models",
    "jobs: [{name: a, duration: 1s, compute: 1.5}]": "compute: 1.5 is more than",
    "jobs: [{name: a, duration: 1s, load: 1.5}]": "load: 1.5 is not between 0 and 1",
    "jobs: [{name: a, duration: 1s, load: .nan}]": "load: nan is not a valid number",
    "jobs: [{name: a, duration: 1s, real: {plateau: -1}}]": "plateau: -1 is not a number",
    "jobs: [{name: a, duration: 1s, priority: high}]": "priority: 'high'",
    "jobs: [{name: a, duration: 1s, replicas: 99999}]": "replicas: 99999 is not 10000 or less",
    "jobs: [{name: a, duration: 1s}, {name: a, duration: 1s}]": "two jobs are called 'a'",
    "generate: [{name: g, count: 9999999, duration: 1s}]": "count: 9999999 is not 1000000 or less",
    "generate: [{name: g, count: 1, arrivals: sometimes 3s, duration: 1s}]": "arrivals: 'sometimes 3s'",
    "generate: [{name: g, count: 1, arrivals: uniform 40s-20s, duration: 1s}]": "the range is invalid",
    "generate: [{name: g, count: 1, mix: [{weight: 0, duration: 1s}]}]": "a weight above 0",
    "failures: {node: {mtbf: 0s, mttr: 1s}}\n" + JOB: "mtbf and mttr must be more than 0",
    "nodes: [{name: a, devices: [v1000]}]\n" + JOB: "v1000",
    "nodes: [{name: a}, {name: a}]\n" + JOB: "there are two nodes 'a'",
    "nodes: [{name: a, taints: [x]}]\n" + JOB: "'x' is not a taint",
    "a: [": "trace.yaml",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_name_file_and_field(tmp_path: Path, text: str) -> None:
    with pytest.raises(FairleadError) as caught:
        trace(tmp_path, text)
    assert "trace.yaml" in str(caught.value)
    assert WRONG[text] in str(caught.value)
    assert caught.value.exit_code == 2


BAD_FILES = {
    "truncated gzip": (gzip.compress(PODS.encode() * 50)[:60], "pods.csv.gz"),
    "binary": (b"\x00\xff\xfe\x80" * 100, "trace.csv"),
    "binary document": (b"\x00\xff\xfe\x80" * 100, "trace.yaml"),
    "no times": (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n", "pods.csv"),
    "too many cells": (b"name,at,duration\na,0,1s,9,9\n", "trace.csv"),
    "no such column": (b"name,at,duration,colour\na,0,1s,red\n", "trace.csv"),
    "nothing": (b"", "trace.csv"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_named(tmp_path: Path, case: str) -> None:
    data, name = BAD_FILES[case]
    with pytest.raises(FairleadError) as caught:
        TraceReader(CATALOG).read(written(tmp_path, data, name))
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["missing.yaml", "missing.csv", "folder.csv", "folder.yaml"])
def test_a_path_that_is_not_a_file_is_named(tmp_path: Path, name: str) -> None:
    if name.startswith("folder"):
        (tmp_path / name).mkdir()
    for read in (lambda path: TraceReader(CATALOG).read(path), lambda path: read_fleet(path, CATALOG)):
        with pytest.raises(FairleadError, match=name):
            read(str(tmp_path / name))


def test_faults_of_unknown_machines_are_refused(tmp_path: Path) -> None:
    head = "nodes: [{name: a, devices: [t4]}]\n" + JOB
    for fault, text in {
        "{at: 1s, node: b}": "there is no node 'b'",
        "{at: 1s, node: a, device: x}": "a has no accelerator 'x'",
    }.items():
        trace_read = trace(tmp_path, f"{head}faults: [{fault}]")
        assert trace_read.fleet is not None
        with pytest.raises(FairleadError, match=text):
            check_faults(trace_read, trace_read.fleet)


def test_in_a_snapshot_running_pods_stay_and_pending_pods_arrive(tmp_path: Path) -> None:
    node = NodeState("server", 8000, Bytes(GIB), devices=(DeviceState("t4-0", "t4", memory=Bytes(8 * GIB)),))
    old = Request("old", uid="1", demand=Demand(1, memory=Bytes(6 * GIB)))
    ring = Gang("ring", 2)
    waiting = (
        Request("large", uid="2", demand=Demand(1, memory=Bytes(3 * GIB))),
        *(Request(name, uid=name, gang=ring, demand=Demand(1, memory=Bytes(GIB))) for name in "ab"),
    )
    taken = Snapshot((node,), (Placement(old, "server", (DeviceShare("t4-0", Bytes(6 * GIB)),)),), waiting)
    path = written(tmp_path, json.dumps(taken.to_json()), "snapshot.json")
    trace_read = TraceReader(CATALOG, duration=60.0).read(path)
    assert trace_read.fleet is not None
    outcome = play(trace_read.jobs, trace_read.fleet)
    states = {record.job.name: record.state.value for record in outcome.records}
    assert states == {"2": "refused", "default/ring": "done"}
    assert outcome.recorder.peak("allocated") == pytest.approx(1.0)
    path = written(tmp_path, json.dumps(replace(taken, pending=()).to_json()), "calm.json")
    with pytest.raises(FairleadError, match="it has no pending pods"):
        TraceReader(CATALOG).read(path)


def test_manifests_arrive_at_once_on_a_snapshot_whose_pods_keep_their_places(tmp_path: Path) -> None:
    cluster = """
nodes: [{name: server, devices: [{model: t4, memory: 8GiB}]}]
running: [{name: old, gpu-memory: 6GiB, node: server, devices: [t4-0]}]
"""
    pods = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  priority: 100
  containers: [{name: c, resources: {limits: {fairlead.dev/gpu-mem: 3072}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec:
  containers: [{name: c, resources: {limits: {fairlead.dev/gpu-mem: 1024}}}]
"""
    fleet = read_fleet(written(tmp_path, cluster, "cluster.yaml"), CATALOG)
    assert [placement.request.name for placement in fleet.residents] == ["old"]
    path = written(tmp_path, pods, "pods.yaml")
    trace_read = TraceReader(CATALOG, fleet=fleet, duration=60.0).read(path)
    outcome = play(trace_read.jobs, fleet)
    states = {record.job.requests[0].name: record.state.value for record in outcome.records}
    assert states == {"web": "refused", "small": "done"}
    assert outcome.recorder.peak("allocated") == pytest.approx(7 / 8)
    with pytest.raises(FairleadError, match="have no machines"):
        TraceReader(CATALOG).read(path)
