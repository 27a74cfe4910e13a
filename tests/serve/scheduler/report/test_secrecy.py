"""What a tenant reads of its pods names no object of another namespace, and no model but its own."""

from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.cache.types import RULES, LivePod
from fairlead.catalog import Catalog
from fairlead.manifest.types.storage import NO_PROVISIONER
from fairlead.modelprofiles.convert import calibration_profiles
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.schedule import policy_named
from fairlead.serve.extender.node_evaluator import NodeEvaluator
from fairlead.serve.scheduler.cycle.scheduling import SchedulingCycle
from fairlead.serve.scheduler.events import Explain
from fairlead.serve.scheduler.report.explain import Explainer
from tests.profiles import calibration
from tests.serve.scheduler.bind.test_volumes import claim as volume_claim
from tests.serve.scheduler.bind.test_volumes import free, reserved, storage
from tests.serve.scheduler.cycle.test_cycle import cycle_of, run_all
from tests.serve.scheduler.objects import claim, device_slice, node, pod, read

SECRET = "hidden"
"""A part of the name of every object of another tenant."""


def theirs(one: Any) -> Any:
    """Return an object as another tenant's."""
    return replace(one, metadata=replace(one.metadata, namespace="theirs"))


def rule(kind: str, name: str, **spec: Any) -> Any:
    rule_kind = next(each for each in RULES if each.name == kind)
    return read(rule_kind, {"metadata": {"name": name, "namespace": "theirs"}, "spec": spec})


def others() -> list[Any]:
    """Return the objects of another tenant: pods on both accelerators, a gang, claims, volumes, models."""
    gang = {"fairlead.dev/gang": f"{SECRET}-gang", "fairlead.dev/gang-size": "3"}
    port = [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]
    running = [pod(f"{SECRET}-{at}", on="n", mib=4000, notes=gang) for at in range(2)]
    holder = pod(f"{SECRET}-web", on="n", containers=port)
    data = theirs(volume_claim(f"{SECRET}-data"))
    return [
        *map(theirs, (*running, holder, pod(f"{SECRET}-late", mib=4000, notes=gang))),
        theirs(claim(f"{SECRET}-claim", running[0], on="n")),
        data,
        reserved(free(f"{SECRET}-volume", 9), data),
        storage("late", made_by=NO_PROVISIONER),
        rule("PodGroup", f"{SECRET}-group", schedulingPolicy={"gang": {"minCount": 2}}),
        rule("ResourceClaimTemplate", f"{SECRET}-template"),
        *(
            profile_named(calibration_profile, f"{SECRET}.onnx")
            for calibration_profile in calibration_profiles(calibration(), "n")
        ),
    ]


def profile_named(profile: Any, name: str) -> Any:
    assert isinstance(profile, MODEL_PROFILES.type)
    return replace(profile, spec=replace(profile.spec, model=name))


def ours() -> dict[str, LivePod]:
    """Return unschedulable pods of our own, each for another reason, many of them with a similar name."""
    gang = {"fairlead.dev/gang": f"{SECRET[1:]}-gang", "fairlead.dev/gang-size": "3"}
    port = [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]
    near = SECRET[:-1]
    made = [
        pod("memory", mib=4000),
        pod("more", mib=99_999),
        pod("important", mib=4000, priority=9),
        pod("gang", mib=4000, notes=gang),
        pod("port", containers=port),
        pod("model", notes={"fairlead.dev/model": near}),
        pod("models", notes={"fairlead.dev/model": SECRET}),
        pod("group", schedulingGroup={"podGroupName": f"{near}-group"}),
        pod("claim", resourceClaims=[{"name": "c", "resourceClaimName": f"{near}-claim"}]),
        pod("template", resourceClaims=[{"name": "c", "resourceClaimTemplateName": f"{near}-template"}]),
        pod("volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"{near}-data"}}]),
        pod("free", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ]
    return {each.metadata.name: each for each in made}


@pytest.fixture
def cycle(catalog: Catalog) -> SchedulingCycle:
    """Return a scheduling cycle that has decided for every pod."""
    decided = cycle_of(
        catalog, node("n"), device_slice("n"), *others(), volume_claim("data"), *ours().values()
    )
    run_all(decided)
    return decided


def test_conditions_and_explanations_name_nothing_of_other_tenants(cycle: SchedulingCycle) -> None:
    explainer = Explainer(cycle, "me", "fairlead")
    for name, one in ours().items():
        uid = one.metadata.uid
        text = f"{cycle.reporter.text(uid)} {explainer.answer(Explain('default', name, uid), 0.0)}"
        assert cycle.reporter.text(uid), f"{name} waits"
        own = text.replace(f"model '{SECRET}'", "").replace(f"'{SECRET}' may be", "")
        assert SECRET not in own, f"{name}: {text}"


def test_the_extender_names_nothing_of_other_tenants(cycle: SchedulingCycle) -> None:
    judge = NodeEvaluator(cycle.cache, policy_named("fairlead"))
    for name, one in ours().items():
        verdict = judge.filter(one, ["n", "unseen"], 0.0)
        text = str((verdict.failed, verdict.for_good)).replace(f"'{SECRET}' may be", "")
        assert SECRET not in text, f"{name}: {text}"
