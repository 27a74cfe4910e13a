"""The client on a real API server: credentials, refused requests, and streams."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from fairlead import errors
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ExecPlugin, Impersonation
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, LEASES, NODES, PODS, SERVICE_ACCOUNTS, Kind
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap, Lease, LeaseSpec, ServiceAccount
from fairlead.cluster.times import format_micro
from fairlead.compat.aio import timeout
from fairlead.compat.times import UTC
from tests.cluster.loopback import Authority
from tests.labs import LABEL, RealCluster

Scenario = Callable[[Client, str], Coroutine[Any, Any, None]]


def run(cluster: RealCluster, scenario: Scenario, **options: Any) -> None:
    """Run a scenario with a client and a namespace of its own."""

    async def inside() -> None:
        async with Client.connect(cluster.config, **options) as client:
            await scenario(client, cluster.namespace)

    asyncio.run(inside())


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=Metadata(name=name), data=data)


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}


def test_the_version_and_the_served_apis(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, _: str) -> None:
        version = await client.version()
        assert version.git_version.startswith("v1.")
        assert await client.serves("", "v1")
        assert await client.serves("coordination.k8s.io", "v1")
        assert not await client.serves("coordination.k8s.io", "v7")
        assert not await client.serves("example.org", "v1")

    run(real_cluster, scenario)


def test_a_list_in_pages_has_one_version(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        made = [
            client.create(CONFIG_MAPS, config_map(f"c{number:02}", n=str(number)), name)
            for number in range(30)
        ]
        newest = max(int(item.metadata.resource_version) for item in await asyncio.gather(*made))
        listing = await client.list(CONFIG_MAPS, name, limit=7)
        assert [item.data["n"] for item in listing.items] == [str(number) for number in range(30)]
        assert int(listing.resource_version) >= newest
        whole = await client.list(CONFIG_MAPS, name, limit=0, resource_version=listing.resource_version)
        assert whole.items == listing.items
        one = await client.list(CONFIG_MAPS, name, fields="metadata.name=c03")
        assert one.items == listing.items[3:4]

    run(real_cluster, scenario)


def test_responses_may_be_compressed(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        fill = "the same words again and again " * 3000
        for number in range(4):
            await client.create(CONFIG_MAPS, config_map(f"c{number}", fill=fill), name)
        listing = await client.list(CONFIG_MAPS, name)
        assert [len(item.data["fill"]) for item in listing.items] == [len(fill)] * 4

    run(real_cluster, scenario, compress=True)


def test_refused_requests(real_cluster: RealCluster) -> None:
    things = Kind.of("example.org", "v1", "things", namespaced=True, name="Thing")
    unknown = Kind.of("coordination.k8s.io", "v1", "things", namespaced=True, name="Thing")

    async def scenario(client: Client, name: str) -> None:
        with pytest.raises(errors.NotFoundError, match="configmaps 'none' not found"):
            await client.get(CONFIG_MAPS, "none", name)
        with pytest.raises(errors.NotFoundError, match="namespaces 'nowhere-at-all' not found"):
            await client.create(CONFIG_MAPS, config_map("c"), "nowhere-at-all")
        for kind in (things, unknown):
            with pytest.raises(errors.MissingApiError, match=f"does not serve {kind.resource}") as missing:
                await client.list(kind, name)
            assert missing.value.exit_code == 2
        made = await client.create(CONFIG_MAPS, config_map("c", a="1"), name)
        with pytest.raises(errors.AlreadyExistsError):
            await client.create(CONFIG_MAPS, config_map("c"), name)
        await client.update(CONFIG_MAPS, msgspec.structs.replace(made, data={"a": "2"}), name)
        with pytest.raises(errors.ConflictError, match="modified"):
            await client.update(CONFIG_MAPS, msgspec.structs.replace(made, data={"a": "3"}), name)
        with pytest.raises(errors.ConflictError):
            await client.delete(CONFIG_MAPS, "c", name, uid="another")
        with pytest.raises(errors.InvalidError, match=r"metadata\.name"):
            await client.create(CONFIG_MAPS, config_map("Not A Name"), name)
        with pytest.raises(errors.InvalidError):
            await client.patch(
                CONFIG_MAPS, "c", [{"op": "test", "path": "/data/a", "value": "9"}], name, patch_type="json"
            )
        with pytest.raises(errors.TooNewError):
            await client.list(CONFIG_MAPS, name, resource_version="999999999999")

    run(real_cluster, scenario)


def test_missing_access(real_cluster: RealCluster, tmp_path: Path) -> None:
    async def scenario(client: Client, name: str) -> None:
        eve = replace(real_cluster.config, impersonate=Impersonation("eve", groups=("visitors",)))
        async with Client.connect(eve) as other:
            with pytest.raises(
                errors.AccessError, match=f"^eve may not list pods in namespace '{name}'$"
            ) as no:
                await other.list(PODS, name)
            assert "kubectl auth can-i list pods" in no.value.hint
            with pytest.raises(errors.AccessError, match="eve may not patch nodes/status 'n1'"):
                await other.patch_status(NODES, "n1", {})
            with pytest.raises(errors.AccessError, match=r"eve may not watch leases\.coordination\.k8s\.io"):
                await anext(other.watch(LEASES, name))
        async with Client.connect(
            replace(real_cluster.config, login=AuthInfo(token="wrong"), user="joe")
        ) as anonymous:
            with pytest.raises(
                errors.AccessError, match="does not accept the credentials of user 'joe'"
            ) as rejected:
                await anonymous.list(PODS, name)
            assert (rejected.value.exit_code, rejected.value.code) == (2, 401)
        async with Client.connect(replace(real_cluster.config, login=AuthInfo())) as anonymous:
            with pytest.raises(errors.AccessError):
                await anonymous.list(PODS, name)
        async with Client.connect(replace(real_cluster.config, ca=Authority().pem)) as stranger:
            with pytest.raises(errors.ClusterUnavailableError, match="is not trusted"):
                await stranger.version()

    run(real_cluster, scenario)


def test_authentication_with_tokens(real_cluster: RealCluster, tmp_path: Path) -> None:
    async def scenario(client: Client, name: str) -> None:
        await client.create(SERVICE_ACCOUNTS, ServiceAccount(metadata=Metadata(name="robot")), name)
        answer = await client.request(
            "POST",
            SERVICE_ACCOUNTS.path(name, "robot", "token"),
            body=b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":600}}',
        )
        token = msgspec.json.decode(answer)["status"]["token"]
        (tmp_path / "token").write_text(token)
        program = tmp_path / "login"
        version = "client.authentication.k8s.io/v1"
        credential = msgspec.json.encode(
            {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}
        )
        program.write_text(f"#!/bin/sh\necho '{credential.decode()}'\n")
        program.chmod(0o755)
        for login in (
            AuthInfo(token=token),
            AuthInfo(token_file=str(tmp_path / "token")),
            AuthInfo(plugin=ExecPlugin(str(program), version)),
        ):
            async with Client.connect(replace(real_cluster.config, login=login)) as robot:
                with pytest.raises(
                    errors.AccessError, match=f"system:serviceaccount:{name}:robot may not list"
                ):
                    await robot.list(NODES)

    run(real_cluster, scenario)


def test_a_watch_delivers_events(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        first = await client.create(CONFIG_MAPS, config_map("a", n="1"), name)
        since = first.metadata.resource_version
        big = "x" * 1_000_000
        await client.patch(CONFIG_MAPS, "a", {"data": {"n": "2"}}, name)
        await client.create(CONFIG_MAPS, config_map("b", fill=big), name)
        await client.delete(CONFIG_MAPS, "a", name)
        seen = []
        async with aclosing(client.watch(CONFIG_MAPS, name, resource_version=since, timeout=30)) as events:
            async for event in events:
                seen.append((event.type, event.object.metadata.name, len(event.object.data.get("fill", ""))))
                if len(seen) == 3:
                    break
        assert seen == [("MODIFIED", "a", 0), ("ADDED", "b", 1_000_000), ("DELETED", "a", 0)]

    run(real_cluster, scenario)


def test_a_streamed_list(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        for number in range(5):
            await client.create(CONFIG_MAPS, config_map(f"c{number}"), name)
        names = []
        async with aclosing(client.watch(CONFIG_MAPS, name, timeout=30, send_initial_events=True)) as events:
            async for event in events:
                if event.initial_end:
                    assert int(event.object.metadata.resource_version) > 0
                    break
                names.append(f"{event.type} {event.object.metadata.name}")
        assert names == [f"ADDED c{number}" for number in range(5)]
        pods = client.watch(PODS, name, timeout=30, send_initial_events=True)
        async with aclosing(pods):
            assert (await anext(pods)).initial_end, "a pod's bookmark has null for its containers"

    run(real_cluster, scenario)


def test_a_watch_ends_after_its_timeout(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        now = (await client.list(CONFIG_MAPS, name)).resource_version
        events = [event async for event in client.watch(CONFIG_MAPS, name, resource_version=now, timeout=1)]
        assert all(event.type == "BOOKMARK" for event in events)

    run(real_cluster, scenario)


def test_binding_a_pod(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        made = await client.create(PODS, pod("p"), name)
        with pytest.raises(errors.ConflictError):
            await client.bind(name, "p", "another-uid", "n1")
        await client.bind(name, "p", made.metadata.uid, "n1")
        assert (await client.get(PODS, "p", name)).spec.node_name == "n1"
        with pytest.raises(errors.ConflictError, match="already assigned"):
            await client.bind(name, "p", made.metadata.uid, "n2")
        with pytest.raises(errors.NotFoundError):
            await client.bind(name, "none", "", "n1")

    run(real_cluster, scenario)


def test_server_side_apply_records_the_field_manager(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        def of(**data: str) -> dict[str, Any]:
            return {"metadata": {"name": "c"}, "data": data}

        await client.patch(CONFIG_MAPS, "c", of(a="1", b="1"), name, patch_type="apply", field_manager="one")
        with pytest.raises(errors.ConflictError, match="one"):
            await client.patch(CONFIG_MAPS, "c", of(a="2"), name, patch_type="apply", field_manager="two")
        taken = await client.patch(
            CONFIG_MAPS, "c", of(a="2"), name, patch_type="apply", field_manager="two", force=True
        )
        assert taken.data == {"a": "2", "b": "1"}
        whole = (await client.get(CONFIG_MAPS.raw(), "c", name)).document()
        assert {entry["manager"] for entry in whole["metadata"]["managedFields"]} == {"one", "two"}

    run(real_cluster, scenario)


def test_a_raw_update_keeps_unknown_fields(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        await client.create(PODS, pod("p"), name)
        raw = await client.get(PODS.raw(), "p", name)
        document = raw.document()
        document["metadata"]["labels"] = {"a": "b"}
        updated = await client.update(PODS.raw(), document, name)
        assert updated.document()["spec"] == raw.document()["spec"]
        assert updated.metadata.labels == {"a": "b"}

    run(real_cluster, scenario)


def test_leases_are_renewed_to_the_microsecond(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        at = datetime(2026, 11, 15, 12, 0, 0, 0, tzinfo=UTC)
        spec = LeaseSpec(holder_identity="me", lease_duration_seconds=15, renew_time=format_micro(at))
        made = await client.create(LEASES, Lease(metadata=Metadata(name="l"), spec=spec), name)
        assert made.spec.renew_time == "2026-11-15T12:00:00.000000Z"
        later = msgspec.structs.replace(made.spec, renew_time=format_micro(at.replace(microsecond=1)))
        renewed = await client.update(LEASES, msgspec.structs.replace(made, spec=later))
        assert renewed.spec.renew_time == "2026-11-15T12:00:00.000001Z"

    run(real_cluster, scenario)


def test_a_new_definition_decodes_with_its_nulls(real_cluster: RealCluster) -> None:
    plural, group = f"t{uuid4().hex[:8]}", "test.fairlead.dev"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    kind = Kind.of(group, "v1", plural, namespaced=True, name="Thing")

    async def scenario(client: Client, name: str) -> None:
        labels = {LABEL: name}  # the fixture deletes it if this test fails before it does
        made = await client.create(
            CRDS, {**body, "metadata": {"name": f"{plural}.{group}", "labels": labels}}
        )
        assert made.spec.names.plural == plural
        try:
            async with timeout(300):
                while not any(
                    item.type == "Established" and item.status == "True"
                    for item in (await client.get(CRDS, made.metadata.name)).status.conditions
                ):
                    await asyncio.sleep(0.1)
                while not await client.serves(group, "v1"):
                    await asyncio.sleep(0.1)
            thing = await client.create(kind, {"metadata": {"name": "t"}, "spec": {"deep": [1]}}, name)
            assert thing.document()["spec"] == {"deep": [1]}
            assert (await client.list(kind, name)).items[0].document()["spec"] == {"deep": [1]}
        finally:
            await client.delete(CRDS, made.metadata.name)

    run(real_cluster, scenario)


def test_many_concurrent_requests(real_cluster: RealCluster) -> None:
    async def scenario(client: Client, name: str) -> None:
        names = [f"c{number}" for number in range(200)]
        await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(item), name) for item in names))
        maps = await asyncio.gather(*(client.get(CONFIG_MAPS, item, name) for item in names))
        assert [item.metadata.name for item in maps] == names

    run(real_cluster, scenario, connections=32)
