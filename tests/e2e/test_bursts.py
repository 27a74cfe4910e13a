"""Fifty equal pods at once: what each gets is what the books say, and never more than there is."""

import pytest

from fairlead.offer import Form, Holding
from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import SMALL_MIB, TWO_T4, two_small
from tests.e2e.pods import CONTAINER, Pods
from tests.e2e.truth import annotated, faults, results, truth, watched

SHARE = 170
FIT = len(TWO_T4) * (SMALL_MIB // SHARE)
NAMES = [f"pod-{number}" for number in range(50)]


@pytest.fixture
def two_gpus(site: Site, pods: Pods) -> Pods:
    """Return where to make pods, on a machine with two GPUs."""
    site.become("server-t4", two_small)
    return pods


def test_of_fifty_equal_pods_none_is_swapped_and_none_has_too_much(site: Site, two_gpus: Pods) -> None:
    pods = two_gpus
    with watched(site):
        pods.start(NAMES, {"fairlead.dev/gpu-mem": SHARE})
        running = wait_until_full(pods)
        same_everywhere(site, pods, running, Form.MEMORY)
    for name in set(NAMES) - set(running):
        pods.wait_pending(name, "Insufficient fairlead.dev/gpu-mem")


def test_of_fifty_equal_claims_none_is_swapped_and_none_has_too_much(site: Site, two_gpus: Pods) -> None:
    pods = two_gpus
    pods.template("share", SHARE)
    with watched(site):
        pods.start(NAMES, claim="share")
        running = wait_until_full(pods)
        same_everywhere(site, pods, running, Form.CLAIM)
    claims = pods.claims()
    environ = pods.environ(running)
    for name in running:
        rows = results(claims[name])
        assert [row["device"] for row in rows] == [environ[name]["FAIRLEAD_DEVICE"]]
        assert rows[0]["shareID"] == environ[name]["FAIRLEAD_SHARE"]
    for name in set(NAMES) - set(running):
        pods.wait_pending(name, "cannot allocate all claims")


def wait_until_full(pods: Pods) -> list[str]:
    """Wait until as many pods run as there is room for, and return their names."""
    return wait_for(
        f"{FIT} of {len(NAMES)} pods to run",
        lambda: running if len(running := pods.running()) >= FIT else None,
        pods.explain,
    )


def same_everywhere(site: Site, pods: Pods, names: list[str], form: Form) -> None:
    """Compare, pod by pod, the process's own environment, the kubelet's books and the node's annotation."""
    assert len(names) == FIT
    found = truth(site)
    assert not faults(found, site.inventory())
    books = found.of(pods.namespace)
    environ = pods.environ(names)
    for name in names:
        told = environ[name]
        assert (told["FAIRLEAD_DEVICE"], told["FAIRLEAD_MEMORY_MIB"]) == shown(books[name]), name
    wanted = {name: shown(books[name]) for name in names}
    wait_for(
        "the annotation to say the same",
        lambda: told_of(site, pods, form) == wanted,
        lambda: f"{told_of(site, pods, form)}\nwanted {wanted}\n{site.trouble()}",
    )


def told_of(site: Site, pods: Pods, form: Form) -> dict[str, tuple[str, str]]:
    """Return what the annotation says of each pod."""
    owners = {claim["metadata"]["name"]: name for name, claim in pods.claims().items()}
    found = {}
    for device, forms in annotated(site).items():
        for holder, amount in forms.get(form, {}).items():
            name = holder.removeprefix(f"{pods.namespace}/").removesuffix(f"/{CONTAINER}")
            found[owners.get(name, name)] = (device, str(amount))
    return found


def shown(holding: Holding) -> tuple[str, str]:
    """Return a holding as its container is told of it."""
    return holding.accelerator, str(holding.mebibytes)
