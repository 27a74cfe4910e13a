"""Pods come and go while a cluster is read: a state that two lists of two moments show is not reported."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fairlead.cluster.kinds import NODES, PODS, RESOURCE_SLICES, Kind
from fairlead.doctor.finding import Finding, Severity
from fairlead.doctor.second_look import SECOND_LOOK_AFTER, examine_cluster
from fairlead.doctor.view import Pod
from fairlead.errors import AccessError
from fairlead.manifest.listing import CLAIMS
from fairlead.manifest.types.live import LiveClaim
from tests.doctor.worlds import NOW, FakeServer, claim, device_slice, node, pod, share
from tests.fakecluster.cluster import FakeCluster

Step = Callable[[FakeCluster], Awaitable[Any]]


def add(item: Pod | LiveClaim) -> Step:
    kind = PODS if isinstance(item, Pod) else CLAIMS
    return lambda cluster: cluster.create(kind.raw(), msgspec.to_builtins(item))


def drop(item: Pod | LiveClaim) -> Step:
    kind: Kind[Any] = PODS if isinstance(item, Pod) else CLAIMS
    return lambda cluster: cluster.delete(kind, item.metadata.name, "default", grace=0)


class Busy:
    """A cluster that changes each time after its pods were listed."""

    def __init__(self, cluster: FakeCluster, steps: list[list[Step]]) -> None:
        self._cluster = cluster
        self._steps = iter(steps)

    async def list(self, kind: Kind[Any], *arguments: Any, **options: Any) -> Any:
        objects = await self._cluster.list(kind, *arguments, **options)
        for step in next(self._steps, ()) if kind.plural == "pods" else ():
            await step(self._cluster)
        return objects


def examined(
    existing: list[Step], *steps: list[Step], forbids_claims: bool = False
) -> tuple[list[Finding], list[float]]:
    """Return the findings while these changes happen, and the pauses between the looks."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def look() -> list[Finding]:
        cluster = FakeCluster(now=lambda: NOW - timedelta(hours=1))
        await cluster.create(NODES, msgspec.to_builtins(node()))
        await cluster.create(RESOURCE_SLICES.raw(), msgspec.to_builtins(device_slice()))
        for step in existing:
            await step(cluster)
        busy: Any = WithoutClaims(cluster, []) if forbids_claims else Busy(cluster, list(steps))
        return await examine_cluster(FakeServer(), busy, lambda: NOW, "fairlead", pause)

    return asyncio.run(look()), pauses


class WithoutClaims(Busy):
    """A cluster that forbids listing claims."""

    async def list(self, kind: Kind[Any], *arguments: Any, **options: Any) -> Any:
        if kind.plural == "resourceclaims":
            raise AccessError("claims are forbidden")
        return await super().list(kind, *arguments, **options)


OLD = share("old", 4096)
FIRST, SECOND = claim("first", 4096, "claims"), claim("second", 4096, "claims")
HOLDER = pod("claims", "box")


def of(findings: list[Finding], check: str) -> list[Severity]:
    return [finding.verdict for finding in findings if finding.check == check]


@pytest.mark.parametrize(
    ("existing", "steps"),
    [
        ([add(OLD), add(HOLDER)], [[drop(OLD), add(FIRST)]]),
        # In each look another holder seems to share the device.
        ([add(OLD), add(HOLDER)], [[drop(OLD), add(FIRST)], [drop(FIRST), add(SECOND)]]),
    ],
    ids=["one holder replaced", "replaced twice"],
)
def test_a_state_that_held_at_no_moment_is_not_reported(
    existing: list[Step], steps: list[list[Step]]
) -> None:
    findings, pauses = examined(existing, *steps)
    assert of(findings, "given-away") == [Severity.OK]
    assert pauses == [SECOND_LOOK_AFTER]


def test_a_lasting_fault_is_reported() -> None:
    findings, pauses = examined([add(OLD), add(HOLDER), add(FIRST)])
    assert of(findings, "given-away") == [Severity.FAIL]
    assert pauses == [SECOND_LOOK_AFTER]
    (text,) = [finding.text for finding in findings if finding.check == "given-away"]
    assert text.endswith("8.0 GiB of 4.0 GiB allocated to default/first, default/old")


def test_a_claim_that_ends_a_moment_after_its_pod_is_no_orphan() -> None:
    findings, _ = examined([add(FIRST)], [], [drop(FIRST)])
    assert of(findings, "orphan-claims") == [Severity.OK]
    findings, _ = examined([add(FIRST)])
    assert of(findings, "orphan-claims") == [Severity.WARN]


@pytest.mark.parametrize(
    ("existing", "forbids_claims"), [([add(OLD)], False), ([add(OLD), add(FIRST)], True)]
)
def test_no_second_look_without_need(existing: list[Step], forbids_claims: bool) -> None:
    assert examined(existing, forbids_claims=forbids_claims)[1] == []
