"""A cluster is read once: in memory, where something may be missing or forbidden, and a real one."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, PODS
from fairlead.doctor.examine import examine
from fairlead.doctor.finding import Severity
from fairlead.doctor.read import ApiServerReviews, read
from fairlead.doctor.rights import required_rules
from fairlead.doctor.view import AccessRule, ClusterView
from fairlead.errors import AccessError, MissingApiError
from tests.doctor.worlds import NOW, FakeServer, node, program
from tests.fakecluster.cluster import FakeCluster
from tests.fakecluster.partly import Partly
from tests.labs import RealCluster


def seen(server: FakeServer, refuses: dict[str, Exception] | None = None) -> ClusterView:
    async def look() -> ClusterView:
        cluster = FakeCluster()
        await cluster.create(NODES, msgspec.to_builtins(node()))
        for each in (program("agent", "box"), program("scheduler", "box")):
            await cluster.create(PODS.raw(), msgspec.to_builtins(each))
        partly: Any = Partly(cluster, refuses or {})
        return await read(server, partly, NOW + timedelta(seconds=7), "fairlead")

    return asyncio.run(look())


def test_all_of_it_is_seen() -> None:
    sight = seen(FakeServer())
    assert (sight.version, sight.user, sight.ahead) == ((1, 37), "admin", 7.0)
    assert [each.metadata.name for each in sight.nodes] == ["box"]
    assert [pod.spec.service_account_name for pod in sight.component("agent")] == ["fairlead-agent"]
    assert not sight.lacking
    assert not sight.blind


def test_a_right_that_is_refused_is_found() -> None:
    sight = seen(FakeServer(frozenset({("create", "pods/binding")})))
    assert sight.lacking == (AccessRule("default/fairlead-scheduler", "create", "pods/binding"),)


def test_volumes_and_quotas_are_asked_for_the_scheduler_alone() -> None:
    kinds = ("resourcequotas", "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io")
    rights = [(verb, kind) for kind in kinds for verb in ("list", "watch")]
    rights += [("patch", kind) for kind in kinds[1:3]]
    programs = [[program(name, "box")] for name in ("agent", "scheduler", "extender")]
    asked = [each for each in required_rules(*programs) if (each.verb, each.resource) in rights]
    assert asked == [AccessRule("default/fairlead-scheduler", *right) for right in rights]
    assert seen(FakeServer(frozenset(rights))).lacking == tuple(asked)


def test_what_is_missing_or_forbidden_is_noted_and_the_rest_is_looked_at() -> None:
    sight = seen(
        FakeServer(),
        {"resourceslices": MissingApiError("no slices"), "leases": AccessError("leases are forbidden")},
    )
    assert "resourceslices" in sight.missing
    findings = {each.check: each for each in examine(sight)}
    assert findings["lease"].text == "cannot look: leases are forbidden"
    assert findings["agents"].verdict is Severity.OK
    assert not [each for each in sight.lacking if "resource.k8s.io" in each.resource]


def test_a_real_server_tells_the_time_and_who_may_do_what(real_cluster: RealCluster) -> None:
    async def look() -> tuple[ClusterView, list[bool]]:
        async with real_cluster.connect() as client:
            server = ApiServerReviews(client)
            welcome = await server.server_info()
            sight = await read(server, client, welcome.now, "fairlead")
            account = f"{real_cluster.namespace}/default"
            rights = [
                AccessRule(account, "create", "pods/binding"),
                AccessRule(account, "get", "leases.coordination.k8s.io"),
            ]
            return sight, [await server.allows(right) for right in rights]

    sight, answers = asyncio.run(look())
    assert sight.version >= (1, 30)
    assert sight.user
    assert sight.now > NOW - timedelta(days=3650)
    assert answers == [False, False]
    assert not sight.blind
    assert {each.check for each in examine(sight)}


@pytest.mark.parametrize("verb", ["get", "list"])
def test_a_real_server_allows_its_own_controllers(verb: str, real_cluster: RealCluster) -> None:
    async def ask() -> bool:
        async with Client.connect(real_cluster.config) as client:
            return await ApiServerReviews(client).allows(
                AccessRule("kube-system/replicaset-controller", verb, "pods")
            )

    assert asyncio.run(ask()) == (verb == "list")
