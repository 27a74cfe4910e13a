"""What workloads request, in every spelling, from objects and from snapshots."""

from typing import Any

import pytest

from fairlead.cache.listed_cluster import ListedCluster
from fairlead.manifest.files.collect import collect
from fairlead.manifest.types.live import LivePod
from fairlead.placement import PLACEMENTS
from fairlead.rightsize.crashes import crashes_of, is_failed_allocation
from fairlead.rightsize.requested import PodOwners, of_objects, of_snapshot
from fairlead.rightsize.workload import RequestForm, SizedContainer, WorkloadKey
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.catalogs import shipped
from tests.rightsize.worlds import container, crashed, everything, job, pod

GIB = 1 << 30
MIB = 1 << 20
HASH = {"pod-template-hash": "5d4f"}
WEB = ("ReplicaSet", "web-5d4f")


def read(*objects: dict[str, Any]) -> list[SizedContainer]:
    documents = [("test", everything(*objects))]
    found = collect(documents)
    restarted = [entry.body for entry in collect(documents, {"Pod": LivePod}).entries]
    owners = PodOwners({("shop", "night-29384710"): "night"}, crashes_of(restarted))
    return of_objects(found, ListedCluster.of(found, shipped()).snapshot, shipped(), owners)


def placed(memory: int, *, whole: bool = False) -> str:
    """Return the annotation of a pod on the only accelerator."""
    return PLACEMENTS.encode((DeviceShare("pci-0000-3b-00-0", Bytes(memory), whole=whole),))


@pytest.mark.parametrize(
    ("limits", "requested", "key"),
    [
        ({"fairlead.dev/gpu-mem": "2048"}, 2 * GIB, "fairlead.dev/gpu-mem"),
        ({"fairlead.dev/gpu-mem-gib": "3"}, 3 * GIB, "fairlead.dev/gpu-mem-gib"),
        ({"aliyun.com/gpu-mem": "2"}, 2 * GIB, "aliyun.com/gpu-mem"),
        ({"aliyun.com/gpu-mem": "4096"}, 4 * GIB, "aliyun.com/gpu-mem"),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}, 1000 * MIB, "nvidia.com/gpumem"),
    ],
)
def test_sizes_in_resources(limits: dict[str, str], requested: int, key: str) -> None:
    (found,) = read(pod("web-5d4f-x7k2p", WEB, container(**limits), labels=HASH))
    assert found.workload == WorkloadKey("shop", "Deployment", "web")
    assert (found.container, found.requested) == ("main", requested)
    assert (found.field.form, found.field.key) == (RequestForm.RESOURCE, key)
    assert (found.pods, found.uids) == (("web-5d4f-x7k2p",), ("uid-web-5d4f-x7k2p",))


@pytest.mark.parametrize(
    ("annotations", "requested"), [({"gpu-memory": "2000"}, 2000 * MIB), ({"gpu-fraction": "0.25"}, 4 * GIB)]
)
def test_sizes_in_annotations_belong_to_the_whole_pod(annotations: dict[str, str], requested: int) -> None:
    written = {**annotations, "fairlead.dev/placement": placed(requested)}
    (found,) = read(pod("a", ("", ""), container(), container("b"), annotations=written))
    assert (found.container, found.requested) == ("", requested)
    assert found.field.form is RequestForm.ANNOTATION
    assert found.device_memory == 16 * GIB


def test_a_claim_of_a_template() -> None:
    request = {"deviceClassName": "fairlead.dev", "capacity": {"requests": {"memory": "3Gi"}}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "three", "namespace": "shop"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}},
    }
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "three"}]}
    (found,) = read(template, pod("db-0", ("StatefulSet", "db"), container(), spec=claims))
    assert (found.requested, found.field.form) == (3 * GIB, RequestForm.CLAIM)


def test_a_whole_accelerator_counts_with_its_memory() -> None:
    whole = container(**{"fairlead.dev/t4": "1"})
    (found,) = read(pod("a", ("", ""), whole, annotations={"fairlead.dev/placement": placed(0, whole=True)}))
    assert (found.requested, found.field.form) == (16 * GIB, RequestForm.WHOLE)


def test_pods_of_one_owner_are_one_workload_with_the_request_of_the_newest() -> None:
    old = pod("web-5d4f-x7k2p", WEB, container(**{"fairlead.dev/gpu-mem": "4096"}), labels=HASH)
    new = pod(
        "web-5d4f-zzzzz",
        WEB,
        container(**{"fairlead.dev/gpu-mem": "2048"}),
        labels=HASH,
        creationTimestamp="2026-11-17T13:00:00Z",
    )
    ended = pod(
        "web-5d4f-ccccc",
        WEB,
        container(**{"fairlead.dev/gpu-mem": "1024"}),
        labels=HASH,
        creationTimestamp="2026-11-17T14:00:00Z",
        status={"phase": "Failed"},
    )
    (found,) = read(new, old, ended)
    assert found.requested == 2 * GIB
    assert found.pods == ("web-5d4f-x7k2p", "web-5d4f-zzzzz"), "an ended pod holds nothing"
    assert len(found.uids) == 3, "its series still count"


def test_each_of_two_containers_has_its_own_size() -> None:
    both = (
        container("a", **{"fairlead.dev/gpu-mem": "1024"}),
        container("b", **{"fairlead.dev/gpu-mem": "2048"}),
    )
    found = read(pod("x", ("Job", "night-29384710"), *both), job("night-29384710", "night"))
    assert [(each.workload.kind, each.workload.name) for each in found] == [("CronJob", "night")] * 2
    assert [(each.container, each.requested) for each in found] == [("a", GIB), ("b", 2 * GIB)]


def test_a_request_that_cannot_be_read_is_named_and_a_pod_without_accelerators_is_left_out() -> None:
    wrong = container(**{"fairlead.dev/gpu-mem": "1024", "nvidia.com/gpumem": "2"})
    (found,) = read(pod("x", ("", ""), wrong), pod("y"))
    assert found.requested is None
    assert "request different amounts" in found.note


def test_restarts_by_a_failed_allocation_are_counted() -> None:
    sized = container(**{"fairlead.dev/gpu-mem": "1024"})
    (found,) = read(
        pod(
            "web-5d4f-x7k2p",
            WEB,
            sized,
            labels=HASH,
            status=crashed("main", "CUDA out of memory. Tried to ..."),
        ),
        pod("web-5d4f-zzzzz", WEB, sized, labels=HASH, status=crashed("main", "exception: bad input")),
        pod("web-5d4f-ccccc", WEB, sized, labels=HASH, status=crashed("main", "CUDA out of memory", 0)),
    )
    assert found.crashes == 1


@pytest.mark.parametrize(
    ("message", "failed"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying", True),
        ("OOM when allocating tensor with shape[1,2]", True),
        ("HIP out of memory", True),
        ("CUDA failure 2: out of memory ; GPU=0", True),
        ("java.lang.OutOfMemoryError: Java heap space", False),
        ("fork: out of memory", False),
        ("", False),
    ],
)
def test_messages_of_frameworks(message: str, failed: bool) -> None:
    assert is_failed_allocation(message) is failed


def test_a_snapshot_has_sizes_and_owners_by_labels() -> None:
    sized = container(**{"fairlead.dev/gpu-mem": "2048"})
    objects = collect([("test", everything(pod("web-5d4f-x7k2p", WEB, sized, labels=HASH), pod("y")))])
    (found,) = of_snapshot(ListedCluster.of(objects, shipped()).snapshot)
    assert found.workload == WorkloadKey("shop", "Deployment", "web")
    assert (found.container, found.requested, found.device_memory) == ("", 2 * GIB, 16 * GIB)
    assert found.uids == ("uid-web-5d4f-x7k2p",)
