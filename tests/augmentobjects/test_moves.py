"""The data moves to a smaller claim: each state, each failure, and never a write that is lost."""

import copy
import json
import random
from datetime import timedelta
from typing import Any

import pytest

from fairlead.augmentobjects.moves import needed_for
from fairlead.units import parse_quantity
from tests.augmentobjects.worlds import STORAGE_ALONE, Cluster, augmentation

CLAIM = "PersistentVolumeClaim"
MIB = 1 << 20


class MovingCluster(Cluster):
    """A cluster whose store reports itself, and whose volumes count what was written to them."""

    def __init__(self, text: str = STORAGE_ALONE) -> None:
        super().__init__(augmentation(text))
        self.written: dict[str, int] = {"cam-data": 1}
        """The last write that a claim's volume holds."""
        self.used = 100 * MIB
        self.quiet: float | None = None
        self.is_store_away = False
        self.fails: dict[str, str] = {}
        """Parts whose pods fail, with what they say."""
        self.runs_pods = True
        self.is_busy = False
        """An upload goes on."""

    def frozen(self) -> str:
        """Return why the store refuses writes."""
        settings = self.objects.get(("ConfigMap", "cam-store-settings"), {"data": {}})
        return str(settings["data"].get("freeze", "")).strip()

    def tick(self) -> None:
        """Let a second pass: kubelets, the provisioner, writers, the store's report and the operator."""
        self.now += timedelta(seconds=1)
        self.write()  # also of pods that are being deleted, and of none that is to come
        self._provision()
        self._run_pods()
        self.write()
        self.look()
        self.reconcile()

    def write(self) -> None:
        """Let the device and the application write, where they can."""
        for part in ("store", "application"):
            pod = self.objects.get(("Pod", f"cam-{part}"))
            if pod is None or (pod.get("status") or {}).get("phase") != "Running":
                continue
            if part == "store" and self.frozen():
                continue
            last = max(self.written.values()) + 1
            self.written[mounted(pod, "data")] = last

    def look(self) -> None:
        """Let the store say how it is."""
        if not self.frozen() or self.is_busy:
            self.quiet = None
        elif self.quiet is None:
            self.quiet = self.now.timestamp()
        runs = ("Pod", "cam-store") in self.objects and not self.is_store_away
        quiet = {"quiet_since": self.quiet} if self.quiet is not None else {}
        self.report = {"used": self.used, "frozen": self.frozen(), **quiet} if runs else None

    def _run_pods(self) -> None:
        super()._run_pods()
        for part in ("copy", "last-copy"):
            pod = self.objects.get(("Pod", f"cam-{part}"))
            if pod is None or not self.runs_pods:
                continue
            if pod["metadata"].get("ended"):
                pod["status"] = copy.deepcopy(pod["metadata"]["ended"])
                continue
            source, target = mounted(pod, "source"), mounted(pod, "target")
            self.written[target] = self.written[source]
            said = {"is_verified": part == "last-copy", "holds": self.written[source]}
            at = self.now.isoformat()
            ended = {"startedAt": at, "finishedAt": at, "message": self.fails.get(part, json.dumps(said))}
            state = {"name": "copy", "state": {"terminated": ended}}
            phase = "Failed" if part in self.fails else "Succeeded"
            pod["status"] = {"phase": phase, "containerStatuses": [state]}
            pod["metadata"]["ended"] = copy.deepcopy(pod["status"])

    def ready(self) -> "MovingCluster":
        """Return it with a store that serves."""
        for _ in range(5):
            self.tick()
        assert self.says("Sized").startswith("True"), self.says("Sized")
        return self

    def reclaim(self, size: str = "512Mi", request: int = 1) -> None:
        """Ask for a smaller claim."""
        self.change(lambda spec: spec["storage"].update(size=size, reclaim=request))

    def until(self, phase: str, most: int = 40) -> None:
        """Go on until the move is in a phase."""
        for _ in range(most):
            if self.phase() == phase:
                return
            self.tick()
        raise AssertionError(f"{self.resource['status']} {sorted(self.objects)}")

    def phase(self) -> str:
        """Return the phase of the move."""
        said: dict[str, Any] = (self.resource.get("status") or {}).get("reclaim") or {}
        return str(said.get("phase", ""))

    def claims(self) -> dict[str, str]:
        """Return the claims, and how large they are."""
        return {
            name: each["spec"]["resources"]["requests"]["storage"]
            for (kind, name), each in self.objects.items()
            if kind == CLAIM
        }

    def serving(self) -> str:
        """Return the claim of the store's pod."""
        return mounted(self.pod("store"), "data")


def mounted(pod: dict[str, Any], volume: str) -> str:
    """Return the claim of a volume."""
    return next(
        str(each["persistentVolumeClaim"]["claimName"])
        for each in pod["spec"]["volumes"]
        if each["name"] == volume
    )


APPLICATION = "{device: camera-7, storage: {size: 2Gi}, application: {image: 'detector:1'}}"


@pytest.mark.parametrize("text", [STORAGE_ALONE, APPLICATION], ids=["storage", "application"])
def test_the_data_moves_and_the_old_claim_goes(text: str) -> None:
    cluster = MovingCluster(text).ready()
    cluster.reclaim()
    seen: list[str] = []
    for _ in range(40):
        cluster.tick()
        seen += [cluster.phase()] if cluster.phase() not in seen else []
        if cluster.phase() == "Done":
            break
    assert seen == ["Copying", "Freezing", "Verifying", "Switching", "Done"]
    cluster.tick()
    assert cluster.claims() == {"cam-data-2": "512Mi"}
    assert cluster.serving() == "cam-data-2"
    assert cluster.frozen() == ""
    assert cluster.says("Reclaimed").startswith("True Done")
    assert cluster.says("Ready").startswith("True")
    status = cluster.resource["status"]
    assert 1 <= status["reclaim"]["freezeSeconds"] <= 15
    assert "frozenSince" not in status["reclaim"]
    assert not {"copy", "last-copy"} & {each["part"] for each in status["pods"]}
    reasons = [each.reason for each in cluster.events]
    assert [each for each in reasons if each in seen] == seen
    written = len(cluster.writes)
    cluster.tick()
    assert cluster.writes[written:] == []


def test_a_second_move_goes_to_the_next_claim_and_back_to_growth() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim("1Gi")
    cluster.until("Done")
    cluster.reclaim("512Mi", 2)
    cluster.tick()
    cluster.until("Done")
    cluster.tick()
    assert cluster.claims() == {"cam-data-3": "512Mi"}
    cluster.change(lambda spec: spec["storage"].update(size="3Gi"))
    cluster.ready()
    assert cluster.claims() == {"cam-data-3": "3Gi"}


def test_while_it_is_frozen_the_application_stands_still() -> None:
    cluster = MovingCluster(APPLICATION).ready()
    cluster.reclaim()
    cluster.until("Verifying")
    assert ("Pod", "cam-application") not in cluster.objects
    assert "moves to a volume of 512Mi" in cluster.frozen()
    assert cluster.says("Progressing").startswith("True Moving")
    cluster.until("Done")
    for _ in range(3):
        cluster.tick()
    assert mounted(cluster.pod("application"), "data") == "cam-data-2"


def back(cluster: MovingCluster) -> None:
    """Assert that all is as before the move."""
    for _ in range(4):
        cluster.tick()
    assert cluster.claims() == {"cam-data": "2Gi"}
    assert cluster.serving() == "cam-data"
    assert cluster.frozen() == ""
    assert ("Pod", "cam-copy") not in cluster.objects
    assert ("Pod", "cam-last-copy") not in cluster.objects
    assert cluster.says("Ready").startswith("True")


@pytest.mark.parametrize("part", ["copy", "last-copy"])
def test_a_copy_that_fails_goes_back_and_says_what_to_do(part: str) -> None:
    cluster = MovingCluster(APPLICATION).ready()
    cluster.fails[part] = "/data/files/x cannot be read: Input/output error; repair it"
    cluster.reclaim()
    cluster.until("Failed")
    said = (
        "False CopyFailed: /data/files/x cannot be read: Input/output error; repair it; nothing has changed"
    )
    assert cluster.says("Reclaimed").startswith(said)
    back(cluster)
    assert cluster.phase() == "Failed", "it is not tried again by itself"
    cluster.fails = {}
    cluster.reclaim(request=2)
    cluster.tick()
    cluster.until("Done")
    assert cluster.written["cam-data-2"] == max(cluster.written.values())


def test_a_last_pass_that_has_not_compared_all_does_not_count() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim()
    cluster.until("Verifying")
    cluster._run_pods()
    pod = cluster.pod("last-copy")
    pod["metadata"]["ended"]["containerStatuses"][0]["state"]["terminated"]["message"] = "something else"
    cluster.until("Failed")
    back(cluster)


def test_what_does_not_fit_is_refused_before_anything_is_made() -> None:
    cluster = MovingCluster().ready()
    cluster.used = 500 * MIB
    cluster.reclaim("512Mi")
    cluster.until("Failed")
    assert cluster.says("Reclaimed").startswith("False DoesNotFit: 500Mi are in use")
    assert not [each for each in cluster.writes if "cam-data-2" in each]
    back(cluster)


def test_writes_that_do_not_end_give_the_freeze_up() -> None:
    cluster = MovingCluster().ready()
    cluster.is_busy = True
    cluster.reclaim()
    cluster.until("Failed", 200)
    assert cluster.says("Reclaimed").startswith("False NotQuiet")
    assert cluster.resource["status"]["reclaim"]["freezeSeconds"] >= 120
    back(cluster)


def test_a_store_that_is_away_after_the_last_pass_is_asked_until_the_freeze_is_given_up() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim()
    cluster.until("Verifying")
    cluster.is_store_away = True
    for _ in range(30):
        cluster.tick()
    assert cluster.phase() == "Verifying"
    assert cluster.serving() == "cam-data"
    cluster.now += timedelta(minutes=31)
    cluster.until("Failed")
    assert cluster.says("Reclaimed").startswith("False FrozenTooLong")
    cluster.is_store_away = False
    back(cluster)


def test_a_store_that_was_started_again_in_the_last_pass_has_it_repeated() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim()
    cluster.until("Verifying")
    cluster._run_pods()
    cluster.quiet = None  # another process, which does not know who wrote before it
    cluster.tick()
    assert cluster.phase() == "Freezing"
    cluster.until("Done")
    assert cluster.written["cam-data-2"] == max(cluster.written.values())


@pytest.mark.parametrize("phase", ["Copying", "Freezing", "Verifying"])
@pytest.mark.parametrize("edit", ["withdrawn", "larger"])
def test_a_move_that_is_given_up_or_needless_goes_back(phase: str, edit: str) -> None:
    cluster = MovingCluster(APPLICATION).ready()
    cluster.reclaim()
    cluster.until(phase)
    values: dict[str, Any] = {"reclaim": 0} if edit == "withdrawn" else {"size": "2Gi"}
    cluster.change(lambda spec: spec["storage"].update(values))
    back(cluster)


def test_another_size_begins_again() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim("512Mi")
    cluster.until("Verifying")
    cluster.reclaim("1Gi", 2)
    cluster.tick()
    cluster.until("Done")
    cluster.tick()
    assert cluster.claims() == {"cam-data-2": "1Gi"}


def test_after_the_switch_the_old_claim_waits_for_the_new_store() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim()
    cluster.until("Switching")
    cluster.busy.add("store")
    for _ in range(20):
        cluster.tick()
    assert cluster.phase() == "Switching"
    assert cluster.claims() == {"cam-data": "2Gi", "cam-data-2": "512Mi"}
    cluster.change(lambda spec: spec["storage"].update(reclaim=0))
    cluster.tick()
    assert set(cluster.claims()) == {"cam-data", "cam-data-2"}, "there is no way back, and nothing is lost"
    cluster.busy.clear()
    for _ in range(4):
        cluster.tick()
    assert cluster.claims() == {"cam-data-2": "512Mi"}


def test_an_augmentation_that_is_made_again_finds_the_claim_that_counts() -> None:
    cluster = MovingCluster().ready()
    cluster.reclaim()
    cluster.until("Done")
    cluster.tick()
    cluster.delete()
    for _ in range(4):
        cluster.tick()
    assert cluster.is_gone
    again = MovingCluster("{device: camera-7, storage: {size: 512Mi}}")
    again.objects = cluster.objects
    again.ready()
    assert (again.serving(), again.claims()) == ("cam-data-2", {"cam-data-2": "512Mi"})


def test_a_claim_of_somebody_else_in_the_place_of_the_new_one_is_not_touched() -> None:
    cluster = MovingCluster().ready()
    other = copy.deepcopy(cluster.claim())
    other["metadata"]["name"] = "cam-data-2"
    cluster.objects[CLAIM, "cam-data-2"] = other
    cluster.reclaim("1Gi")
    for _ in range(5):
        cluster.tick()
    assert cluster.says("Reclaimed").startswith(
        "False Waiting: claim cam-data-2 of an earlier move is in the way"
    )
    assert cluster.claims()["cam-data-2"] == "2Gi"


def test_a_move_of_two_tiers_is_refused() -> None:
    cluster = Cluster(augmentation("{device: camera-7, storage: {size: 2Gi, fast: 1Gi, reclaim: 1}}"))
    cluster.settle()
    assert cluster.says("Accepted").startswith("False Invalid: spec.storage.reclaim: data on two tiers")


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_the_last_write_is_in_the_claim_that_serves(seed: int) -> None:
    """A walk: passes that fail, restarts, a status that is lost, and users who change their mind."""
    walk = random.Random(seed)
    cluster = MovingCluster(walk.choice((STORAGE_ALONE, APPLICATION))).ready()
    request = 0
    for _ in range(120):
        event = walk.randrange(30)
        if event == 0:
            request += 1
            cluster.reclaim(walk.choice(("256Mi", "512Mi", "1Gi", "2Gi")), request)
        elif event == 1:
            cluster.change(lambda spec: spec["storage"].update(reclaim=0))
        elif event == 2:
            cluster.resource["status"].pop("reclaim", None)
        elif event in (3, 4):
            cluster.fails = {} if event == 4 else {walk.choice(("copy", "last-copy")): "it failed"}
        elif event == 5:
            cluster.is_busy = not cluster.is_busy
        elif event == 6:
            cluster.quiet = None
        elif event == 7 and (pods := [key for key in cluster.objects if key[0] == "Pod"]):
            del cluster.objects[walk.choice(pods)]
        elif event == 8:
            cluster.is_store_away = not cluster.is_store_away
        elif event == 9:
            cluster.now += timedelta(minutes=walk.randrange(40))
        elif event == 10:
            cluster.runs_pods = not cluster.runs_pods
        elif event == 11:
            cluster.lost = set() if cluster.lost else {"cam-application", "cam-store"}
        cluster.tick()
        check(cluster)
    cluster.is_busy = cluster.is_store_away = False
    cluster.lost = set()
    cluster.fails, cluster.runs_pods = {}, True
    cluster.reclaim("256Mi", request + 1)
    cluster.tick()
    cluster.until("Done", 200)
    cluster.tick()
    assert list(cluster.claims().values()) == [cluster.claims()[cluster.serving()]]
    check(cluster)


def check(cluster: MovingCluster) -> None:
    """Assert that the newest write is in the claim that counts, and that no claim goes under its store."""
    stages = {
        name: each["metadata"]["labels"].get("fairlead.dev/augmentation-stage")
        for (kind, name), each in cluster.objects.items()
        if kind == CLAIM
    }
    served = [name for name, stage in stages.items() if stage == "served"]
    counts = max(served, key=lambda name: int(name.rpartition("-")[2]), default="cam-data")
    assert cluster.written[counts] == max(cluster.written.values()), (counts, cluster.written)
    store = cluster.objects.get(("Pod", "cam-store"))
    assert store is None or mounted(store, "data") in stages


def test_room_is_left_in_a_claim() -> None:
    assert needed_for(0) == parse_quantity("1Mi")
    assert needed_for(100 * MIB) == parse_quantity("105Mi")
