"""Which workload a pod and a series belong to, and how sizes are packed."""

from dataclasses import replace

import pytest

from fairlead.cluster.meta import Metadata, OwnerReference
from fairlead.rightsize.matching import add_series, assumed, match
from fairlead.rightsize.packing import accelerators_for, fleet_size
from fairlead.rightsize.workload import (
    PodSeries,
    RequestForm,
    SizedContainer,
    SizeField,
    WorkloadKey,
    matching_workload,
    owner_by_labels,
    owner_of,
)
from fairlead.series import Series
from fairlead.units import Bytes

WEB = WorkloadKey("shop", "Deployment", "web")
RESOURCE = SizeField(RequestForm.RESOURCE, "fairlead.dev/gpu-mem", "8192")
GIB = 1 << 30


def sized(container: str = "main", key: WorkloadKey = WEB, pods: tuple[str, ...] = ()) -> SizedContainer:
    return SizedContainer(key, container, RESOURCE, Bytes(8 * GIB), pods, tuple(f"uid-{pod}" for pod in pods))


def series(pod: str, container: str = "", values: tuple[float, ...] = (1.0,), device: str = "") -> PodSeries:
    times = tuple(float(at) for at in range(len(values)))
    return PodSeries("shop", pod, container, device, memory=Series(times, values))


def owned(kind: str, name: str, labels: dict[str, str] | None = None) -> Metadata:
    reference = OwnerReference(kind=kind, name=name, controller=True)
    return Metadata(name="pod", namespace="shop", labels=labels or {}, owner_references=(reference,))


@pytest.mark.parametrize(
    ("meta", "kind", "name"),
    [
        (owned("ReplicaSet", "web-5d4f", {"pod-template-hash": "5d4f"}), "Deployment", "web"),
        (owned("ReplicaSet", "web-5d4f"), "ReplicaSet", "web-5d4f"),
        (owned("ReplicaSet", "web", {"pod-template-hash": "5d4f"}), "ReplicaSet", "web"),
        (owned("StatefulSet", "db"), "StatefulSet", "db"),
        (owned("Job", "night-29384"), "CronJob", "night"),
        (owned("Job", "other"), "Job", "other"),
        (owned("Rollout", "canary"), "Rollout", "canary"),
        (Metadata(name="bare", namespace="shop"), "Pod", "bare"),
        (
            Metadata(
                name="bare", namespace="shop", owner_references=(OwnerReference(kind="Node", name="n"),)
            ),
            "Pod",
            "bare",
        ),
    ],
)
def test_the_owner_of_a_pod(meta: Metadata, kind: str, name: str) -> None:
    assert owner_of(meta, {("shop", "night-29384"): "night"}) == WorkloadKey("shop", kind, name)


@pytest.mark.parametrize(
    ("name", "labels", "kind", "owner"),
    [
        ("web-5d4f-x7k2p", {"pod-template-hash": "5d4f"}, "Deployment", "web"),
        ("train-x7k2p", {"job-name": "train"}, "Job", "train"),
        ("train-x7k2p", {"batch.kubernetes.io/job-name": "train"}, "Job", "train"),
        ("db-0", {"statefulset.kubernetes.io/pod-name": "db-0"}, "StatefulSet", "db"),
        ("cam-x7k2p", {"pod-template-generation": "1"}, "DaemonSet", "cam"),
        ("web-0", {}, "Pod", "web-0"),
    ],
)
def test_the_owner_by_the_labels_that_controllers_set(
    name: str, labels: dict[str, str], kind: str, owner: str
) -> None:
    assert owner_by_labels("shop", name, labels) == WorkloadKey("shop", kind, owner)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ("web-5d4f-x7k2p", "web"),
        ("web-api-5d4f-x7k2p", "web-api"),
        ("web-apple-x7k2p", None),
        ("web", None),
        ("web-5d4f-x7k2", None),
        ("db-0", "db"),
        ("db-x", None),
        ("night-29384710-x7k2p", "night"),
    ],
)
def test_a_pod_that_is_gone_belongs_to_the_owner_that_could_have_made_it(
    pod: str, expected: str | None
) -> None:
    workloads = [
        WEB,
        WorkloadKey("shop", "Deployment", "web-api"),
        WorkloadKey("shop", "StatefulSet", "db"),
        WorkloadKey("shop", "CronJob", "night"),
    ]
    found = matching_workload("shop", pod, workloads)
    assert (found.name if found else None) == expected
    assert matching_workload("other", pod, workloads) is None


def test_series_are_found_by_uid_and_by_name_and_by_the_name_of_a_pod_that_is_gone() -> None:
    containers = [sized(pods=("web-5d4f-x7k2p",))]
    found = match(
        containers,
        [
            PodSeries(id="uid-web-5d4f-x7k2p", memory=Series((0.0,), (1.0,))),
            series("web-5d4f-x7k2p", device="gpu-1"),
            series("web-5d4f-zzzzz"),
            series("other"),
        ],
    )
    assert [len(each) for each in found.by_container] == [3]
    assert found.unmatched == 1


def test_the_containers_of_one_request_add_up() -> None:
    found = match([sized(pods=("web-0",))], [series("web-0", "a", (1, 2)), series("web-0", "b", (10, 20))])
    assert [each.memory.values for each in found.by_container[0]] == [(11, 22)]


def test_of_two_requests_each_has_its_own_container() -> None:
    containers = [sized("a", pods=("web-0",)), sized("b", pods=("web-0",))]
    found = match(containers, [series("web-0", "b"), series("web-0"), series("web-0", "sidecar")])
    assert [len(each) for each in found.by_container] == [0, 1]
    assert found.unmatched == 2


def test_a_sum_keeps_the_last_value_between_samples() -> None:
    one, two = Series((0.0, 10.0), (1.0, 2.0)), Series((5.0, 10.0), (100.0, 200.0))
    total = add_series([one, two])
    assert (total.times, total.values) == ((0.0, 5.0, 10.0), (1.0, 101.0, 202.0))


def test_a_request_is_assumed_for_each_series() -> None:
    given = [series("a", "x", (10 * GIB, 4 * GIB)), series("a", "y", (GIB,)), PodSeries(id="b")]
    by_factor = assumed(given, 1.5, None, Bytes(80 * GIB))
    assert [(each.workload.name, each.container, each.requested) for each in by_factor] == [
        ("a", "x", 15 * GIB),
        ("a", "y", 1.5 * GIB),
        ("b", "", None),
    ]
    assert {each.requested for each in assumed(given, None, Bytes(GIB), None)} == {GIB}
    assert match(by_factor, given).unmatched == 0


@pytest.mark.parametrize(
    ("sizes", "number"),
    [
        ([], 0),
        ([10], 1),
        ([11], 1),
        ([6, 5, 5, 4], 2),
        ([6, 6, 4, 4], 2),
        ([7, 7, 4, 3], 3),
        ([4, 4, 4], 2),
        ([10, 1], 2),
    ],
)
def test_sizes_are_packed_largest_first_where_they_fit_best(sizes: list[int], number: int) -> None:
    assert accelerators_for(sizes, Bytes(10)) == number


def test_each_size_of_accelerator_is_packed_by_itself() -> None:
    assert fleet_size({Bytes(10): [5, 5], Bytes(20): [5, 5]}) == 2


@pytest.mark.parametrize(
    ("amount", "step"),
    [("8192", 1 << 20), ("8k", 8 * GIB // 8000), ("8", GIB), ("", 1 << 20), ("0", 1 << 20)],
)
def test_the_unit_of_a_request(amount: str, step: int) -> None:
    assert replace(sized(), field=RESOURCE._replace(amount=amount)).step == step
