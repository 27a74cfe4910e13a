"""What the scheduler alone writes on pods: on a real server, one tries who may do everything to them."""

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
from fairlead.placement import PLACEMENTS, DeviceShare
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
"""What the guest may do in the namespace: far more than anybody should give."""
POD = "/api/v1/namespaces/{ns}/pods"
MERGE, STRATEGIC = "merge-patch", "strategic-merge-patch"
NOTE = PLACEMENTS.encode((DeviceShare("gpu-0", whole=True),))
SPEC = {"schedulerName": "{ns}", "containers": [{"name": "main", "image": "x"}]}
HIGH = {"type": LEADER_EPOCH, "status": "True", "message": "2147483647 mine"}


@dataclass(frozen=True, slots=True)
class Scene:
    """Pods of one namespace: one waits, one was placed, one was marked by a leader that took over."""

    room: RealCluster
    configs: dict[str, ClusterConfig] = field(repr=False)

    def ask(self, who: str, method: str, path: str, body: object = None, how: str = MERGE) -> Reply:
        """Ask as the guest, the scheduler or the administrator; `{ns}` is the namespace."""
        kind = f"application/{how}+{'yaml' if how == 'apply-patch' else 'json'}"

        async def send() -> Reply:
            async with Client.connect(self.configs[who]) as client:
                try:
                    await client.request(
                        method,
                        self._filled(path),
                        query={"fieldManager": "test", "force": "true"} if how == "apply-patch" else None,
                        body=None if body is None else self._filled(json.dumps(body)).encode(),
                        content_type=kind if method == "PATCH" else "application/json",
                    )
                except ClusterError as error:
                    return Reply(str(error))
                return Reply()

        return asyncio.run(send())

    def pods(self) -> dict[str, Document]:
        """Return the pods as they are now."""

        async def read() -> dict[str, Document]:
            async with self.room.connect() as client:
                answer = json.loads(await client.request("GET", PODS.path(self.room.namespace)))
                return {each["metadata"]["name"]: each for each in answer["items"]}

        return asyncio.run(read())

    def _filled(self, text: str) -> str:
        return text.replace("{ns}", self.room.namespace)


def pod(name: str, **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": SPEC}


def note(text: str | None = NOTE, key: str = PLACEMENT) -> Document:
    return {"metadata": {"annotations": {key: text}}}


def binding(name: str, **metadata: Any) -> Document:
    target = {"apiVersion": "v1", "kind": "Node", "name": "{ns}"}
    meta = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def marked(*conditions: Document) -> Document:
    return {"status": {"conditions": list(conditions)}}


@pytest.fixture(scope="module")
def scene(real_api: RealApi, chart: Chart) -> Iterator[Scene]:
    """Return a guarded scene; what was placed and marked, the scheduler's own account has written."""
    room = RealCluster(real_api, f"test-{uuid.uuid4().hex[:10]}")
    asyncio.run(open_namespace(real_api, room.namespace))
    try:
        with allowed_as_shipped(room, chart) as scheduler:
            guest = replace(room.config, login=AuthInfo(token=asyncio.run(_let_in(room))), user=GUEST)
            scene = Scene(room, {"guest": guest, "scheduler": scheduler, "admin": room.config})
            for name in ("waiting", "placed", "marked"):
                assert scene.ask("admin", "POST", POD, pod(name)) == Reply()
            for name, notes in (("alone", {}), ("member", {GANG: "ring", GANG_SIZE: "1"})):
                assert scene.ask("admin", "POST", POD, pod(name, annotations=notes)) == Reply()
                assert scene.ask("scheduler", "POST", f"{POD}/{name}/binding", binding(name)) == Reply()
            given = binding("placed", annotations={PLACEMENT: NOTE})
            assert scene.ask("scheduler", "POST", f"{POD}/placed/binding", given) == Reply()
            mark = marked({**HIGH, "message": "7 abc"})
            assert scene.ask("scheduler", "PATCH", f"{POD}/marked/status", mark, STRATEGIC) == Reply()
            yield scene
    finally:
        asyncio.run(wipe_namespace(real_api, room.namespace))


async def _let_in(room: RealCluster) -> str:
    """Make a node, and an account that may do everything to pods; return its token."""
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
        asyncio.timeout(60),
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
"""The rule that stops it, the method, the path, the body, and how it is patched."""
ATTACKS: dict[str, Attack] = {
    "a new pod": ("placement", "POST", POD, pod("new", annotations={PLACEMENT: NOTE}), MERGE),
    "a note": ("placement", "PATCH", f"{POD}/waiting", note(), MERGE),
    "a note by strategic patch": ("placement", "PATCH", f"{POD}/waiting", note(), STRATEGIC),
    "a note by JSON patch": (
        "placement",
        "PATCH",
        f"{POD}/waiting",
        [{"op": "add", "path": "/metadata/annotations", "value": {PLACEMENT: NOTE}}],
        "json-patch",
    ),
    "a note by apply": (
        "placement",
        "PATCH",
        f"{POD}/waiting",
        pod("waiting", annotations={PLACEMENT: NOTE}),
        "apply-patch",
    ),
    "a note beside the status": ("placement", "PATCH", f"{POD}/waiting/status", note(), MERGE),
    "another note": ("placement", "PATCH", f"{POD}/placed", note("[]"), MERGE),
    "no note": ("placement", "PATCH", f"{POD}/placed", note(None), MERGE),
    "an empty note": ("placement", "PATCH", f"{POD}/placed", note(""), MERGE),
    "no annotation at all": (
        "placement",
        "PATCH",
        f"{POD}/placed",
        {"metadata": {"annotations": None}},
        MERGE,
    ),
    "no note beside the status": ("placement", "PATCH", f"{POD}/placed/status", note(None), MERGE),
    "a binding": (
        "placement",
        "POST",
        f"{POD}/waiting/binding",
        binding("waiting", annotations={PLACEMENT: NOTE}),
        MERGE,
    ),
    "a binding at the old place": (
        "placement",
        "POST",
        "/api/v1/namespaces/{ns}/bindings",
        binding("waiting", annotations={PLACEMENT: NOTE}),
        MERGE,
    ),
    "a high turn": ("turn", "PATCH", f"{POD}/waiting/status", marked(HIGH), STRATEGIC),
    "a high turn by merge": ("turn", "PATCH", f"{POD}/waiting/status", marked(HIGH), MERGE),
    "a higher turn": ("turn", "PATCH", f"{POD}/marked/status", marked(HIGH), STRATEGIC),
    "a second mark": (
        "turn",
        "PATCH",
        f"{POD}/marked/status",
        [{"op": "add", "path": "/status/conditions/-", "value": HIGH}],
        "json-patch",
    ),
    "no mark": (
        "turn",
        "PATCH",
        f"{POD}/marked/status",
        marked({"type": LEADER_EPOCH, "$patch": "delete"}),
        STRATEGIC,
    ),
    "a gang": ("gang", "PATCH", f"{POD}/alone", note("ring", GANG), MERGE),
    "a gang beside the status": ("gang", "PATCH", f"{POD}/alone/status", note("ring", GANG), MERGE),
    "a group by annotation": ("gang", "PATCH", f"{POD}/alone", note("ring", VOLCANO), MERGE),
    "a group by label": (
        "gang",
        "PATCH",
        f"{POD}/alone",
        {"metadata": {"labels": {COSCHEDULING: "ring"}}},
        MERGE,
    ),
    "another gang": ("gang", "PATCH", f"{POD}/member", note("other", GANG), MERGE),
    "no gang": ("gang", "PATCH", f"{POD}/member", note(None, GANG), MERGE),
    "a smaller gang": ("gang", "PATCH", f"{POD}/member", note("9", GANG_SIZE), MERGE),
    "no condition at all": ("turn", "PATCH", f"{POD}/marked/status", {"status": {"conditions": None}}, MERGE),
}


@pytest.mark.parametrize("who", ["guest", "admin"])
@pytest.mark.parametrize("what", ATTACKS)
def test_is_refused(what: str, who: str, scene: Scene) -> None:
    (rule, *asked), before = ATTACKS[what], scene.pods()
    assert f"fairlead-scheduler/{rule}: " in scene.ask(who, *asked).error
    assert scene.pods() == before


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
def test_what_the_server_itself_leaves_out_changes_nothing(part: str, scene: Scene) -> None:
    scene.ask("guest", "PATCH", f"{POD}/placed/{part}", note("[]"))
    assert scene.pods()["placed"]["metadata"]["annotations"][PLACEMENT] == NOTE


def test_whoever_leaves_them_alone_does_what_he_may(scene: Scene) -> None:
    other = {"type": "example.org/checked", "status": "True"}
    many = [{"type": f"example.org/x{number}", "status": "True"} for number in range(5_000)]
    whole = scene.pods()["placed"]
    whole["metadata"]["labels"] = {"example.org/x": "1"}
    for method, path, body, how in (
        ("POST", POD, pod("mine", annotations={"example.org/x": "1"}), MERGE),
        ("PATCH", f"{POD}/placed", note("1", "example.org/x"), MERGE),
        ("PATCH", f"{POD}/placed", note(NOTE), MERGE),
        ("PATCH", f"{POD}/placed/status", marked(other), STRATEGIC),
        ("PATCH", f"{POD}/marked", note("1", "example.org/x"), MERGE),
        ("PATCH", f"{POD}/marked/status", marked(other), STRATEGIC),
        # Rules have a budget, and one that exceeds it refuses: a kubelet must always come through.
        ("PATCH", f"{POD}/marked/status", marked(*many), STRATEGIC),
        ("POST", f"{POD}/mine/binding", binding("mine"), MERGE),
        (
            "POST",
            f"{POD}/placed/eviction",
            {"metadata": {"name": "placed"}, "apiVersion": "policy/v1"},
            MERGE,
        ),
        ("DELETE", f"{POD}/placed", None, MERGE),
    ):
        assert scene.ask("guest", method, path, body, how) == Reply(), (method, path, body)


def test_a_waiting_pod_may_join_another_gang(scene: Scene) -> None:
    assert scene.ask("admin", "POST", POD, pod("joining")) == Reply()
    assert scene.ask("guest", "PATCH", f"{POD}/joining", note("ring", GANG)) == Reply()
    assert scene.ask("scheduler", "POST", f"{POD}/joining/binding", binding("joining")) == Reply()
    assert scene.ask("guest", "PATCH", f"{POD}/joining", note("1", "example.org/x")) == Reply()


def test_the_scheduler_writes_both(scene: Scene) -> None:
    assert scene.ask("admin", "POST", POD, pod("late")) == Reply()
    late = scene.pods()["late"]["metadata"]["uid"]
    mark = {"metadata": {"uid": late}, **marked({**HIGH, "message": "8 abc"})}
    assert scene.ask("scheduler", "PATCH", f"{POD}/late/status", mark, STRATEGIC) == Reply()
    given = binding("late", annotations={PLACEMENT: NOTE})
    assert scene.ask("scheduler", "POST", f"{POD}/late/binding", given) == Reply()
    assert scene.pods()["late"]["metadata"]["annotations"] == {PLACEMENT: NOTE}


def rules(documents: list[Document], name: str = POLICY) -> set[str]:
    """Return the rules that a policy names."""
    (policy,) = [
        document
        for document in documents
        if document["metadata"]["name"] == name and "validations" in document["spec"]
    ]
    messages = [each["message"] for each in policy["spec"]["validations"]]
    assert not [message for message in messages if "cannot" in message], (
        "the client would take it for a role's"
    )
    return {message.partition(":")[0].removeprefix("fairlead-scheduler/") for message in messages}


def test_every_rule_is_attacked(chart: Chart) -> None:
    every = rules(chart.render({"scheduler.enabled": True}))
    # What the scheduler itself may write into a status is attacked with the rest of its power.
    assert {rule for rule in every if not rule.startswith("status-")} == {
        rule for rule, *_ in ATTACKS.values()
    }


def test_it_stands_where_there_is_a_scheduler_to_guard(chart: Chart) -> None:
    for values, there in (
        ({}, False),
        ({"scheduler.enabled": True, "policy.enabled": False}, False),
        ({"scheduler.enabled": True}, True),
    ):
        assert (POLICY in {each["metadata"]["name"] for each in chart.render(values)}) == there
