"""Invalid pods on a real API server: each gets a clear reason, or the server itself refuses it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead.cache.types import CLAIMS
from fairlead.catalog import Catalog
from fairlead.cluster.kinds import PODS, Kind
from fairlead.errors import ClusterError, InvalidError
from tests.labs import LABEL, RealCluster
from tests.serve.scheduler.leader.mixed import Mixed, mixed

CLASSES = Kind.of("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, name="PriorityClass")
GPUS = {"a": ("t4", 16), "b": ("t4", 16)}
GPU = {"nvidia.com/gpu": "1"}


@dataclass(frozen=True)
class Odd:
    """An invalid pod, and the words of its reason."""

    says: tuple[str, ...]
    limits: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)


def note(key: str, value: str, *says: str, **limits: str) -> Odd:
    return Odd((f"metadata.annotations[{key}]", *says), limits, {key: value})


def uses(**claim: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "gpu", **claim}]}


FAILS = 'device.attributes["x"].y == 1'
ODD = {
    "more-than-any": Odd(
        ("accelerators can take more-than-any", "need 977 GiB, most 16 GiB"),
        {"fairlead.dev/gpu-mem": "999999"},
    ),
    "endless": Odd(
        ("limits.fairlead.dev/gpu-mem", "more than anything"), {"fairlead.dev/gpu-mem": str(2**63 - 1)}
    ),
    "billion": Odd(("need 1000000000, most 1",), {"nvidia.com/gpu": "1000000000"}),
    "zero": note("gpu-fraction", "0", "is not above 0", "write it like 0.25"),
    "empty": note("gpu-fraction", "", "is not a fraction"),
    "too-much": note("gpu-fraction", "1.5", "more than 1"),
    "not-a-number": note("gpu-fraction", "NaN", "is not a fraction"),
    "letters": note("gpu-fraction", "abc", "is not a fraction"),
    "other-digits": note("gpu-fraction", "\u0660.\u0665", "is not a fraction"),
    "digits": note("gpu-fraction", "1" * 200_000, "a string of 200000 characters"),
    "part-of-a-mib": note("gpu-memory", "1.5", "is not a whole number"),
    "less-than-nothing": note("gpu-memory", "-3", "is negative"),
    "two-amounts": Odd(
        ("fairlead.dev/gpu-mem and nvidia.com/gpumem", "keep one"),
        {"fairlead.dev/gpu-mem": "1024", "nvidia.com/gpumem": "2048"},
    ),
    "amount-and-part": Odd(
        ("fairlead.dev/gpu-mem, gpu-fraction", "keep one"),
        {"fairlead.dev/gpu-mem": "1"},
        {"gpu-fraction": "0.5"},
    ),
    "cores": Odd(("nvidia.com/gpucores: 130 %",), {**GPU, "nvidia.com/gpucores": "130"}),
    "gpushare-count": Odd(("aliyun.com/gpu-count", "aliyun.com/gpu-mem"), {"aliyun.com/gpu-count": "1"}),
    "no-such-device": Odd(("no device 't44'", "did you mean t4"), {"fairlead.dev/t44": "1"}),
    "snowman": note("fairlead.dev/accelerators", "т4 ☃", "no device 'т4 ☃'", **GPU),
    "many-names": note("fairlead.dev/accelerators", ",".join(map(str, range(9999))), "9999 names", **GPU),
    "long-name": note("fairlead.dev/accelerators", "x" * 200_000, "a name of 200000", **GPU),
    "no-such-precision": note("fairlead.dev/precision", "fp13", "unknown precision", **GPU),
    "no-such-model": note(
        "fairlead.dev/model", "gpt-12", "knows no model 'gpt-12'", "fairlead profiles import"
    ),
    "soon": Odd(
        ("annotations[fairlead.dev/slo-latency]", "is not a duration"),
        GPU,
        {"fairlead.dev/model": "m", "fairlead.dev/slo-latency": "soon"},
    ),
    "latency-of-what": note(
        "fairlead.dev/slo-latency", "5ms", "add the annotation fairlead.dev/model", **GPU
    ),
    "gang-without-size": Odd(
        ("no annotation states how many", "fairlead.dev/gang-size"), {}, {"fairlead.dev/gang": "g"}
    ),
    "gang-of-many": Odd(
        ("annotations[fairlead.dev/gang-size]",),
        {},
        {"fairlead.dev/gang": "g", "fairlead.dev/gang-size": "many"},
    ),
    "no-such-group": Odd(("no PodGroup",), {}, {"scheduling.k8s.io/group-name": "none"}),
    "no-such-claim": Odd(
        ("spec.resourceClaims[0]: no ResourceClaim", "create it"), {}, {}, uses(resourceClaimName="none")
    ),
    "no-such-template": Odd(
        ("no ResourceClaimTemplate", "create it"), {}, {}, uses(resourceClaimTemplateName="none")
    ),
    "of-another-namespace": Odd(
        ("no ResourceClaimTemplate", "of its namespace"), {}, {}, uses(resourceClaimTemplateName="theirs")
    ),
    "no-such-class": Odd(("no DeviceClass 'classless'",), {}, {}, uses(resourceClaimName="classless")),
    "odd-condition": Odd(("the selector", "no such key: y"), {}, {}, uses(resourceClaimName="odd")),
    "claim-and-resource": Odd(
        ("by resource and by claim", "keep one"), GPU, {}, uses(resourceClaimName="plain")
    ),
}
IMPOSSIBLE = {
    "negative": {"fairlead.dev/gpu-mem": "-5"},
    "fractional": {"fairlead.dev/gpu-mem": "1.5"},
    "no-quantity": {"fairlead.dev/gpu-mem": "much"},
}
"""Limits that the API server itself refuses."""


def test_an_invalid_pod_gets_a_reason_and_affects_no_other_pod(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            await create_claims(world)
            await world.create_pod("before", {"fairlead.dev/gpu-mem": "1024"})
            for name, odd in ODD.items():
                await world.create_pod(name, odd.limits, annotations=odd.notes, **odd.spec)
            await world.create_pod("after", {"aliyun.com/gpu-mem": "2"})
            for name, limits in IMPOSSIBLE.items():
                with pytest.raises(ClusterError):
                    await world.create_pod(name, limits)
            await world.places("before", "after")
            for name, odd in ODD.items():
                message = await world.pending_message(name)
                assert all(word in message for word in odd.says), f"{name}: {message}"
                assert len(message) <= 1000
            assert [text for text in await world.events_of("zero") if "is not above 0" in text]
            await world.create_pod("last", {"fairlead.dev/gpu-mem": "1024"})
            await world.places("last")
            waiting = {pod.metadata.name for pod in await world.pods() if not pod.spec.node_name}
            assert waiting == set(ODD)

    asyncio.run(scenario())


async def create_claims(world: Mixed) -> None:
    """Create the claims that some of the pods name."""
    for name, about in {
        "classless": {"deviceClassName": "classless"},
        "odd": {"deviceClassName": "fairlead.dev", "selectors": [{"cel": {"expression": FAILS}}]},
        "plain": {"deviceClassName": "fairlead.dev"},
    }.items():
        spec = {"devices": {"requests": [{"name": "one", "exactly": about}]}}
        await world.client.create(CLAIMS.raw(), {"metadata": {"name": name}, "spec": spec}, world.namespace)


def test_the_server_refuses_an_annotation_that_is_too_long(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            with pytest.raises(InvalidError):
                await world.create_pod("heavy", {}, annotations={"gpu-fraction": "1" * 900_000})
            await world.create_pod("light", {"fairlead.dev/gpu-mem": "1024"})
            await world.places("light")

    asyncio.run(scenario())


def test_priorities_as_high_and_low_as_they_get(real_cluster: RealCluster, catalog: Catalog) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            names = {f"{world.namespace}-low": -(2**31), f"{world.namespace}-high": 10**9}
            try:
                for name, value in names.items():
                    body = {"metadata": {"name": name, "labels": {LABEL: world.namespace}}, "value": value}
                    await world.client.create(CLASSES, body)
                    await world.create_pod(name, {"fairlead.dev/gpu-mem": "1024"}, priorityClassName=name)
                await world.places(*names)
            finally:
                await world.client.delete_collection(CLASSES, labels=f"{LABEL}={world.namespace}")

    asyncio.run(scenario())


def test_pods_that_are_deleted_while_they_are_bound_leave_no_claims(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            for number in range(12):
                await world.create_pod(f"brief-{number}", {"fairlead.dev/gpu-mem": "8192"})
                if number % 2:
                    await asyncio.sleep(0.02)
                await world.client.delete(PODS, f"brief-{number}", world.namespace, grace=0)
            await world.clean()
            for name in ("one", "two"):
                await world.create_pod(name, {"fairlead.dev/gpu-mem": "16384"})
            await world.places("one", "two")
            owners = {owner.name for each in await world.claims() for owner in each.metadata.owner_references}
            assert owners <= {"one", "two"}

    asyncio.run(scenario())
