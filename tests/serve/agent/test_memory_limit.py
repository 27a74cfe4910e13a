"""A pod with a limit gets its frameworks' variables, by units and by a claim; no other pod does."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.http import codec
from fairlead.cluster.kinds import PODS
from fairlead.cluster.objects import Pod
from fairlead.keys import MEMORY_LIMIT, PLACEMENT
from fairlead.placement import PLACEMENTS
from fairlead.publish.memory_limit import MEMORY_BYTES, MEMORY_FRACTION, MemoryLimit
from fairlead.serve.agent.admission import memory_limit
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.agent.test_placement_lookup import run_script
from tests.serve.agent.test_publisher import GPU, MEMORY, OTHER, UID, WHOLE, Place, claim, nook, until

__all__ = ["nook"]
LIMIT = 2 << 30
ENV = [{"name": "XLA_CLIENT_MEM_FRACTION", "value": "0.5"}]


async def bind(it: Place, name: str, limit: str | None, resource: str = MEMORY, **container: Any) -> Any:
    """Create a pod that our scheduler placed, with a limit."""
    device = GPU.id if resource == MEMORY else OTHER.id
    share = DeviceShare(device, Bytes(1024 << 20), whole=resource != MEMORY)
    annotations = {PLACEMENT: PLACEMENTS.encode((share,))} | ({MEMORY_LIMIT: limit} if limit else {})
    limits = {resource: "1024" if resource == MEMORY else "1"}
    main = {"name": "main", "resources": {"limits": limits}, **container}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"nodeName": "n1", "containers": [main]}
    return await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")


def test_a_share_by_units_carries_the_limit_and_a_whole_accelerator_does_not(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bind(it, "plain", None)
        await bind(it, "limited", str(LIMIT))
        await bind(it, "own", str(LIMIT), env=ENV)
        plain = (await it.kubelet.admit("plain", MEMORY, 1024)).envs
        assert MEMORY_BYTES not in plain
        limited = (await it.kubelet.admit("limited", MEMORY, 1024)).envs
        assert limited[MEMORY_BYTES] == str(LIMIT)
        assert limited["XLA_PYTHON_CLIENT_MEM_FRACTION"] == limited[MEMORY_FRACTION]
        own = (await it.kubelet.admit("own", MEMORY, 1024)).envs
        assert set(limited) - set(own) == {"XLA_PYTHON_CLIENT_MEM_FRACTION"}
        await bind(it, "whole", str(LIMIT), WHOLE)
        whole = (await it.kubelet.admit("whole", WHOLE, 1)).envs
        assert (whole["FAIRLEAD_DEVICE"], MEMORY_BYTES in whole) == (OTHER.id, False)

    run_script(nook, script)


def test_a_claim_carries_the_limit_of_the_one_pod_that_it_is_reserved_for(nook: Path) -> None:
    async def script(it: Place) -> None:
        await until(lambda: it.publisher.snapshot().registered.get("claims"))
        pods = {name: await bind(it, name, str(LIMIT), env=ENV) for name in ("one", "other")}
        users = [{"resource": "pods", "name": name, "uid": pod.metadata.uid} for name, pod in pods.items()]
        replaced = {**users[0], "uid": "of-an-earlier-pod"}
        for name, reserved, limited in (
            ("c", users[:1], True),
            ("d", users, False),
            ("e", [replaced], False),
            ("f", [], False),
        ):
            await claim(it, name, "1Gi", tuple(reserved))
            assert not (await it.kubelet.prepare(name, UID[name], GPU.id)).error
            spec = json.loads((it.cdi / f"fairlead.dev-claim-{UID[name]}.json").read_text())
            env = dict(text.split("=", 1) for text in spec["devices"][0]["containerEdits"]["env"])
            assert (env.get(MEMORY_BYTES) == str(LIMIT)) == limited, name
            assert ("TF_FORCE_GPU_ALLOW_GROWTH" in env) == limited, name
            assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in env

    run_script(nook, script)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("", 0), ("0", 0), ("-1", 0), ("1Gi", 0), ("9" * 19, 0), ("\u0661", 0)],
)
def test_a_limit_is_a_plain_number_of_bytes(text: str, size: int) -> None:
    containers = [{"name": "a", "env": [{"name": "A"}]}, {"name": "b", "env": [{"name": "B"}]}]
    pod = codec.from_document(
        Pod, {"metadata": {"annotations": {MEMORY_LIMIT: text}}, "spec": {"containers": containers}}
    )
    wanted = {
        "A": MemoryLimit(Bytes(size), frozenset({"A"})),
        "AB": MemoryLimit(Bytes(size), frozenset("AB")),
    }
    assert memory_limit(pod, {"a"}) == (wanted["A"] if size else None)
    assert memory_limit(pod) == (wanted["AB"] if size else None)
