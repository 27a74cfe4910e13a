"""A cluster from files: the devices of nodes by each source, their holders, and invalid files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cache.clusterfile import read_cluster
from fairlead.cache.listed_cluster import ListedCluster
from fairlead.errors import ManifestError
from fairlead.manifest.files import snapshot
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import PLACEMENTS, DeviceState
from fairlead.publish.labels import labels
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.whatif.local import decide_locally
from tests import accelerators
from tests.manifest.worlds import CATALOG, collect_objects, pod

GIB = 1 << 30


def node(
    has: dict[str, str] | None = None, annotations: dict[str, str] | None = None, name: str = "worker"
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": {}},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", **(has or {})}},
    }


def read(objects: FoundObjects) -> Snapshot:
    """Return the cluster of a file."""
    return ListedCluster.of_files(objects, CATALOG).snapshot


def devices(*manifests: dict[str, Any]) -> tuple[DeviceState, ...]:
    return read(collect_objects(*manifests)).nodes[0].devices


def running(name: str, limits: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return pod(limits, annotations, name, nodeName="worker")


def test_our_labels_name_accelerators() -> None:
    inventory = accelerators.node(
        *(accelerators.accelerator(f"pci:0000:0{bus}:00.0", model="t4", mebibytes=15360) for bus in (1, 2))
    )
    manifest = node()
    manifest["metadata"]["labels"] = labels(inventory)
    listed = devices(manifest)
    assert [each.model for each in listed] == ["t4", "t4"]
    assert {each.vendor for each in listed} == {"NVIDIA"}


@pytest.mark.parametrize(
    ("manifest", "device"),
    [
        (node({"nvidia.com/gpu": "1"}), DeviceState("nvidia-0", "", "NVIDIA", shareable=False)),
        (
            node({"aliyun.com/gpu-mem": "15", "aliyun.com/gpu-count": "1"}),
            DeviceState("gpu-0", "", "NVIDIA", Bytes(15 * GIB)),
        ),
        (
            node({"aliyun.com/gpu-mem": "15360", "aliyun.com/gpu-count": "1"}),
            DeviceState("gpu-0", "", "NVIDIA", Bytes(15 * GIB)),
        ),
    ],
)
def test_devices_of_other_plugins(manifest: dict[str, Any], device: DeviceState) -> None:
    assert devices(manifest) == (device,)


def test_an_annotation_names_the_holders_of_a_device() -> None:
    held = json.dumps({"version": 1, "accelerators": {"t4-1": {"memory": {"default/web/main": 2048}}}})
    manifest = node(annotations={"fairlead.dev/allocated": held})
    manifest["metadata"]["labels"] = {
        **{
            f"fairlead.dev/t4.{key}": value
            for key, value in (("count", "2"), ("usable", "2"), ("kind", "gpu"))
        },
        "fairlead.dev/t4.memory-mib": "15360",
    }
    cluster = read(collect_objects(manifest, running("web", {"fairlead.dev/gpu-mem": 2048})))
    assert cluster.placements[0].shares == (DeviceShare("t4-1", Bytes(2 * GIB)),)


def test_a_pod_without_a_reported_gpu_fills_the_fullest() -> None:
    pods = [running(f"p{number}", {"aliyun.com/gpu-mem": 6}) for number in range(3)]
    manifest = node({"aliyun.com/gpu-mem": "30", "aliyun.com/gpu-count": "2"})
    cluster = read(collect_objects(manifest, *pods))
    assert [placement.shares[0].device for placement in cluster.placements] == ["gpu-0", "gpu-0", "gpu-1"]


def test_an_unbound_pod_is_pending_and_controllers_are_not_counted_twice() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": []}}},
    }
    cluster = read(collect_objects(node(), pod(name="waits"), deployment))
    assert [each.name for each in cluster.pending] == ["waits"]


def test_one_invalid_pod_does_not_hide_the_cluster() -> None:
    bad = running("bad", {"fairlead.dev/nonsense": 1})
    bad["metadata"]["uid"] = "uid-bad"
    live = ListedCluster.of(collect_objects(node(), bad, running("good", {})), CATALOG)
    # The pod counts as placed; the amount that it holds is unknown.
    assert sorted(placement.request.name for placement in live.snapshot.placements) == ["bad", "good"]
    assert "Pod default/bad" in str(live.read_errors[0])


def test_lists_are_expanded(tmp_path: Path) -> None:
    bare = {key: value for key, value in node(name="b").items() if key not in ("apiVersion", "kind")}
    nested = {"apiVersion": "v1", "kind": "NodeList", "items": [bare]}
    whole = {"apiVersion": "v1", "kind": "List", "items": [node(name="a"), nested]}
    (tmp_path / "nodes.json").write_text(json.dumps(whole))
    cluster = read_cluster([str(tmp_path / "nodes.json")], CATALOG)
    assert [each.name for each in cluster.nodes] == ["a", "b"]


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"nodes": [{"name": "a", "devices": ["t5"]}]}, "nodes[0].devices[0].model: no device 't5'"),
        ({"nodes": [{"name": "a", "cpu": -1}]}, "nodes[0].cpu: -1 is negative"),
        ({"nodes": [{"name": "a", "memory": "lots"}]}, "nodes[0].memory: 'lots'"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "nodes[1]: there are two nodes 'a'"),
        ({"nodes": [{"cpu": 1}]}, "nodes[0].name: missing"),
        ({"nodes": [{"name": "a", "count": 10**9}]}, "nodes[0].count: 1000000000 is more than"),
        (
            {"nodes": [{"name": "a", "devices": [{"model": "t4", "count": 99}]}]},
            "devices[0].count: 99 is more than",
        ),
        ({"nodes": [{"name": "a", "taints": ["x"]}]}, "taints[0]: 'x' is not a taint"),
        ({"nodes": [{"name": "a", "labels": {"a": 1}}]}, "nodes[0].labels.a: 1 is not a string"),
        ({"nodes": [{"name": "a", "gpus": 2}]}, "nodes[0]: unknown key 'gpus'"),
        ({"nodes": {"a": 1}}, "nodes: not a list"),
        (
            {"nodes": [{"name": "a"}], "running": [{"name": "p", "node": "b"}]},
            "running[0].node: there is no node 'b'",
        ),
        (
            {
                "nodes": [{"name": "a", "devices": ["t4"]}],
                "running": [{"name": "p", "node": "a", "gpu-memory": "1GiB"}],
            },
            "running[0].devices: 0 named, 1 asked for",
        ),
        ({"workloads": []}, "neither a snapshot, nor manifests, nor nodes"),
        ([1], "neither a snapshot, nor manifests, nor nodes"),
        (pod(), "no nodes in it"),
        (node({"cpu": "-3"}), "status.allocatable.cpu: -3 is negative"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": 3}}, "Node: metadata.name: missing"),
    ],
)
def test_invalid_cluster_files(tmp_path: Path, cluster: Any, message: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(cluster))
    with pytest.raises(ManifestError) as caught:
        read_cluster([str(path)], CATALOG)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def shared_claim() -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Return the slice of a node's only device, the claim that holds it, and a pod's reference to it."""
    devices = [
        {
            "name": "gpu-0",
            "attributes": {"model": {"string": "t4"}},
            "capacity": {"memory": {"value": "15Gi"}},
        }
    ]
    spec = {"driver": "fairlead.dev", "nodeName": "worker", "pool": {"name": "worker"}, "devices": devices}
    listed = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }
    exactly = {"name": "r", "exactly": {"deviceClassName": "fairlead.dev"}}
    result = {"driver": "fairlead.dev", "pool": "worker", "device": "gpu-0"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [exactly]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    return listed, claim, [{"name": "g", "resourceClaimName": "c"}]


def test_a_pod_whose_claim_is_allocated_goes_where_its_device_is() -> None:
    listed, claim, named = shared_claim()
    holder = pod(name="one", nodeName="worker", resourceClaims=named)
    late = pod(name="late", resourceClaims=named)
    late["metadata"]["uid"] = "uid-late"
    objects = collect_objects(node(), listed, claim, holder, late)
    (request,) = read(objects).pending
    assert request.demand.count == 0
    waiting = next(each.body for each in objects.all("Pod") if each.body.metadata.name == "late")
    decision = decide_locally(objects, CATALOG, waiting)
    assert (decision["node"], decision["victims"]) == ("worker", [])


def test_pods_that_share_a_claim_hold_it_once() -> None:
    listed, claim, named = shared_claim()
    pods = [pod(name=name, nodeName="worker", resourceClaims=named) for name in ("one", "two")]
    one, two = read(collect_objects(node(), listed, claim, *pods)).placements
    assert one.shares == (DeviceShare("gpu-0", Bytes(15 * GIB), 1000, whole=True),)
    assert (two.shares, two.request.demand.count) == ((), 0)


@pytest.mark.parametrize(("names", "counted", "held"), [(("pci-2",), False, []), ((), True, ["t4-0"])])
def test_the_holder_of_a_device_that_no_source_names(
    names: tuple[str, ...], counted: bool, held: list[str]
) -> None:
    manifest = node()
    for key, value in {"count": "2", "usable": "2", "kind": "gpu", "memory-mib": "15360"}.items():
        manifest["metadata"]["labels"][f"fairlead.dev/t4.{key}"] = value
    rows = [{"name": name, "attributes": {"model": {"string": "t4"}}} for name in names]
    spec = {"driver": "fairlead.dev", "nodeName": "worker", "pool": {"name": "worker"}, "devices": rows}
    listed = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }
    placement = PLACEMENTS.encode((DeviceShare("pci-1", Bytes(GIB)),))
    holder = running("web", {"fairlead.dev/gpu-mem": 1024}, {"fairlead.dev/placement": placement})
    cluster = read(collect_objects(manifest, holder, *([listed] if names else [])))
    assert ([each.id for each in cluster.nodes[0].devices], cluster.nodes[0].counted) == (
        list(names) or ["t4-0", "t4-1"],
        counted,
    )
    assert [share.device for share in cluster.placements[0].shares] == held
    assert snapshot.parse(cluster.to_json(), "it") == cluster
