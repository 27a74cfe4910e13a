"""Fifty equal pods at once: each gets the share that the kubelet lists, and nothing is over-allocated."""

import pytest

from fairlead.offer import Form, Holding
from tests.e2e.allocations import annotation_amounts, conflicts, read_allocations, results, watch_conflicts
from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import SMALL_MIB, TWO_T4, two_small
from tests.e2e.pods import CONTAINER, Pods

SHARE = 170
FIT = len(TWO_T4) * (SMALL_MIB // SHARE)
NAMES = [f"pod-{number}" for number in range(50)]


@pytest.fixture
def two_gpus(site: Site, pods: Pods) -> Pods:
    """Return a namespace for pods, on a machine with two GPUs."""
    site.replay("server-t4", two_small)
    return pods


def test_of_fifty_equal_pods_none_is_swapped_and_none_has_too_much(site: Site, two_gpus: Pods) -> None:
    pods = two_gpus
    with watch_conflicts(site):
        pods.start(NAMES, {"fairlead.dev/gpu-mem": SHARE})
        running = wait_until_full(pods)
        assert_consistent(site, pods, running, Form.MEMORY)
    for name in set(NAMES) - set(running):
        pods.wait_pending(name, "Insufficient fairlead.dev/gpu-mem")


def test_of_fifty_equal_claims_none_is_swapped_and_none_has_too_much(site: Site, two_gpus: Pods) -> None:
    pods = two_gpus
    pods.template("share", SHARE)
    with watch_conflicts(site):
        pods.start(NAMES, claim="share")
        running = wait_until_full(pods)
        assert_consistent(site, pods, running, Form.CLAIM)
    claims = pods.claims()
    environ = pods.environ(running)
    for name in running:
        rows = results(claims[name])
        assert [row["device"] for row in rows] == [environ[name]["FAIRLEAD_DEVICE"]]
        assert rows[0]["shareID"] == environ[name]["FAIRLEAD_SHARE"]
    for name in set(NAMES) - set(running):
        pods.wait_pending(name, "cannot allocate all claims")


def wait_until_full(pods: Pods) -> list[str]:
    """Wait until as many pods run as fit, and return their names."""
    return wait_for(
        f"{FIT} of {len(NAMES)} pods to run",
        lambda: running if len(running := pods.running()) >= FIT else None,
        pods.explain,
    )


def assert_consistent(site: Site, pods: Pods, names: list[str], form: Form) -> None:
    """Compare, pod by pod, the process's environment, the kubelet's listing and the annotation."""
    assert len(names) == FIT
    allocations = read_allocations(site)
    assert not conflicts(allocations, site.inventory())
    from_kubelet = allocations.of(pods.namespace)
    environ = pods.environ(names)
    for name in names:
        environment = environ[name]
        assert (environment["FAIRLEAD_DEVICE"], environment["FAIRLEAD_MEMORY_MIB"]) == shown(
            from_kubelet[name]
        ), name
    wanted = {name: shown(from_kubelet[name]) for name in names}
    wait_for(
        "the annotation to be the same",
        lambda: annotated_shares(site, pods, form) == wanted,
        lambda: f"{annotated_shares(site, pods, form)}\nwanted {wanted}\n{site.diagnostics()}",
    )


def annotated_shares(site: Site, pods: Pods, form: Form) -> dict[str, tuple[str, str]]:
    """Return the share of each pod in the annotation."""
    owners = {claim["metadata"]["name"]: name for name, claim in pods.claims().items()}
    shares = {}
    for device, forms in annotation_amounts(site).items():
        for holder, amount in forms.get(form, {}).items():
            name = holder.removeprefix(f"{pods.namespace}/").removesuffix(f"/{CONTAINER}")
            shares[owners.get(name, name)] = (device, str(amount))
    return shares


def shown(holding: Holding) -> tuple[str, str]:
    """Return a holding in the form of its container's environment."""
    return holding.accelerator, str(holding.mebibytes)
