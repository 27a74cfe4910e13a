"""Which changes of a pod affect scheduling, and which pods name a claim."""

import pytest
from msgspec.structs import replace

from fairlead.cache.claim_index import ClaimIndex
from fairlead.cache.pod_changes import is_as_assumed
from fairlead.cache.types import LivePod
from fairlead.keys import PLACEMENT
from fairlead.manifest.pod.claim_names import claims_named
from fairlead.manifest.types.kubernetes import PodResourceClaimStatus
from fairlead.placement import PLACEMENTS, Placement
from fairlead.request import Request
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.scheduler.objects import GIB, pod

PART, WHOLE = DeviceShare("gpu-0", Bytes(GIB)), DeviceShare("gpu-1", Bytes(4 * GIB), 1000, whole=True)
WANTS = [{"name": "it", "resourceClaimTemplateName": "t"}]


def note(*shares: DeviceShare) -> dict[str, str]:
    return {PLACEMENT: PLACEMENTS.encode(tuple(shares))}


@pytest.mark.parametrize(
    ("now", "shares", "same"),
    [
        (pod("a", 2, on="n"), (), True),
        (pod("a", 2, on="other"), (), False),
        (pod("a", 2), (), False),
        (pod("a", 2, on="n", notes={"x": "y"}), (), False),
        (pod("a", 2, on="n", phase="Failed"), (), False),
        (pod("a", 2, on="n", notes=note(PART)), (PART,), True),
        (pod("a", 2, on="n", notes=note(WHOLE)), (WHOLE,), True),
        (pod("a", 2, on="n", notes=note(PART)), (WHOLE,), False),
        (pod("a", 2, on="n", notes=note(PART, WHOLE)), (PART,), False),
        (pod("a", 2, on="n"), (PART,), False),
        (pod("a", 2, on="n", notes={PLACEMENT: "?"}), (PART,), False),
    ],
)
def test_a_pod_is_as_assumed_where_its_binding_has_exactly_that_placement(
    now: LivePod, shares: tuple[DeviceShare, ...], same: bool
) -> None:
    assert is_as_assumed(pod("a"), now, Placement(Request("a", uid="uid-a"), "n", shares)) is same


def test_a_pod_with_claims_is_never_as_assumed() -> None:
    assumed = Placement(Request("a", uid="uid-a"), "n", (PART,))
    assert not is_as_assumed(
        pod("a", resourceClaims=WANTS), pod("a", 2, on="n", notes=note(PART), resourceClaims=WANTS), assumed
    )


def test_the_claims_of_a_pod_are_those_that_it_names_and_its_own() -> None:
    claims = [{"name": "own", "resourceClaimName": "mine"}, *WANTS]
    waiting = pod("a", resourceClaims=claims)
    assert claims_named(waiting) == {"own": ("default", "mine")}
    statuses = (PodResourceClaimStatus(name="it", resource_claim_name="a-it"),)
    claimed = replace(waiting, status=replace(waiting.status, resource_claim_statuses=statuses))
    assert claims_named(claimed) == {"own": ("default", "mine"), "it": ("default", "a-it")}


def test_a_claim_affects_the_pods_that_name_it_now() -> None:
    claimants = ClaimIndex()
    claimants.put("a", [("default", "x"), ("default", "y")])
    claimants.put("b", [("default", "y")])
    claimants.put("c", [])
    assert claimants.of(("default", "y")) == {"a", "b"}
    claimants.put("a", [("default", "z")])
    claimants.drop("b")
    claimants.drop("unknown")
    assert claimants.of(("default", "x")) == claimants.of(("default", "y")) == set()
    assert claimants.of(("default", "z")) == {"a"}
