"""Arbitrary pods: each is a request or has a reason for its user, and never ends the scheduler."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import keys
from fairlead.cache.translator import PodTranslator, UnreadablePod
from fairlead.cache.types import PODS, RULES, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.manifest.types.kubernetes import PodGroup
from fairlead.placement import DeviceState, NodeState
from fairlead.request import Request
from fairlead.schedule import EngineCluster, decide
from fairlead.units import Bytes
from tests import catalogs
from tests.serve.scheduler.objects import pod, read

GIB = 1 << 30
DEVICES = (DeviceState("gpu-0", "t4", "NVIDIA", Bytes(16 * GIB)),)
NODES = [NodeState("n", 8_000, Bytes(32 * GIB), devices=DEVICES)]
NOTES = (
    *(
        keys.MODEL,
        keys.SLO,
        keys.PRECISION,
        keys.MODELS,
        keys.NOT_MODELS,
        keys.VENDORS,
        keys.COUNT,
        keys.COMPUTE,
    ),
    *(keys.GANG, keys.GANG_SIZE, keys.UNIT, keys.KAI_FRACTION, keys.KAI_MEMORY, keys.KAI_DEVICES),
    *(keys.HAMI_USE, keys.HAMI_AVOID, keys.VOLCANO),
)
RESOURCES = (*keys.SIZES, *keys.WHOLE, keys.ALIYUN_COUNT, "fairlead.dev/t4", "fairlead.dev/nonsense")
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(("0", "1", "-1", "0.5", "NaN", "inf", "1e400", "25%", "t4", "nvidia", "20ms", "9" * 99)),
    st.integers().map(str),
    st.floats().map(str),
)
NUMBERS = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 200)).map(str)
CATALOG = catalogs.shipped()


def reading(catalog: Catalog) -> PodTranslator:
    translator = PodTranslator(catalog)
    translator.set_device_sizes(NODES)
    return translator


def asking(notes: dict[str, str], limits: dict[str, str]) -> LivePod:
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": notes},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]},
    }
    made: LivePod = read(PODS, document)
    return made


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NOTES), TEXTS, max_size=5),
    st.dictionaries(st.sampled_from(RESOURCES), NUMBERS, max_size=3),
)
def test_every_pod_is_read_or_refused_with_a_reason(notes: dict[str, str], limits: dict[str, str]) -> None:
    pending = reading(CATALOG).translate_pending(asking(notes, limits), {})
    if isinstance(pending, UnreadablePod):
        assert pending.reason.startswith(("pod default/p: ", "p: "))
        assert "p cannot be read: " not in pending.reason
    else:
        assert isinstance(pending, Request)
        assert decide(EngineCluster(NODES), pending).sentence()


@pytest.mark.parametrize("key", NOTES)
def test_the_reason_of_a_long_annotation_is_short(key: str, catalog: Catalog) -> None:
    notes = {keys.MODEL: "m", keys.GANG: "g", key: "1" * 250_000}
    unreadable = reading(catalog).translate_pending(asking(notes, {}), {})
    assert isinstance(unreadable, UnreadablePod)
    assert len(unreadable.reason) < 500


def test_missing_claims_and_templates_are_named(catalog: Catalog) -> None:
    for field, word in (("resourceClaimName", "ResourceClaim"), ("resourceClaimTemplateName", "Template")):
        unreadable = reading(catalog).translate_pending(
            pod("a", resourceClaims=[{"name": "gpu", field: "mine"}]), {}
        )
        assert isinstance(unreadable, UnreadablePod)
        assert "spec.resourceClaims[0]" in unreadable.reason
        assert f"{word} default/mine" in unreadable.reason


def test_a_change_of_a_groups_status_makes_no_pod_read_again(catalog: Catalog) -> None:
    kind = next(kind for kind in RULES if kind.name == "PodGroup")
    body = {"metadata": {"name": "g", "namespace": "default"}}
    group: PodGroup = read(
        kind, {**body, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 7}}
    )
    changed: PodGroup = read(
        kind, {**body, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 7}}
    )
    translator = reading(catalog)
    assert translator.on_rule(ObjectChange(None, group))
    member = pod("a", schedulingGroup={"podGroupName": "g"}, priority=3)
    asked = translator.translate_pending(member, {})
    assert isinstance(asked, Request)
    assert (asked.priority, asked.gang.size if asked.gang else 0) == (7, 2)
    assert not translator.on_rule(ObjectChange(group, changed))
    assert translator.group(member) is changed
