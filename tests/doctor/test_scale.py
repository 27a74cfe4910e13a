"""A large cluster is examined in seconds, and a fault on every node takes a few lines."""

import time
from collections import Counter

import msgspec
import pytest

from fairlead.doctor.examine import examine
from fairlead.doctor.finding import Severity
from fairlead.doctor.view import ClusterView, Pod
from fairlead.keys import PLACEMENT
from fairlead.manifest.types.live import LiveClaim
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.doctor.worlds import GPU, claim, device_slice, healthy, node, pod, program

NODES, PODS = 5_000, 25_000
SECONDS = 3.0


def large(nodes: int, pods: int, mebibytes: int, has: dict[str, str]) -> ClusterView:
    """Return nodes with one GPU each, and their pods: plain, by annotation and by claims in turn."""
    names = [f"n{number}" for number in range(nodes)]
    annotated, plain, claimed = _templates(mebibytes)
    all_pods: list[Pod] = [program("agent", name) for name in names]
    claims: list[LiveClaim] = []
    for number in range(pods):
        one, at = (annotated, plain, plain)[number % 3], names[number % nodes]
        meta = msgspec.structs.replace(one.metadata, name=f"p{number}", uid=f"p{number}")
        spec = msgspec.structs.replace(one.spec, node_name=at)
        all_pods.append(msgspec.structs.replace(one, metadata=meta, spec=spec))
        if number % 3 == 2:
            claims.append(_claim(claimed, number, at))
    listed = tuple(node(name, has=has) for name in names)
    return healthy(nodes=listed, slices=tuple(map(device_slice, names)), pods=all_pods, claims=claims)


def _templates(mebibytes: int) -> tuple[Pod, Pod, LiveClaim]:
    share = DeviceShare(GPU, Bytes(mebibytes << 20))
    annotations = {PLACEMENT: PLACEMENTS.encode((share,))}
    asks = {"fairlead.dev/gpu-mem": str(mebibytes)}
    return pod("p", "box", asks, annotations=annotations), pod("p", "box", asks), claim("c", mebibytes, "p")


def _claim(one: LiveClaim, number: int, at: str) -> LiveClaim:
    document = msgspec.to_builtins(one)
    document["metadata"]["name"] = f"c{number}"
    document["status"]["allocation"]["devices"]["results"][0]["pool"] = at
    document["status"]["reservedFor"][0]["uid"] = f"p{number}"
    return msgspec.convert(document, LiveClaim)


@pytest.mark.parametrize(
    ("mebibytes", "has", "verdict"),
    [(256, {}, Severity.OK), (4096, {"nvidia.com/gpu": "1"}, Severity.FAIL)],
    ids=["healthy", "a fault everywhere"],
)
def test_a_large_cluster_takes_seconds(mebibytes: int, has: dict[str, str], verdict: Severity) -> None:
    view = large(NODES, PODS, mebibytes, has)
    began = time.process_time()
    findings = examine(view)
    took = time.process_time() - began
    print(f"{took:.2f} s of CPU for {NODES} nodes and {PODS} pods")
    assert took < SECONDS
    assert next(finding.verdict for finding in findings if finding.check == "given-away") is verdict
    assert max(Counter(finding.check for finding in findings).values()) <= 21


def test_many_findings_are_listed_in_part_and_the_rest_is_counted() -> None:
    findings = [each for each in examine(large(40, 120, 4096, {})) if each.check == "given-away"]
    assert len(findings) == 21
    assert {finding.verdict for finding in findings} == {Severity.FAIL}
    assert findings[-1].text == "and 20 more like these"
