"""Compromised agents on a real API server: what they may do, and which rule denies the rest.

Every attack runs twice: against the chart as shipped, and with a role that allows everything, where the
policies are the only protection.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from deploy import render
from fairlead.publish.labels import LEGACY_KEYS
from tests.deploy.chart.charts import Chart, Document
from tests.deploy.chart.worlds import Reply, World, installed, named, slice_of
from tests.labs import RealApi

NODE = "/api/v1/nodes/{a}"
OTHER_NODE = "/api/v1/nodes/{b}"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ROLE = "may not"
"""Words of the client's error if the role forbids a request."""
OURS = "fairlead.dev/model"
TAINT = {"key": "example.org/mine", "effect": "NoExecute"}


@dataclass(frozen=True)
class Attack:
    """A request, and the rule that denies it."""

    rule: str
    """The policy's rule, or the words of the API's own validation."""
    method: str
    path: str
    body: Any = None
    role: bool = False
    """The shipped role does not even allow the verb."""
    user: str = "a"
    patch_type: str = "merge-patch"

    @property
    def ours(self) -> bool:
        """Whether it is a rule of a policy."""
        return re.fullmatch(r"[a-z-]+", self.rule) is not None

    def stopped_by(self, *, generous: bool) -> str:
        """Return the words that the error must have."""
        if self.role and not generous:
            return ROLE
        return f"fairlead-agent/{self.rule}: " if self.ours else self.rule


def label(key: str, value: str | None = "yes") -> dict[str, Any]:
    return {"metadata": {"labels": {key: value}}}


def annotate(key: str, value: str | None = "yes") -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def patch(rule: str, body: Any, path: str = NODE, **more: Any) -> Attack:
    return Attack(rule, "PATCH", path, body, **more)


def make(rule: str, document: Any, **more: Any) -> Attack:
    return Attack(rule, "POST", SLICES, named("{a}-fairlead-9", document), **more)


BESIDE = {"metadata": {"labels": {OURS: "1", "example.org/x": "1"}}}
MANY = {"metadata": {"labels": {f"fairlead.dev/x{number}": "1" for number in range(300)}}}
WHOLE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{a}"}}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "{b}", "uid": "0", "blockOwnerDeletion": True}
SELECTED = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["{b}"]}]}]
}
HOSTILE = {"kind": {"string": "gpu\u202e\u0007"}}

NODE_ATTACKS: dict[str, Attack] = {
    "another node's label": patch("own-node", label(OURS), OTHER_NODE),
    "another node's annotation": patch("own-node", annotate(OURS), OTHER_NODE),
    "my node, as my neighbour": patch("own-node", label(OURS), user="b"),
    "an unbound token": patch("bound-token", label(OURS), user="loose"),
    "a foreign label": patch("labels", label("example.org/mine")),
    "a foreign label changed": patch("labels", label("example.org/owner", "me")),
    "a foreign label removed": patch("labels", label("example.org/owner", None)),
    "a foreign label beside one of ours": patch("labels", BESIDE),
    "a role of Kubernetes": patch("labels", label("node-role.kubernetes.io/control-plane", "")),
    "a zone of Kubernetes": patch("labels", label("topology.kubernetes.io/zone", "mine")),
    "a trusted label of others": patch("labels", label("node-restriction.kubernetes.io/secret")),
    "a longer domain": patch("labels", label("fairlead.dev.example.org/x")),
    "a longer name": patch("labels", label("xfairlead.dev/x")),
    "the name without a slash": patch("labels", label("fairlead.dev")),
    "a legacy label": patch("labels", label("gpu.model")),
    "a foreign label by JSON patch": patch(
        "labels",
        [{"op": "add", "path": "/metadata/labels/example.org~1x", "value": "1"}],
        patch_type="json-patch",
    ),
    "a foreign label by strategic patch": patch("labels", label("x"), patch_type="strategic-merge-patch"),
    "a foreign label by apply": patch(
        "labels", {**WHOLE, **label("example.org/owner", "me")}, patch_type="apply-patch"
    ),
    "all labels at once": patch("labels", {"metadata": {"labels": None}}),
    "300 labels": patch("label-count", MANY),
    "a label with a control character": patch("metadata.labels: Invalid value", label(OURS, "a\u0007b")),
    "a label with a line break": patch("metadata.labels: Invalid value", label(OURS, "a\nb")),
    "a label with a zero byte": patch("metadata.labels: Invalid value", label(OURS, "a\u0000b")),
    "a label in another alphabet": patch("metadata.labels: Invalid value", label(OURS, "gr\u0430phics")),
    "a label of 64 characters": patch("metadata.labels: Invalid value", label(OURS, "x" * 64)),
    "a label key with a line break": patch("metadata.labels: Invalid value", label("fairlead.dev/a\nb")),
    "a foreign annotation": patch("annotations", annotate("example.org/mine")),
    "a foreign annotation changed": patch("annotations", annotate("example.org/note", "gone")),
    "a foreign annotation removed": patch("annotations", annotate("example.org/note", None)),
    "an annotation of Kubernetes": patch("annotations", annotate("node.alpha.kubernetes.io/ttl", "0")),
    "an annotation with a control character": patch("annotation-text", annotate(OURS, "a\u001b[2Jb")),
    "an annotation that reads backwards": patch("annotation-text", annotate(OURS, "a\u202eb")),
    "a long annotation": patch("annotation-size", annotate(OURS, "x" * 65_537)),
    "a huge annotation": patch("metadata.annotations: Too long", annotate(OURS, "x" * 300_000)),
    "a taint": patch("spec", {"spec": {"taints": [TAINT]}}),
    "no taints": patch("spec", {"spec": {"taints": None}}),
    "a node taken out": patch("spec", {"spec": {"unschedulable": True}}),
    "a provider": patch("spec", {"spec": {"providerID": "mine://me"}}),
    "a pod network": patch("spec", {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
    "a finalizer": patch("metadata", {"metadata": {"finalizers": ["example.org/hold"]}}),
    "an owner": patch("metadata", {"metadata": {"ownerReferences": [OWNER]}}),
    "capacity": patch(
        "patch-only", {"status": {"capacity": {"fairlead.dev/gpu": "9"}}}, f"{NODE}/status", role=True
    ),
    "readiness": patch("patch-only", {"status": {"conditions": None}}, f"{NODE}/status", role=True),
    "a whole node": Attack("labels", "PUT", NODE, WHOLE, role=True),
    "a new node": Attack("patch-only", "POST", "/api/v1/nodes", named("{a}-new", WHOLE), role=True),
    "the end of a node": Attack("patch-only", "DELETE", NODE, role=True),
    "the end of another node": Attack("patch-only", "DELETE", OTHER_NODE, role=True),
    "the end of all nodes": Attack(
        "patch-only", "DELETE", "/api/v1/nodes?fieldSelector=metadata.name={b}", role=True
    ),
    "a way into the kubelet": Attack("patch-only", "POST", f"{NODE}/proxy/run/x", {}, role=True),
}

SLICE_ATTACKS: dict[str, Attack] = {
    "a slice of another node": make("slice-own-node", slice_of("{b}")),
    "a slice in another node's pool": make(
        "slice-own-pool", slice_of("{a}", pool={"name": "{b}", "generation": 9, "resourceSliceCount": 1})
    ),
    "a slice of another driver": make("slice-driver", slice_of("{a}", driver="gpu.nvidia.com")),
    "a slice of every node": make("slice-one-node", slice_of("{a}", nodeName=None, allNodes=True)),
    "a slice of chosen nodes": make("slice-one-node", slice_of("{a}", nodeName=None, nodeSelector=SELECTED)),
    "a slice of nodes device by device": make(
        "slice-one-node",
        slice_of(
            "{a}", nodeName=None, perDeviceNodeSelection=True, devices=[{"name": "x", "nodeName": "{b}"}]
        ),
    ),
    "a slice by an unbound token": make("bound-token", slice_of("{a}"), user="loose"),
    "my slice, as my neighbour": make("slice-own-node", slice_of("{a}"), user="b"),
    "a slice that stays": Attack(
        "slice-metadata",
        "POST",
        SLICES,
        named("{a}-fairlead-9", slice_of("{a}"), finalizers=["example.org/hold"]),
    ),
    "a slice that holds another node": Attack(
        "slice-metadata", "POST", SLICES, named("{a}-fairlead-9", slice_of("{a}"), ownerReferences=[OWNER])
    ),
    "a slice with a label of others": Attack(
        "slice-labels",
        "POST",
        SLICES,
        named("{a}-fairlead-9", slice_of("{a}"), labels={"example.org/x": "1"}),
    ),
    "a slice with hostile text": make(
        "slice-text", slice_of("{a}", devices=[{"name": "x", "attributes": HOSTILE}])
    ),
    "another node's slice emptied": Attack(
        "slice-own-node",
        "PUT",
        f"{SLICES}/{{b}}-fairlead-0",
        named("{b}-fairlead-0", slice_of("{b}", devices=[])),
    ),
    "another node's slice made mine": Attack(
        "spec.nodeName", "PUT", f"{SLICES}/{{b}}-fairlead-0", named("{b}-fairlead-0", slice_of("{a}"))
    ),
    "another driver's slice made mine": Attack(
        "spec.driver", "PUT", f"{SLICES}/{{a}}-other-driver", named("{a}-other-driver", slice_of("{a}"))
    ),
    "another driver's slice emptied": Attack(
        "slice-driver",
        "PUT",
        f"{SLICES}/{{a}}-other-driver",
        named("{a}-other-driver", slice_of("{a}", driver="gpu.example.org", devices=[])),
    ),
    "another node's slice patched": patch(
        "slice-own-node", {"spec": {"devices": []}}, f"{SLICES}/{{b}}-fairlead-0", role=True
    ),
    "every node's slice patched": patch(
        "slice-one-node", {"spec": {"devices": []}}, f"{SLICES}/{{ns}}-everywhere", role=True
    ),
    "another node's slice deleted": Attack("slice-own-node", "DELETE", f"{SLICES}/{{b}}-fairlead-0"),
    "another driver's slice deleted": Attack("slice-driver", "DELETE", f"{SLICES}/{{a}}-other-driver"),
    "every node's slice deleted": Attack("slice-one-node", "DELETE", f"{SLICES}/{{ns}}-everywhere"),
    "another node's slices deleted at once": Attack(
        "slice-own-node", "DELETE", f"{SLICES}?fieldSelector=spec.nodeName={{b}}", role=True
    ),
}

ATTACKS = {**NODE_ATTACKS, **SLICE_ATTACKS}
BEYOND: dict[str, tuple[str, str]] = {
    "secrets": ("GET", "/api/v1/secrets"),
    "pods": ("GET", "/api/v1/pods"),
    "a pod": ("POST", "/api/v1/namespaces/{ns}/pods"),
    "a binding": ("POST", "/api/v1/namespaces/{ns}/pods/a/binding"),
    "an account's token": ("POST", "/api/v1/namespaces/{ns}/serviceaccounts/fairlead-agent/token"),
    "claims of all": ("GET", "/apis/resource.k8s.io/v1/resourceclaims"),
    "a claim": ("POST", "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"),
    "classes": ("GET", "/apis/resource.k8s.io/v1/deviceclasses"),
    "the policies": ("GET", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
    "the end of a policy": (
        "DELETE",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/fairlead-agent-nodes",
    ),
    "leases": ("GET", "/apis/coordination.k8s.io/v1/leases"),
    "events": ("POST", "/api/v1/namespaces/{ns}/events"),
    "config maps": ("GET", "/api/v1/namespaces/{ns}/configmaps"),
}


def rules(documents: list[Document]) -> set[str]:
    """Return the rules of the policies."""
    messages = [
        validation["message"]
        for document in documents
        if document["kind"] == "ValidatingAdmissionPolicy"
        for validation in document["spec"]["validations"]
    ]
    matches = [re.fullmatch(r"fairlead-agent/([a-z-]+): .+", message) for message in messages]
    assert all(matches), "every message begins with its rule"
    return {match[1] for match in matches if match}


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_denied(what: str, world: World) -> None:
    attack, before = ATTACKS[what], world.state()
    reply = world.ask(attack.user, attack.method, attack.path, attack.body, attack.patch_type)
    assert attack.stopped_by(generous=world.generous) in reply.error
    assert world.state() == before


@pytest.mark.parametrize("what", BEYOND)
def test_the_role_allows_nothing_else(what: str, world: World) -> None:
    assert ROLE in world.ask("a", *BEYOND[what]).error


def test_every_rule_is_attacked(chart: Chart) -> None:
    assert rules(chart.render({})) == {attack.rule for attack in ATTACKS.values() if attack.ours}


def test_every_rule_is_documented(chart: Chart) -> None:
    page = (render.REFERENCE.parent / "policy.md").read_text()
    every = rules(chart.render({"profiles.agentsWrite": True}))
    assert set(re.findall(r"^\| `fairlead-agent/([a-z-]+)` \|", page, re.MULTILINE)) == every


def test_no_message_looks_like_a_denial_by_the_role(chart: Chart) -> None:
    # The client recognizes a denial by the role by this word, and then advises to grant a role.
    for document in chart.render({"profiles.agentsWrite": True}):
        if document["kind"] == "ValidatingAdmissionPolicy":
            assert "cannot" not in str(document)


def test_an_agents_own_requests_are_allowed(world: World) -> None:
    mine = named("{a}-fairlead-0", slice_of("{a}"), annotations={"fairlead.dev/digest": "0"})
    fuller = slice_of("{a}", devices=[{"name": "gpu-0"}, {"name": "tpu-0"}])
    trusted = "fairlead.node-restriction.kubernetes.io/gpu"
    for method, path, body in (
        ("GET", NODE, None),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name={a}", None),
        ("PATCH", NODE, {"metadata": {"labels": {OURS: "h200", trusted: "yes"}}}),
        ("PATCH", NODE, {"metadata": {"labels": {OURS: "t4"}, "annotations": {OURS: '{"held": 1}'}}}),
        ("PATCH", NODE, annotate("fairlead.dev/allocated", "x" * 65_536)),
        ("PATCH", NODE, {"metadata": {"labels": {OURS: None, trusted: None}, "annotations": {OURS: None}}}),
        ("PATCH", NODE, annotate("fairlead.dev/allocated", None)),
        ("POST", SLICES, mine),
        ("GET", f"{SLICES}?fieldSelector=spec.nodeName={{a}}", None),
        ("PUT", f"{SLICES}/{{a}}-fairlead-0", named("{a}-fairlead-0", fuller)),
        ("DELETE", f"{SLICES}/{{a}}-fairlead-0", None),
    ):
        assert world.ask("a", method, path, body) == Reply(), (method, path)
    missing = world.ask("a", "GET", "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims/none")
    assert "not found" in missing.error


def test_large_objects_are_within_the_cost_budget(world: World) -> None:
    """Rules have a cost budget, and one that exceeds it denies: no node may be too large for its agent."""
    world.fill("{a}", labels=1_000, annotations=100)
    attributes = {f"x{number}": {"string": "x" * 64} for number in range(32)}
    devices = [{"name": f"gpu-{number}", "attributes": attributes} for number in range(128)]
    large = named("{a}-fairlead-1", slice_of("{a}", devices=devices))
    mine = {"metadata": {"labels": {f"fairlead.dev/x{number}": "1" for number in range(200)}}}
    assert world.ask("a", "PATCH", NODE, mine) == Reply()
    assert world.ask("a", "PATCH", NODE, annotate("fairlead.dev/allocated", "x" * 65_536)) == Reply()
    assert "labels: " in world.ask("a", "PATCH", NODE, label("example.org/x999", None)).error
    assert world.ask("a", "POST", SLICES, large) == Reply()
    assert world.ask("a", "DELETE", f"{SLICES}/{{a}}-fairlead-1") == Reply()


def test_an_agent_may_set_legacy_labels_if_they_are_enabled(real_api: RealApi, chart: Chart) -> None:
    with installed(real_api, chart, {"publish.legacyLabels": True}, generous=False) as world:
        for key in LEGACY_KEYS:
            assert world.ask("a", "PATCH", NODE, label(key, "x")) == Reply()
        for key in ("gpu.count", "gpu", "nvidia.com/gpu.model"):
            assert f"must not set or remove {key}" in world.ask("a", "PATCH", NODE, label(key)).error
