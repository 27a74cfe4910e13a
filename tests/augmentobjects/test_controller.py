"""The life of an Augmentation in a cluster: made, ready, grown, shrunk, rotated, changed, deleted."""

from base64 import b64decode
from datetime import timedelta

import pytest

from tests.augmentobjects.worlds import STORAGE_ALONE, Cluster, augmentation


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with a new Augmentation."""
    return Cluster(augmentation())


def tokens(cluster: Cluster) -> list[str]:
    """Return the tokens that the store accepts, the present one first."""
    return b64decode(cluster.objects["Secret", "cam-credentials"]["data"]["token"]).decode().split()


def test_an_augmentation_becomes_its_objects_and_then_nothing_is_written(cluster: Cluster) -> None:
    first = cluster.reconcile()
    kinds = [each["kind"] for each in first.objects]
    assert kinds == [
        "PersistentVolumeClaim",
        *["Secret"] * 3,
        "ConfigMap",
        *["Service"] * 2,
        "NetworkPolicy",
        "Pod",
    ]
    assert cluster.says("StorageReady") == "False Creating: claim cam-data is made"
    assert cluster.says("Ready") == "False Starting: 0 of 2 pods are ready"
    cluster.live()
    assert cluster.says("Ready") == "True Running: 2 of 2 pods are ready"
    assert cluster.says("StorageReady") == "True Bound: cam-data 2Gi"
    assert cluster.says("Sized") == "True AsAsked: the quota is 2Gi"
    assert cluster.says("Progressing").startswith("False Stable")
    status = cluster.resource["status"]
    assert (status["url"], status["node"]) == ("https://10.1.0.1:30443", "n1")
    assert status["claims"] == [{"name": "cam-data", "part": "data", "requested": "2Gi", "capacity": "2Gi"}]
    cluster.now += timedelta(hours=1)
    assert cluster.settle() == []


def test_storage_alone_has_one_pod_and_one_service() -> None:
    cluster = Cluster(augmentation(STORAGE_ALONE))
    cluster.live()
    kinds = sorted(kind for kind, _ in cluster.objects)
    assert kinds == ["ConfigMap", "NetworkPolicy", "PersistentVolumeClaim", "Pod", *["Secret"] * 3, "Service"]
    assert cluster.says("Ready") == "True Running: 1 of 1 pod is ready"


def test_the_application_gets_its_accelerator_before_the_store_follows_it(cluster: Cluster) -> None:
    cluster.classes = {}
    cluster.settle()
    assert [name for kind, name in cluster.objects if kind == "Pod"] == ["cam-application"]
    assert cluster.says("Progressing").startswith("True Waiting: the application gets its node first")
    assert cluster.again is not None
    assert cluster.again <= 120
    cluster.live()
    assert ("Pod", "cam-store") in cluster.objects


def test_the_store_does_not_wait_for_ever_for_an_accelerator(cluster: Cluster) -> None:
    cluster.classes, cluster.busy = {}, {"application"}
    cluster.settle()
    cluster.live()
    assert ("Pod", "cam-store") not in cluster.objects
    cluster.now += timedelta(minutes=3)
    cluster.live()
    assert cluster.says("Ready").startswith(
        "False StorageClassMissing: 1 of 2 pods are ready; storage class quick"
    )
    assert ("Pod", "cam-store") in cluster.objects


def test_pods_of_one_volume_share_a_node_and_others_need_not() -> None:
    one = Cluster(augmentation())
    one.live()
    term = {
        "labelSelector": {"matchLabels": {"fairlead.dev/augmentation": "cam"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    for part in ("store", "application"):
        affinity = one.pod(part)["spec"]["affinity"]["podAffinity"]
        assert affinity == {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    many = Cluster(augmentation())
    many.resource["spec"]["storage"]["accessMode"] = "ReadWriteMany"
    many.live()
    assert not [
        each for (kind, _), each in many.objects.items() if kind == "Pod" and "affinity" in each["spec"]
    ]


def test_no_pod_has_a_privilege(cluster: Cluster) -> None:
    cluster.live()
    for part in ("store", "application"):
        spec = cluster.pod(part)["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in [*spec["containers"], *spec["initContainers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_the_application_has_its_share_and_sees_the_files_alone(cluster: Cluster) -> None:
    cluster.live()
    pod = cluster.pod("application")
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"]["fairlead.dev/gpu-mem"] == "2048"
    assert pod["metadata"]["annotations"]["fairlead.dev/gpu-compute"] == "25%"
    mounts = {each["mountPath"]: each.get("subPath") for each in container["volumeMounts"]}
    assert mounts == {"/tmp": None, "/data/files": "files", "/etc/fairlead/session": None}
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["FAIRLEAD_DATA"] == "/data/files"
    assert variables["FAIRLEAD_AUGMENTATION_DEVICE"] == cluster.resource["spec"]["device"]
    assert "FAIRLEAD_DEVICE" not in variables, "the agent names the accelerator by it"
    assert variables["FAIRLEAD_STORE"] == "https://cam-store.shop.svc:8443"
    assert [each for each in pod["spec"]["volumes"] if "secret" in each] == []
    (session,) = (each["projected"]["sources"] for each in pod["spec"]["volumes"] if "projected" in each)
    shown = {each["secret"]["name"]: each["secret"]["items"] for each in session}
    assert shown == {
        "cam-credentials": [{"key": "token", "path": "token"}],
        "cam-store-tls": [{"key": "tls.crt", "path": "tls.crt"}],
    }, "neither a key of TLS nor that of invites reaches the application"


def test_two_tiers_are_two_claims_at_the_same_places_for_store_mover_and_application() -> None:
    cluster = Cluster(augmentation())
    cluster.resource["spec"]["storage"] = {"size": "2Gi", "fast": "1Gi", "classes": ["quick", "slow"]}
    cluster.live()
    classes = {name: cluster.claim(name)["spec"]["storageClassName"] for name in ("cam-fast", "cam-data")}
    assert classes == {"cam-fast": "quick", "cam-data": "slow"}
    store, mover = cluster.pod("store")["spec"]["containers"]
    assert store["command"][3:5] == ["--root", "/fast/files"]
    assert store["command"][store["command"].index("--also") + 1] == "/data/files"
    where = ["--fast", "/fast/files", "--slow", "/data/files", "--capacity", str(1 << 30)]
    assert mover["command"] == ["fairlead", "serve", "tier", *where]
    assert mover["securityContext"]["readOnlyRootFilesystem"] is True
    (program,) = cluster.pod("application")["spec"]["containers"]
    assert {each["mountPath"] for each in program["volumeMounts"]} == {
        *("/tmp", "/fast/files", "/data/files", "/etc/fairlead/session"),
    }
    assert {"name": "FAIRLEAD_DATA", "value": "/fast/files"} in program["env"]
    assert cluster.says("StorageReady") == "True Bound: cam-data 2Gi, cam-fast 1Gi"


def test_a_larger_size_grows_the_claim_and_then_the_quota(cluster: Cluster) -> None:
    cluster.live()
    pods = [cluster.pod(part)["metadata"]["creationTimestamp"] for part in ("store", "application")]
    cluster.change(lambda spec: spec["storage"].update(size="3Gi"))
    cluster.now += timedelta(seconds=5)
    cluster.settle()
    assert cluster.claim()["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert cluster.settings() == {"quota": f"{2 << 30}\n"}, "the volume is not larger yet"
    assert cluster.says("Sized") == "False Growing: claim cam-data grows from 2Gi to 3Gi"
    cluster.live()
    assert cluster.settings() == {"quota": f"{3 << 30}\n"}
    assert cluster.says("Sized").startswith("True AsAsked")
    assert pods == [cluster.pod(part)["metadata"]["creationTimestamp"] for part in ("store", "application")]


def test_a_smaller_size_is_a_quota_at_once_and_the_claim_stays(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec["storage"].update(size="1Gi"))
    cluster.settle()
    assert cluster.says("Sized").startswith("False Measuring: the store is asked what it holds")
    cluster.report = {"used": 5 << 20}
    cluster.settle()
    assert cluster.settings() == {"quota": f"{1 << 30}\n"}
    assert cluster.claim()["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert cluster.resource["status"]["quota"] == "1Gi"
    cluster.change(lambda spec: spec["storage"].update(size="2Gi"))
    cluster.live()
    assert cluster.settings() == {"quota": f"{2 << 30}\n"}


def test_a_claim_that_cannot_grow_keeps_what_it_has_and_says_why(cluster: Cluster) -> None:
    cluster.live()
    cluster.classes["quick"] = False
    cluster.change(lambda spec: spec["storage"].update(size="3Gi"))
    cluster.settle()
    cluster.reconcile()
    assert cluster.says("Sized") == (
        "False CannotGrow: claim cam-data cannot grow from 2Gi to 3Gi: the class does not support expansion; "
        "nothing is lost, and the quota is 2Gi"
    )
    assert cluster.settings() == {"quota": f"{2 << 30}\n"}
    assert cluster.says("Ready").startswith("True Running")


def test_a_rotated_token_is_accepted_beside_the_one_before_for_a_while(cluster: Cluster) -> None:
    cluster.live()
    (old,) = tokens(cluster)
    key = cluster.objects["Secret", "cam-credentials"]["data"]["invite-key"]
    before = cluster.pod("store")
    cluster.change(lambda spec: spec.update(rotation=1))
    cluster.live()
    new, previous = tokens(cluster)
    assert previous == old != new
    assert cluster.again is not None
    assert cluster.again <= 600
    assert [each.reason for each in cluster.events].count("TokenRotated") == 1
    assert cluster.objects["Secret", "cam-credentials"]["data"]["invite-key"] == key
    after = cluster.pod("store")
    assert after["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]
    assert after["metadata"]["annotations"] != before["metadata"]["annotations"], "the kubelet looks at once"
    cluster.now += timedelta(minutes=11)
    cluster.live()
    assert tokens(cluster) == [new]


def test_another_image_replaces_the_pod_of_the_application_alone(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec["application"].update(image="detector:2"))
    writes = [each for each in cluster.live() if "Pod/" in each]
    assert writes == ["delete Pod/cam-application", "create Pod/cam-application"]
    assert cluster.says("Ready").startswith("True Running")


def test_a_store_on_a_lost_node_is_not_started_twice(cluster: Cluster) -> None:
    cluster.live()
    cluster.lost = {"cam-store"}
    cluster.pod("store")["metadata"]["deletionTimestamp"] = cluster.now.isoformat()
    cluster.now += timedelta(minutes=20)
    assert [each for each in cluster.live() if "Pod/" in each] == []
    assert "node n1 is lost, and the store on it may still write" in cluster.says("Progressing")
    cluster.lost = set()
    cluster.live()
    assert cluster.says("Ready").startswith("True Running")


def test_deleting_keeps_the_data_and_a_new_one_finds_it(cluster: Cluster) -> None:
    cluster.live()
    volume = cluster.claim()["spec"]["volumeName"]
    cluster.delete()
    cluster.live()
    assert cluster.is_gone
    assert list(cluster.objects) == [("PersistentVolumeClaim", "cam-data")]
    del cluster.resource["metadata"]["deletionTimestamp"], cluster.resource["status"]
    cluster.live()
    assert cluster.claim()["spec"]["volumeName"] == volume
    assert cluster.says("Ready").startswith("True Running")


def test_deleting_with_the_data_deletes_the_claim_after_the_pods(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec.update(deleteData=True))
    cluster.delete()
    writes = cluster.live()
    assert cluster.is_gone
    assert cluster.objects == {}
    assert writes.index("delete PersistentVolumeClaim/cam-data") > writes.index("delete Pod/cam-store")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"storage": {"size": "0"}}, "spec.storage.size: 0 is nothing"),
        ({"storage": {"size": "much"}}, "spec.storage.size: "),
        (
            {"storage": {"size": "1Gi", "fast": "1Gi"}},
            "spec.storage.fast: 1Gi is not less than the size of 1Gi",
        ),
        ({"device": ""}, "spec.device: name the device"),
        (
            {"application": {"image": "a", "accelerator": {"memory": "0"}}},
            "spec.application.accelerator.memory: 0",
        ),
    ],
)
def test_nonsense_is_refused_and_what_stands_stays(
    cluster: Cluster, edit: dict[str, object], message: str
) -> None:
    cluster.live()
    before = dict(cluster.objects)
    cluster.change(lambda spec: spec.update(edit))
    cluster.settle()
    assert cluster.says("Accepted").startswith(f"False Invalid: {message}")
    assert cluster.objects == before


def test_secrets_that_somebody_has_broken_are_made_again(cluster: Cluster) -> None:
    cluster.live()
    cluster.objects["Secret", "cam-credentials"]["data"] = {"token": "%%%"}
    cluster.objects["Secret", "cam-credentials"]["metadata"]["annotations"]["test/applied"] = ""
    cluster.live()
    assert len(tokens(cluster)) == 1
