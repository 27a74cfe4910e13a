"""The scheduler's token in the wrong hands, on a real API server: which rule denies which request."""

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy import render
from fairlead import keys
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES
from fairlead.keys import LEADER_EPOCH
from fairlead.manifest.types.live import EXTENDED_RESOURCE_CLAIM
from fairlead.serve.admission import review
from fairlead.serve.scheduler.bind.writes import FINALIZER
from tests.deploy.chart.charts import Chart, Document
from tests.deploy.chart.deciders import CLAIM_POLICY, POLICY, allowed_as_shipped, until_priority
from tests.deploy.chart.test_placements import MERGE, POD, SPEC, STRATEGIC, Scene, rules, with_conditions
from tests.deploy.chart.test_scheduler import PRIORITIES
from tests.deploy.chart.worlds import Reply
from tests.labs import LABEL, RealApi, RealCluster, open_namespace, wipe_namespace

CLAIM = "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"
SYSTEM = "/api/v1/namespaces/kube-system/pods"
FOREIGN = "gpu.example.org"
STOCK = "default-scheduler"
RANKS = {"low": 100, "middle": 500, "high": 1000, "calm": 1000}
"""Priority classes of the tenant; pods of `calm` preempt nothing."""
PODS_CREATED: dict[str, Document] = {
    "mine": {},
    "waits": {"priorityClassName": "middle-{ns}"},
    "never": {"priorityClassName": "calm-{ns}"},
    "theirs": {"schedulerName": STOCK},
    "theirs-high": {"schedulerName": STOCK, "priorityClassName": "high-{ns}"},
    "runs": {"nodeName": "{ns}"},
    "runs-low": {"nodeName": "{ns}", "priorityClassName": "low-{ns}"},
    "runs-theirs": {"nodeName": "{ns}", "schedulerName": STOCK},
    "runs-high": {"nodeName": "{ns}", "priorityClassName": "high-{ns}"},
    "runs-critical": {"nodeName": "{ns}", "priorityClassName": "system-node-critical"},
}
"""Pods and their specs; the first are pending, the others run. The highest that may preempt has 500."""


def binding(name: str, uid: str) -> Document:
    target = {"apiVersion": "v1", "kind": "Node", "name": "{ns}"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid}, "target": target}


def eviction(name: str, uid: str, preemptor: str = "") -> Document:
    meta = {"name": name, **({"annotations": {keys.PREEMPTOR: preemptor}} if preemptor else {})}
    options = {"deleteOptions": {"preconditions": {"uid": uid}}} if uid else {}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, **options}


def claim(name: str, klass: str = "fairlead.dev", /, **metadata: Any) -> Document:
    request = {"name": "gpu", "exactly": {"deviceClassName": klass}}
    spec = {"devices": {"requests": [request]}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def allocated(driver: str, user: str | None) -> Document:
    result = {"request": "gpu", "driver": driver, "pool": "{ns}", "device": "gpu-0"}
    reserved = [{"resource": "pods", "name": user, "uid": f"<{user}>"}] if user else None
    return {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}}


def owner(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"<{name}>", "controller": True}


class Token(Scene):
    """The scene of an attacker with the scheduler's token; `<name>` is a pod's UID, `<name:8>` its prefix."""

    def ask(self, user: str, method: str, path: str, body: object = None, patch_type: str = MERGE) -> Reply:
        """Send a request, with the UIDs filled in."""
        filled = None if body is None else json.loads(self._with_uids(json.dumps(body)))
        return super().ask(user, method, self._with_uids(path), filled, patch_type)

    def _with_uids(self, text: str) -> str:
        if "<" not in text:
            return text
        uids = {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}
        uids["system"] = self._system()
        return re.sub(r"<([a-z-]+)(:8)?>", lambda match: uids[match[1]][: 8 if match[2] else None], text)

    def _system(self) -> str:
        async def read() -> str:
            async with Client.connect(self.room.config) as client:
                path = f"{SYSTEM}/coredns-{self.room.namespace}"
                return str(json.loads(await client.request("GET", path))["metadata"]["uid"])

        return asyncio.run(read())

    def state(self) -> dict[str, str]:
        """Return the resource versions of all objects that the token could change."""
        paths = [POD, CLAIM, SYSTEM]

        async def read() -> dict[str, str]:
            async with Client.connect(self.room.config) as client:
                listings = [json.loads(await client.request("GET", self._fill_in(path))) for path in paths]
            items = [item["metadata"] for listing in listings for item in listing["items"]]
            namespace = self.room.namespace  # other tests have pods of their own in kube-system
            own = [item for item in items if namespace in (item["namespace"], item["name"].partition("-")[2])]
            return {f"{item['namespace']}/{item['name']}": item["resourceVersion"] for item in own}

        return asyncio.run(read())


@pytest.fixture(scope="module")
def token(real_api: RealApi, chart: Chart) -> Iterator[Token]:
    """Return a tenant's pods and claims under the policies, also those of other schedulers and drivers."""
    room = RealCluster(real_api, f"test-{uuid.uuid4().hex[:10]}")
    asyncio.run(open_namespace(real_api, room.namespace))
    made = Token(room, {"admin": room.config})
    try:
        asyncio.run(_create_node_and_priorities(room))
        for name, spec in PODS_CREATED.items():
            body = {"metadata": {"name": name}, "spec": {**SPEC, **spec}}
            assert made.ask("admin", "POST", POD, body) == Reply(), name
        system = {"nodeName": "{ns}", "schedulerName": STOCK, "priorityClassName": "low-{ns}"}
        coredns = {"metadata": {"name": "coredns-{ns}"}, "spec": {**SPEC, **system}}
        assert made.ask("admin", "POST", SYSTEM, coredns) == Reply()
        _create_claims(made)
        with allowed_as_shipped(room, chart, webhook=True) as scheduler:
            yield Token(room, {"admin": room.config, "scheduler": scheduler})
    finally:
        made.ask("admin", "DELETE", f"{SYSTEM}/coredns-{{ns}}", {"gracePeriodSeconds": 0})
        asyncio.run(wipe_namespace(real_api, room.namespace))
        asyncio.run(_delete_priorities(room))


async def _create_node_and_priorities(room: RealCluster) -> None:
    async with room.connect() as client:
        await client.create(NODES, {"metadata": {"name": room.namespace, "labels": {LABEL: room.namespace}}})
        for name, value in RANKS.items():
            meta = {"name": f"{name}-{room.namespace}"}
            policy = {"preemptionPolicy": "Never"} if name == "calm" else {}
            await client.create(PRIORITIES, {"metadata": meta, "value": value, **policy})
            await until_priority(client, room.namespace, meta["name"])


async def _delete_priorities(room: RealCluster) -> None:
    async with room.connect() as client:
        for name in RANKS:
            await client.delete(PRIORITIES, f"{name}-{room.namespace}")


def _create_claims(scene: Token) -> None:
    """Create a tenant's claims: free, allocated by this or another driver, and one of kube-scheduler."""
    protected = {"finalizers": [FINALIZER]}
    stock = claim(
        "stock", annotations={EXTENDED_RESOURCE_CLAIM: "true"}, ownerReferences=[owner("runs-theirs")]
    )
    for body in (claim("free"), claim("ours", **protected), claim("foreign", FOREIGN, **protected), stock):
        assert scene.ask("admin", "POST", CLAIM, body) == Reply()
    for name, driver in (("ours", "fairlead.dev"), ("foreign", FOREIGN)):
        body = allocated(driver, "runs")
        assert scene.ask("admin", "PATCH", f"{CLAIM}/{name}/status", body) == Reply()


Attack = tuple[str, str, str, Any, str]
"""The rule that denies it, the method, the path, the body, and the patch type."""
MINE, THEIRS = f"{POD}/mine/status", f"{POD}/theirs/status"
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
READY = {"type": "Ready", "status": "False"}
PLACED = {"type": "PodScheduled", "status": "False", "message": "no"}
OWN = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true", LEADER_EPOCH: "0"}, "finalizers": [FINALIZER]}
ATTACKS: dict[str, Attack] = {
    "a pod of another scheduler": (
        "own-pods",
        "POST",
        f"{POD}/theirs/binding",
        binding("theirs", "<theirs>"),
        MERGE,
    ),
    "a pod of another scheduler under the uid of ours": (
        "pod-uid",
        "POST",
        f"{POD}/theirs/binding",
        binding("theirs", "<mine>"),
        MERGE,
    ),
    "a binding of any pod of that name": (
        "pod-uid",
        "POST",
        f"{POD}/mine/binding",
        binding("mine", ""),
        MERGE,
    ),
    "a binding of no pod": ("pod-uid", "POST", f"{POD}/none/binding", binding("none", "<mine>"), MERGE),
    "an eviction of any pod of that name": (
        "pod-uid",
        "POST",
        f"{POD}/runs/eviction",
        eviction("runs", ""),
        MERGE,
    ),
    "a pod of the cluster's own namespace": (
        "protected",
        "POST",
        f"{SYSTEM}/coredns-{{ns}}/eviction",
        eviction("coredns-{ns}", "<system>"),
        MERGE,
    ),
    "a critical pod": (
        "critical",
        "POST",
        f"{POD}/runs-critical/eviction",
        eviction("runs-critical", "<runs-critical>"),
        MERGE,
    ),
    "a pod that was never bound": (
        "bound",
        "POST",
        f"{POD}/theirs/eviction",
        eviction("theirs", "<theirs>"),
        MERGE,
    ),
    "a victim that nothing outranks": (
        "lower-priority",
        "POST",
        f"{POD}/runs-high/eviction",
        eviction("runs-high", "<runs-high>"),
        MERGE,
    ),
    "a victim for a pod that may not preempt": (
        "lower-priority",
        "POST",
        f"{POD}/runs-high/eviction",
        eviction("runs-high", "<runs-high>", "{ns}/never"),
        MERGE,
    ),
    "a victim for a pod of another scheduler": (
        "lower-priority",
        "POST",
        f"{POD}/runs/eviction",
        eviction("runs", "<runs>", "{ns}/theirs-high"),
        MERGE,
    ),
    "a victim for a pod that runs": (
        "lower-priority",
        "POST",
        f"{POD}/runs/eviction",
        eviction("runs", "<runs>", "{ns}/runs-high"),
        MERGE,
    ),
    "the end of a tenant's claim": ("claim-own", "DELETE", f"{CLAIM}/free", None, MERGE),
    "the end of a claim that we gave": ("claim-own", "DELETE", f"{CLAIM}/ours", None, MERGE),
    "the end of another driver's claim": ("claim-own", "DELETE", f"{CLAIM}/foreign", None, MERGE),
    "the end of kube-scheduler's claim": ("claim-own", "DELETE", f"{CLAIM}/stock", None, MERGE),
    "a new claim of a tenant": ("claim-own", "POST", CLAIM, claim("new"), MERGE),
    "a new claim under another pod's name": (
        "claim-own",
        "POST",
        CLAIM,
        claim("x-fairlead-00000000", ownerReferences=[owner("mine")], **OWN),
        MERGE,
    ),
    "a new claim of another driver": (
        "claim-class",
        "POST",
        CLAIM,
        claim("x-fairlead-<mine:8>", FOREIGN, ownerReferences=[owner("mine")], **OWN),
        MERGE,
    ),
    "a label of a claim": (
        "claim-metadata",
        "PATCH",
        f"{CLAIM}/free",
        {"metadata": {"labels": {"x": "1"}}},
        MERGE,
    ),
    "a claim made ours": (
        "claim-metadata",
        "PATCH",
        f"{CLAIM}/free",
        {"metadata": {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}}},
        MERGE,
    ),
    "a claim without protection": (
        "claim-finalizers",
        "PATCH",
        f"{CLAIM}/ours",
        {"metadata": {"finalizers": None}},
        MERGE,
    ),
    "a claim that stays": (
        "claim-finalizers",
        "PATCH",
        f"{CLAIM}/free",
        {"metadata": {"finalizers": ["example.org/hold"]}},
        MERGE,
    ),
    "another driver's device": (
        "claim-driver",
        "PATCH",
        f"{CLAIM}/free/status",
        allocated(FOREIGN, None),
        MERGE,
    ),
    "another driver's claim taken back": (
        "claim-driver",
        "PATCH",
        f"{CLAIM}/foreign/status",
        {"status": {"allocation": None, "reservedFor": None}},
        MERGE,
    ),
    "another driver's claim taken from its pod": (
        "claim-users",
        "PATCH",
        f"{CLAIM}/foreign/status",
        {"status": {"reservedFor": None}},
        MERGE,
    ),
    "another scheduler's pod reported as pending": (
        "status-conditions",
        "PATCH",
        THEIRS,
        with_conditions(PLACED),
        STRATEGIC,
    ),
    "a pod reported as not ready": (
        "status-conditions",
        "PATCH",
        f"{POD}/runs/status",
        with_conditions(READY),
        STRATEGIC,
    ),
    "a pod reported as failed": (
        "status-kept",
        "PATCH",
        f"{POD}/runs-theirs/status",
        {"status": {"phase": "Failed"}},
        MERGE,
    ),
    "a label beside the status": ("status-kept", "PATCH", MINE, {"metadata": {"labels": {"x": "1"}}}, MERGE),
    "an annotation beside the status": (
        "status-kept",
        "PATCH",
        f"{POD}/runs/status",
        {"metadata": {"annotations": {"fairlead.dev/placement": "[]"}}},
        MERGE,
    ),
    "a memory limit of another scheduler's pod": (
        "status-kept",
        "PATCH",
        f"{POD}/runs-theirs/status",
        {"metadata": {"annotations": {keys.MEMORY_LIMIT: "1"}}},
        MERGE,
    ),
    "an eviction from a device, though no policy goes by use": (
        "full-device",
        "POST",
        f"{POD}/runs-high/eviction",
        {
            **eviction("runs-high", "<runs-high>"),
            "metadata": {"name": "runs-high", "annotations": {keys.FULL_DEVICE: "{ns}/gpu-0"}},
        },
        MERGE,
    ),
    "a node for another scheduler's pod": (
        "status-others",
        "PATCH",
        THEIRS,
        {"status": {"nominatedNodeName": "{ns}"}},
        MERGE,
    ),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_denied(what: str, token: Token) -> None:
    (rule, *request), before = ATTACKS[what], token.state()
    assert f"fairlead-scheduler/{rule}: " in token.ask("scheduler", *request).error
    assert token.state() == before


def test_the_role_does_not_allow_the_old_path_of_bindings(token: Token) -> None:
    body = binding("theirs", "<theirs>")
    assert "may not" in token.ask("scheduler", "POST", "/api/v1/namespaces/{ns}/bindings", body).error


def test_an_epoch_does_not_make_a_claim_its_own(token: Token) -> None:
    epoch = {"metadata": {"annotations": {LEADER_EPOCH: "1 abc"}}}
    assert token.ask("scheduler", "PATCH", f"{CLAIM}/stock", epoch) == Reply()
    assert "claim-own: " in token.ask("scheduler", "DELETE", f"{CLAIM}/stock").error


def test_the_schedulers_own_requests_are_allowed(token: Token) -> None:
    """In addition to a running scheduler, which another test runs with the same account."""
    own = claim("x-fairlead-<mine:8>", ownerReferences=[owner("mine")], **OWN)
    here = f"{CLAIM}/x-fairlead-<mine:8>"
    for method, path, body, patch_type in (
        ("PATCH", MINE, with_conditions(PLACED, DISRUPTED), STRATEGIC),
        ("PATCH", MINE, {"status": {"nominatedNodeName": "{ns}"}}, MERGE),
        ("PATCH", f"{POD}/runs/status", {"metadata": {"annotations": {keys.MEMORY_LIMIT: "1"}}}, MERGE),
        (
            "PATCH",
            f"{POD}/runs-theirs/status",
            with_conditions({**DISRUPTED, "message": "for {ns}/waits"}),
            STRATEGIC,
        ),
        ("POST", f"{POD}/runs-theirs/eviction", eviction("runs-theirs", "<runs-theirs>"), MERGE),
        ("POST", f"{POD}/runs-low/eviction", eviction("runs-low", "<runs-low>", "{ns}/waits"), MERGE),
        ("POST", CLAIM, own, MERGE),
        ("PATCH", f"{here}/status", allocated("fairlead.dev", "mine"), MERGE),
        ("PATCH", here, {"metadata": {"finalizers": None}}, MERGE),
        ("DELETE", here, None, MERGE),
        ("POST", f"{POD}/mine/binding", binding("mine", "<mine>"), MERGE),
    ):
        assert token.ask("scheduler", method, path, body, patch_type) == Reply(), (method, path, body)


def test_other_users_bind_and_evict_as_before(token: Token) -> None:
    for path, body in (
        (f"{POD}/theirs-high/binding", binding("theirs-high", "")),
        (f"{POD}/runs-critical/eviction", eviction("runs-critical", "")),
    ):
        assert token.ask("admin", "POST", path, body) == Reply()


def test_every_rule_is_attacked_and_documented(chart: Chart) -> None:
    documents = chart.render({"scheduler.enabled": True})
    webhook = set(re.findall(r"fairlead-scheduler/([a-z-]+): ", Path(review.__file__).read_text()))
    power = rules(documents, CLAIM_POLICY) | webhook
    power |= {rule for rule in rules(documents, POLICY) if rule.startswith("status-")}
    assert {rule for rule, *_ in ATTACKS.values()} == power
    page = (render.REFERENCE.parent / "policy.md").read_text()
    listed = set(re.findall(r"^\| `fairlead-scheduler/([a-z-]+)` \|", page, re.MULTILINE))
    assert listed == power | rules(documents, POLICY)
