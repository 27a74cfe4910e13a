"""Agents that may store profiles: they sign them with their own node, and delete none."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.http import codec
from fairlead.modelprofiles.convert import observed_profile
from fairlead.modelprofiles.store import StoreCounts, check_served, list_profiles, store
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.units import Bytes
from tests.deploy.chart.charts import Chart, Document, one
from tests.deploy.chart.test_policy import Attack, rules
from tests.deploy.chart.test_roles import allowed
from tests.deploy.chart.worlds import Reply, World, installed
from tests.labs import RealApi
from tests.profiles import define, observed

PROFILES = MODEL_PROFILES.path()
WRITES = {"profiles.agentsWrite": True}
POLICY = "fairlead-agent-profiles"


def profile(signed: str, host: str = "{ns}", **metadata: Any) -> Document:
    """Return a profile; its host has the namespace's name, so that tests do not share profiles."""
    document: Document = codec.to_document(MODEL_PROFILES, observed_profile(observed(host=host), signed))
    name = f"{{ns}}-{host.strip('{}')}"
    return {**document, "metadata": {"name": name, "labels": {"fairlead.dev/device": "l4"}, **metadata}}


def make(rule: str, document: Document, **more: Any) -> Attack:
    return Attack(rule, "POST", PROFILES, document, **more)


def with_model(text: str) -> Document:
    document = profile("{a}")
    return {**document, "spec": {**document["spec"], "model": text}}


ATTACKS = {
    "a profile signed with another node": make("profile-own-node", profile("{b}")),
    "a profile signed with nothing": make("profile-own-node", profile("")),
    "my profile, as my neighbour": make("profile-own-node", profile("{a}"), user="b"),
    "a profile by an unbound token": make("bound-token", profile("{a}"), user="loose"),
    "a profile that stays": make("profile-metadata", profile("{a}", finalizers=["example.org/hold"])),
    "a profile of an owner": make(
        "profile-metadata",
        profile("{a}", ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "{a}", "uid": "0"}]),
    ),
    "a label of others": make("profile-labels", profile("{a}", labels={"example.org/x": "1"})),
    "a note of others": make("profile-labels", profile("{a}", annotations={"example.org/x": "1"})),
    "a text that reads backwards": make("profile-text", with_model("a\u202eb")),
    "a text with a control character": make("profile-text", with_model("a\u001b[2Jb")),
    "the end of a profile": Attack("profile-kept", "DELETE", f"{PROFILES}/{{ns}}-there", role=True),
    "the end of all profiles": Attack(
        "profile-kept", "DELETE", f"{PROFILES}?fieldSelector=metadata.name={{ns}}-there", role=True
    ),
    "a patch in another's name": Attack(
        "profile-own-node",
        "PATCH",
        f"{PROFILES}/{{ns}}-there",
        {"spec": {"node": "{a}"}},
        role=True,
        user="b",
    ),
}


@pytest.fixture(scope="module", params=[False, True], ids=["as shipped", "generous role"])
def writers(request: pytest.FixtureRequest, real_api: RealApi, chart: Chart) -> Iterator[World]:
    """Return a cluster under the policies whose agents may store profiles; one profile exists."""
    define(real_api)
    with installed(real_api, chart, WRITES, generous=request.param) as world:
        _wait_for_policy(world)
        assert world.ask("a", "POST", PROFILES, profile("{a}", "there")) == Reply()
        yield world
    asyncio.run(_clean(real_api, world.namespace))


async def _clean(api: RealApi, namespace: str) -> None:
    async with Client.connect(api.config) as client:
        for stored in await list_profiles(client):
            if namespace in (stored.spec.host, stored.metadata.name.rpartition("-")[0]):
                await client.delete(MODEL_PROFILES, stored.metadata.name)


def _wait_for_policy(world: World) -> None:
    """Wait until the API server enforces the policy."""
    path, strange = f"{PROFILES}?dryRun=All", profile("{b}", "probe")
    for _ in range(600):
        if "profile-own-node" in world.ask("a", "POST", path, strange).error:
            return
    raise AssertionError("the API server does not enforce the policy")


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_denied(what: str, writers: World) -> None:
    attack = ATTACKS[what]
    reply = writers.ask(attack.user, attack.method, attack.path, attack.body, attack.patch_type)
    assert attack.stopped_by(generous=writers.generous) in reply.error


def test_agents_with_one_setup_update_each_others_profile(writers: World) -> None:
    async def write(user: str, peak: int) -> StoreCounts:
        sight = observed_profile(
            observed(host=writers.namespace, peak_bytes=Bytes(peak)), f"{writers.namespace}-{user}"
        )
        async with Client.connect(writers.login(user)) as client:
            await check_served(client)
            return await store(client, [sight], Random(0))

    assert asyncio.run(write("a", 100)) == StoreCounts(made=1)
    assert asyncio.run(write("b", 300)) == StoreCounts(changed=1)
    assert asyncio.run(write("a", 200)) == StoreCounts(kept=1)


def test_every_rule_is_attacked(chart: Chart) -> None:
    policy = one(chart.render(WRITES), "ValidatingAdmissionPolicy", POLICY)
    assert rules([policy]) == {attack.rule for attack in ATTACKS.values()}


def test_agents_write_only_if_enabled(chart: Chart) -> None:
    ours = {("get", "modelprofiles.fairlead.dev"), ("create", "modelprofiles.fairlead.dev")}
    ours |= {("update", "modelprofiles.fairlead.dev")}
    plain = allowed(one(chart.render({}), "ClusterRole", "fairlead-agent"))
    assert not plain & ours
    assert allowed(one(chart.render(WRITES), "ClusterRole", "fairlead-agent")) == plain | ours
    assert POLICY not in {document["metadata"]["name"] for document in chart.render({})}


def test_readers_and_writers_have_roles(chart: Chart) -> None:
    documents = chart.render({})
    reads = {(verb, "modelprofiles.fairlead.dev") for verb in ("get", "list", "watch")}
    writes = {(verb, "modelprofiles.fairlead.dev") for verb in ("create", "update", "delete")}
    assert allowed(one(documents, "ClusterRole", "fairlead-profiles-view")) == reads
    assert allowed(one(documents, "ClusterRole", "fairlead-profiles-edit")) == reads | writes


def test_the_kind_survives_an_uninstall(chart: Chart) -> None:
    kind = one(chart.render({}), "CustomResourceDefinition")
    assert kind["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    without = {document["kind"] for document in chart.render({"profiles.enabled": False})}
    assert "CustomResourceDefinition" not in without
