"""A cluster is read once: one in memory, with kinds missing or forbidden, and a real one."""

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
from tests.fakecluster.restricted import RestrictedCluster
from tests.labs import RealCluster


def read_view(server: FakeServer, refuses: dict[str, Exception] | None = None) -> ClusterView:
    async def look() -> ClusterView:
        cluster = FakeCluster()
        await cluster.create(NODES, msgspec.to_builtins(node()))
        for each in (program("agent", "box"), program("scheduler", "box")):
            await cluster.create(PODS.raw(), msgspec.to_builtins(each))
        partly: Any = RestrictedCluster(cluster, refuses or {})
        return await read(server, partly, NOW + timedelta(seconds=7), "fairlead")

    return asyncio.run(look())


def test_every_kind_is_read() -> None:
    view = read_view(FakeServer())
    assert (view.version, view.user, view.ahead) == ((1, 37), "admin", 7.0)
    assert [each.metadata.name for each in view.nodes] == ["box"]
    assert [pod.spec.service_account_name for pod in view.component("agent")] == ["fairlead-agent"]
    assert not view.missing_rights
    assert not view.forbidden


def test_a_missing_right_is_found() -> None:
    view = read_view(FakeServer(frozenset({("create", "pods/binding")})))
    assert view.missing_rights == (AccessRule("default/fairlead-scheduler", "create", "pods/binding"),)


def test_only_the_scheduler_needs_volumes_and_quotas() -> None:
    kinds = ("resourcequotas", "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io")
    rights = [(verb, kind) for kind in kinds for verb in ("list", "watch")]
    rights += [("patch", kind) for kind in kinds[1:3]]
    programs = [[program(name, "box")] for name in ("agent", "scheduler", "extender")]
    rules = [
        required_rule
        for required_rule in required_rules(*programs)
        if (required_rule.verb, required_rule.resource) in rights
    ]
    assert rules == [AccessRule("default/fairlead-scheduler", *right) for right in rights]
    assert read_view(FakeServer(frozenset(rights))).missing_rights == tuple(rules)


def test_a_missing_or_forbidden_kind_stops_no_other_check() -> None:
    view = read_view(
        FakeServer(),
        {"resourceslices": MissingApiError("no slices"), "leases": AccessError("leases are forbidden")},
    )
    assert "resourceslices" in view.missing
    findings = {each.check: each for each in examine(view)}
    assert findings["lease"].text == "cannot check: leases are forbidden"
    assert findings["agents"].verdict is Severity.OK
    assert not [
        missing_right for missing_right in view.missing_rights if "resource.k8s.io" in missing_right.resource
    ]


def test_a_real_server_reports_its_time_and_reviews_rights(real_cluster: RealCluster) -> None:
    async def look() -> tuple[ClusterView, list[bool]]:
        async with real_cluster.connect() as client:
            server = ApiServerReviews(client)
            info = await server.server_info()
            view = await read(server, client, info.now, "fairlead")
            account = f"{real_cluster.namespace}/default"
            rights = [
                AccessRule(account, "create", "pods/binding"),
                AccessRule(account, "get", "leases.coordination.k8s.io"),
            ]
            return view, [await server.allows(right) for right in rights]

    view, answers = asyncio.run(look())
    assert view.version >= (1, 30)
    assert view.user
    assert view.now > NOW - timedelta(days=3650)
    assert answers == [False, False]
    assert not view.forbidden
    assert {each.check for each in examine(view)}


@pytest.mark.parametrize("verb", ["get", "list"])
def test_a_real_server_allows_its_own_controllers(verb: str, real_cluster: RealCluster) -> None:
    async def ask() -> bool:
        async with Client.connect(real_cluster.config) as client:
            return await ApiServerReviews(client).allows(
                AccessRule("kube-system/replicaset-controller", verb, "pods")
            )

    assert asyncio.run(ask()) == (verb == "list")
