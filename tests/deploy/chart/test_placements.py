"""What the scheduler alone writes on pods: users with every permission on pods attack it."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.kinds import NODES, PODS, SERVICE_ACCOUNTS
from fairlead.errors import ClusterError
from fairlead.keys import COSCHEDULING, GANG, GANG_SIZE, LEADER_EPOCH, PLACEMENT, VOLCANO
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from tests.deploy.chart.charts import Chart, Document
from tests.deploy.chart.deciders import POLICY, allowed_as_shipped, token_of
from tests.deploy.chart.worlds import KINDS, Reply
from tests.labs import LABEL, RealApi, RealCluster, open_namespace, wipe_namespace

GUEST = "guest"
PARTS = ("binding", "ephemeralcontainers", "eviction", "resize", "status")
EVERYTHING = [
    {
        "apiGroups": [""],
        "resources": ["pods", "bindings", *(f"pods/{part}" for part in PARTS)],
        "verbs": ["*"],
    }
]
"""The guest's permissions in the namespace: far more than an administrator should grant."""
POD = "/api/v1/namespaces/{ns}/pods"
MERGE, STRATEGIC = "merge-patch", "strategic-merge-patch"
ALLOCATION = PLACEMENTS.encode((DeviceShare("gpu-0", whole=True),))
SPEC = {"schedulerName": "{ns}", "containers": [{"name": "main", "image": "x"}]}
HIGH = {"type": LEADER_EPOCH, "status": "True", "message": "2147483647 mine"}


@dataclass(frozen=True, slots=True)
class Scene:
    """Pods of one namespace: one is pending, one is placed, one is fenced by a new leader."""

    room: RealCluster
    configs: dict[str, ClusterConfig] = field(repr=False)

    def ask(self, user: str, method: str, path: str, body: object = None, patch_type: str = MERGE) -> Reply:
        """Send a request as the guest, the scheduler or the administrator; `{ns}` is the namespace."""
        kind = f"application/{patch_type}+{'yaml' if patch_type == 'apply-patch' else 'json'}"

        async def send() -> Reply:
            async with Client.connect(self.configs[user]) as client:
                try:
                    await client.request(
                        method,
                        self._fill_in(path),
                        query={"fieldManager": "test", "force": "true"}
                        if patch_type == "apply-patch"
                        else None,
                        body=None if body is None else self._fill_in(json.dumps(body)).encode(),
                        content_type=kind if method == "PATCH" else "application/json",
                    )
                except ClusterError as error:
                    return Reply(str(error))
                return Reply()

        return asyncio.run(send())

    def pods(self) -> dict[str, Document]:
        """Return the current pods by name."""

        async def read() -> dict[str, Document]:
            async with self.room.connect() as client:
                listing = json.loads(await client.request("GET", PODS.path(self.room.namespace)))
                return {item["metadata"]["name"]: item for item in listing["items"]}

        return asyncio.run(read())

    def _fill_in(self, text: str) -> str:
        return text.replace("{ns}", self.room.namespace)


def pod(name: str, **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": SPEC}


def annotate(text: str | None = ALLOCATION, key: str = PLACEMENT) -> Document:
    return {"metadata": {"annotations": {key: text}}}


def binding(name: str, **metadata: Any) -> Document:
    target = {"apiVersion": "v1", "kind": "Node", "name": "{ns}"}
    meta = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def with_conditions(*conditions: Document) -> Document:
    return {"status": {"conditions": list(conditions)}}


@pytest.fixture(scope="module")
def scene(real_api: RealApi, chart: Chart) -> Iterator[Scene]:
    """Return a scene under the policies; the scheduler's own account has placed and fenced its pods."""
    room = RealCluster(real_api, f"test-{uuid.uuid4().hex[:10]}")
    asyncio.run(open_namespace(real_api, room.namespace))
    try:
        with allowed_as_shipped(room, chart) as scheduler:
            guest = replace(room.config, login=AuthInfo(token=asyncio.run(_let_in(room))), user=GUEST)
            scene = Scene(room, {"guest": guest, "scheduler": scheduler, "admin": room.config})
            for name in ("waiting", "placed", "fenced"):
                assert scene.ask("admin", "POST", POD, pod(name)) == Reply()
            for name, annotations in (("alone", {}), ("member", {GANG: "ring", GANG_SIZE: "1"})):
                assert scene.ask("admin", "POST", POD, pod(name, annotations=annotations)) == Reply()
                assert scene.ask("scheduler", "POST", f"{POD}/{name}/binding", binding(name)) == Reply()
            placement = binding("placed", annotations={PLACEMENT: ALLOCATION})
            assert scene.ask("scheduler", "POST", f"{POD}/placed/binding", placement) == Reply()
            epoch = with_conditions({**HIGH, "message": "7 abc"})
            assert scene.ask("scheduler", "PATCH", f"{POD}/fenced/status", epoch, STRATEGIC) == Reply()
            yield scene
    finally:
        asyncio.run(wipe_namespace(real_api, room.namespace))


async def _let_in(room: RealCluster) -> str:
    """Create a node, and an account with every permission on pods; return its token."""
    subject = {"kind": "ServiceAccount", "name": GUEST, "namespace": room.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": GUEST}
    meta = {"metadata": {"name": GUEST}}
    async with room.connect() as client:
        await client.create(NODES, {"metadata": {"name": room.namespace, "labels": {LABEL: room.namespace}}})
        await client.create(SERVICE_ACCOUNTS, meta, room.namespace)
        rules = {"kind": "Role", **meta, "rules": EVERYTHING}
        await client.create(KINDS["Role"], rules, room.namespace)
        bound = {"kind": "RoleBinding", **meta, "roleRef": role, "subjects": [subject]}
        await client.create(KINDS["RoleBinding"], bound, room.namespace)
        token = await token_of(client, room.namespace, GUEST)
    async with (
        asyncio.timeout(300),
        Client.connect(replace(room.config, login=AuthInfo(token=token))) as client,
    ):
        while not await _may_list(client, room.namespace):
            await asyncio.sleep(0.1)
    return token


async def _may_list(client: Client, namespace: str) -> bool:
    try:
        await client.list(PODS, namespace)
    except ClusterError:
        return False
    return True


Attack = tuple[str, str, str, Any, str]
"""The rule that denies it, the method, the path, the body, and the patch type."""
ATTACKS: dict[str, Attack] = {
    "a new pod": ("placement", "POST", POD, pod("new", annotations={PLACEMENT: ALLOCATION}), MERGE),
    "a placement": ("placement", "PATCH", f"{POD}/waiting", annotate(), MERGE),
    "a placement by strategic patch": ("placement", "PATCH", f"{POD}/waiting", annotate(), STRATEGIC),
    "a placement by JSON patch": (
        "placement",
        "PATCH",
        f"{POD}/waiting",
        [{"op": "add", "path": "/metadata/annotations", "value": {PLACEMENT: ALLOCATION}}],
        "json-patch",
    ),
    "a placement by apply": (
        "placement",
        "PATCH",
        f"{POD}/waiting",
        pod("waiting", annotations={PLACEMENT: ALLOCATION}),
        "apply-patch",
    ),
    "a placement beside the status": ("placement", "PATCH", f"{POD}/waiting/status", annotate(), MERGE),
    "another placement": ("placement", "PATCH", f"{POD}/placed", annotate("[]"), MERGE),
    "no placement": ("placement", "PATCH", f"{POD}/placed", annotate(None), MERGE),
    "an empty placement": ("placement", "PATCH", f"{POD}/placed", annotate(""), MERGE),
    "no annotation at all": (
        "placement",
        "PATCH",
        f"{POD}/placed",
        {"metadata": {"annotations": None}},
        MERGE,
    ),
    "no placement beside the status": ("placement", "PATCH", f"{POD}/placed/status", annotate(None), MERGE),
    "a binding": (
        "placement",
        "POST",
        f"{POD}/waiting/binding",
        binding("waiting", annotations={PLACEMENT: ALLOCATION}),
        MERGE,
    ),
    "a binding at the old path": (
        "placement",
        "POST",
        "/api/v1/namespaces/{ns}/bindings",
        binding("waiting", annotations={PLACEMENT: ALLOCATION}),
        MERGE,
    ),
    "a high epoch": ("leader-epoch", "PATCH", f"{POD}/waiting/status", with_conditions(HIGH), STRATEGIC),
    "a high epoch by merge": ("leader-epoch", "PATCH", f"{POD}/waiting/status", with_conditions(HIGH), MERGE),
    "a higher epoch": ("leader-epoch", "PATCH", f"{POD}/fenced/status", with_conditions(HIGH), STRATEGIC),
    "a second epoch": (
        "leader-epoch",
        "PATCH",
        f"{POD}/fenced/status",
        [{"op": "add", "path": "/status/conditions/-", "value": HIGH}],
        "json-patch",
    ),
    "no epoch": (
        "leader-epoch",
        "PATCH",
        f"{POD}/fenced/status",
        with_conditions({"type": LEADER_EPOCH, "$patch": "delete"}),
        STRATEGIC,
    ),
    "a gang": ("gang", "PATCH", f"{POD}/alone", annotate("ring", GANG), MERGE),
    "a gang beside the status": ("gang", "PATCH", f"{POD}/alone/status", annotate("ring", GANG), MERGE),
    "a group by annotation": ("gang", "PATCH", f"{POD}/alone", annotate("ring", VOLCANO), MERGE),
    "a group by label": (
        "gang",
        "PATCH",
        f"{POD}/alone",
        {"metadata": {"labels": {COSCHEDULING: "ring"}}},
        MERGE,
    ),
    "another gang": ("gang", "PATCH", f"{POD}/member", annotate("other", GANG), MERGE),
    "no gang": ("gang", "PATCH", f"{POD}/member", annotate(None, GANG), MERGE),
    "a smaller gang": ("gang", "PATCH", f"{POD}/member", annotate("9", GANG_SIZE), MERGE),
    "no condition at all": (
        "leader-epoch",
        "PATCH",
        f"{POD}/fenced/status",
        {"status": {"conditions": None}},
        MERGE,
    ),
}


@pytest.mark.parametrize("user", ["guest", "admin"])
@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_denied(what: str, user: str, scene: Scene) -> None:
    (rule, *request), before = ATTACKS[what], scene.pods()
    assert f"fairlead-scheduler/{rule}: " in scene.ask(user, *request).error
    assert scene.pods() == before


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
def test_a_subresource_that_ignores_annotations_changes_nothing(part: str, scene: Scene) -> None:
    scene.ask("guest", "PATCH", f"{POD}/placed/{part}", annotate("[]"))
    assert scene.pods()["placed"]["metadata"]["annotations"][PLACEMENT] == ALLOCATION


def test_other_writes_of_a_user_are_allowed(scene: Scene) -> None:
    other = {"type": "example.org/checked", "status": "True"}
    many = [{"type": f"example.org/x{number}", "status": "True"} for number in range(5_000)]
    whole = scene.pods()["placed"]
    whole["metadata"]["labels"] = {"example.org/x": "1"}
    for method, path, body, patch_type in (
        ("POST", POD, pod("mine", annotations={"example.org/x": "1"}), MERGE),
        ("PATCH", f"{POD}/placed", annotate("1", "example.org/x"), MERGE),
        ("PATCH", f"{POD}/placed", annotate(ALLOCATION), MERGE),
        ("PATCH", f"{POD}/placed/status", with_conditions(other), STRATEGIC),
        ("PATCH", f"{POD}/fenced", annotate("1", "example.org/x"), MERGE),
        ("PATCH", f"{POD}/fenced/status", with_conditions(other), STRATEGIC),
        # Rules have a cost budget, and one that exceeds it denies: a kubelet's writes must always pass.
        ("PATCH", f"{POD}/fenced/status", with_conditions(*many), STRATEGIC),
        ("POST", f"{POD}/mine/binding", binding("mine"), MERGE),
        (
            "POST",
            f"{POD}/placed/eviction",
            {"metadata": {"name": "placed"}, "apiVersion": "policy/v1"},
            MERGE,
        ),
        ("DELETE", f"{POD}/placed", None, MERGE),
    ):
        assert scene.ask("guest", method, path, body, patch_type) == Reply(), (method, path, body)


def test_a_pending_pod_may_join_another_gang(scene: Scene) -> None:
    assert scene.ask("admin", "POST", POD, pod("joining")) == Reply()
    assert scene.ask("guest", "PATCH", f"{POD}/joining", annotate("ring", GANG)) == Reply()
    assert scene.ask("scheduler", "POST", f"{POD}/joining/binding", binding("joining")) == Reply()
    assert scene.ask("guest", "PATCH", f"{POD}/joining", annotate("1", "example.org/x")) == Reply()


def test_the_scheduler_writes_placement_and_epoch(scene: Scene) -> None:
    assert scene.ask("admin", "POST", POD, pod("late")) == Reply()
    late = scene.pods()["late"]["metadata"]["uid"]
    epoch = {"metadata": {"uid": late}, **with_conditions({**HIGH, "message": "8 abc"})}
    assert scene.ask("scheduler", "PATCH", f"{POD}/late/status", epoch, STRATEGIC) == Reply()
    placement = binding("late", annotations={PLACEMENT: ALLOCATION})
    assert scene.ask("scheduler", "POST", f"{POD}/late/binding", placement) == Reply()
    assert scene.pods()["late"]["metadata"]["annotations"] == {PLACEMENT: ALLOCATION}


def rules(documents: list[Document], name: str = POLICY) -> set[str]:
    """Return the rules of a policy."""
    (policy,) = [
        document
        for document in documents
        if document["metadata"]["name"] == name and "validations" in document["spec"]
    ]
    messages = [validation["message"] for validation in policy["spec"]["validations"]]
    assert not [message for message in messages if "cannot" in message], (
        "the client would take it for a denial by the role"
    )
    return {message.partition(":")[0].removeprefix("fairlead-scheduler/") for message in messages}


def test_every_rule_is_attacked(chart: Chart) -> None:
    every = rules(chart.render({"scheduler.enabled": True}))
    # The rules for the scheduler's own writes to a status are attacked in test_power.
    assert {rule for rule in every if not rule.startswith("status-")} == {
        rule for rule, *_ in ATTACKS.values()
    }


def test_the_policy_comes_with_the_scheduler(chart: Chart) -> None:
    for values, there in (
        ({}, False),
        ({"scheduler.enabled": True, "policy.enabled": False}, False),
        ({"scheduler.enabled": True}, True),
    ):
        assert (POLICY in {document["metadata"]["name"] for document in chart.render(values)}) == there
