"""Recommendations as changes of owners: patches, records, the way back, and what is never changed."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from fairlead.errors import NewerFormatError
from fairlead.keys import RIGHTSIZE_PREVIOUS
from fairlead.rightsize.change import (
    PREVIOUS_SIZES,
    NotChanged,
    SizeChange,
    change_of,
    patch_for,
    recorded,
    undo_patch,
)
from fairlead.rightsize.recommend import SizeAdvice, Verdict
from fairlead.rightsize.report import Recommendation
from fairlead.rightsize.workload import RequestForm, SizedContainer, SizeField, WorkloadKey
from fairlead.units import Bytes

GIB = 1 << 30
KEY = "fairlead.dev/gpu-mem"
WEB = WorkloadKey("shop", "Deployment", "web")
DOWN = SizeChange("main", KEY, "8192", "4096")


def advised(
    kind: str = "Deployment",
    field: SizeField | None = None,
    requested: int | None = 8 * GIB,
    size: int | None = 4 * GIB,
    verdict: Verdict = Verdict.OVER,
) -> Recommendation:
    field = field or SizeField(RequestForm.RESOURCE, KEY, "8192")
    container = "main" if field.form is RequestForm.RESOURCE else ""
    sized = SizedContainer(
        WorkloadKey("shop", kind, "web"), container, field, None if requested is None else Bytes(requested)
    )
    return Recommendation(sized, SizeAdvice(None if size is None else Bytes(size), 0.01, verdict, "because"))


def deployment(amount: str = "8192", **annotations: str) -> dict[str, Any]:
    sidecar = {"name": "logs", "resources": {"limits": {"cpu": "1"}}}
    main = {"name": "main", "resources": {"limits": {KEY: amount, "cpu": "1"}, "requests": {KEY: amount}}}
    return {
        "metadata": {"name": "web", "resourceVersion": "7", "annotations": dict(annotations)},
        "spec": {
            "template": {
                "metadata": {"annotations": {"gpu-memory": "8192"}},
                "spec": {"containers": [sidecar, main]},
            }
        },
    }


@pytest.mark.parametrize(
    ("field", "requested", "size", "applied"),
    [
        (SizeField(RequestForm.RESOURCE, KEY, "8192"), 8 * GIB, 4 * GIB, "4096"),
        (SizeField(RequestForm.RESOURCE, KEY, "8k"), 8000 << 20, 4 * GIB, "4096"),
        (SizeField(RequestForm.RESOURCE, "fairlead.dev/gpu-mem-gib", "8"), 8 * GIB, 3.5 * GIB, "4"),
        (SizeField(RequestForm.RESOURCE, "nvidia.com/gpumem-percentage", "50"), 8 * GIB, 3 * GIB, "19"),
        (SizeField(RequestForm.ANNOTATION, "gpu-memory", "8192"), 8 * GIB, 10 * GIB, "10240"),
        (SizeField(RequestForm.ANNOTATION, "gpu-fraction", "0.5"), 8 * GIB, 3 * GIB, "0.19"),
        (SizeField(RequestForm.ANNOTATION, "gpu-fraction", "0.8"), 8 * GIB, 12 * GIB, "1"),
    ],
)
def test_a_size_is_written_in_the_unit_of_the_request(
    field: SizeField, requested: int, size: float, applied: str
) -> None:
    change = change_of(advised(field=field, requested=requested, size=int(size)))
    assert isinstance(change, SizeChange)
    assert (change.key, change.previous, change.applied) == (field.key, field.amount, applied)


@pytest.mark.parametrize(
    ("recommendation", "words"),
    [
        (advised(verdict=Verdict.UNKNOWN, size=None), "unknown: because"),
        (advised(verdict=Verdict.RIGHT, size=8 * GIB), "right: because"),
        (advised(verdict=Verdict.UNDER, size=8 * GIB), "it needs one with more"),
        (advised(requested=None), "over-provisioned: because"),
        (
            advised("Job"),
            "pod template of a Job cannot be changed: set fairlead.dev/gpu-mem: 4096 in its manifest",
        ),
        (advised("Pod"), "set fairlead.dev/gpu-mem: 4096 in its manifest, delete the pod"),
        (advised("Rollout"), "fairlead does not change a Rollout: set fairlead.dev/gpu-mem: 4096"),
        (advised(field=SizeField(RequestForm.CLAIM)), "create one with memory: 4096Mi"),
        (advised(field=SizeField(RequestForm.WHOLE)), "a share of 4.0 GiB is fairlead.dev/gpu-mem: 4096"),
    ],
)
def test_what_is_not_changed_says_what_to_do(recommendation: Recommendation, words: str) -> None:
    change = change_of(recommendation)
    assert isinstance(change, NotChanged)
    assert words in change.reason


def test_a_patch_changes_the_limit_and_the_request_and_records_the_previous_size() -> None:
    patch = patch_for(WEB, deployment(), [DOWN])
    assert isinstance(patch, dict)
    record = patch["metadata"]["annotations"].pop(RIGHTSIZE_PREVIOUS)
    assert PREVIOUS_SIZES.decode_exactly(record) == (DOWN,)
    resources = {"limits": {KEY: "4096"}, "requests": {KEY: "4096"}}
    assert patch == {
        "metadata": {"resourceVersion": "7", "annotations": {}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "resources": resources}]}}},
    }


def test_the_template_of_a_cron_job_is_in_its_job_template() -> None:
    document = deployment()
    document["spec"] = {"jobTemplate": {"spec": document["spec"]}}
    patch = patch_for(
        WorkloadKey("shop", "CronJob", "web"), document, [SizeChange("", "gpu-memory", "8192", "1024")]
    )
    assert isinstance(patch, dict)
    assert patch["spec"]["jobTemplate"]["spec"]["template"] == {
        "metadata": {"annotations": {"gpu-memory": "1024"}}
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replace(DOWN, previous="4096"), "container main has fairlead.dev/gpu-mem: 8192, not 4096"),
        (replace(DOWN, container="logs"), "container logs has no fairlead.dev/gpu-mem"),
        (replace(DOWN, container="gone"), "container gone has no fairlead.dev/gpu-mem"),
        (SizeChange("", "gpu-fraction", "0.5", "0.2"), "the template has no gpu-fraction"),
    ],
)
def test_a_template_that_differs_from_the_pods_is_left_alone(change: SizeChange, words: str) -> None:
    patch = patch_for(WEB, deployment(), [change])
    assert isinstance(patch, NotChanged)
    assert words in patch.reason


def applied(document: dict[str, Any], patch: dict[str, Any] | NotChanged) -> dict[str, Any]:
    """Return the owner after a patch of its only size."""
    assert isinstance(patch, dict)
    after = deepcopy(document)
    record = patch["metadata"]["annotations"][RIGHTSIZE_PREVIOUS]
    after["metadata"]["annotations"] = {RIGHTSIZE_PREVIOUS: record} if record else {}
    new = patch["spec"]["template"]["spec"]["containers"][0]["resources"]
    for part, amounts in new.items():
        after["spec"]["template"]["spec"]["containers"][1]["resources"][part].update(amounts)
    return after


def test_undo_restores_the_size_before_the_first_change() -> None:
    before = deployment()
    once = applied(before, patch_for(WEB, before, [DOWN]))
    twice = applied(once, patch_for(WEB, once, [replace(DOWN, previous="4096", applied="2048")]))
    assert recorded(twice) == (replace(DOWN, applied="2048"),)
    assert applied(twice, undo_patch(WEB, twice)) == before


def test_a_size_that_a_user_set_after_the_change_is_the_one_to_restore() -> None:
    before = deployment()
    once = applied(before, patch_for(WEB, before, [DOWN]))
    theirs = deployment("6144", **once["metadata"]["annotations"])
    again = applied(theirs, patch_for(WEB, theirs, [replace(DOWN, previous="6144")]))
    assert recorded(again) == (replace(DOWN, previous="6144"),)


def test_undo_leaves_a_size_alone_that_was_changed_since() -> None:
    record = PREVIOUS_SIZES.encode((DOWN,))
    refused = undo_patch(WEB, deployment("5000", **{RIGHTSIZE_PREVIOUS: record}))
    assert isinstance(refused, NotChanged)
    assert "has fairlead.dev/gpu-mem: 5000, not 4096: it was changed since" in refused.reason
    nothing = undo_patch(WEB, deployment())
    assert isinstance(nothing, NotChanged)
    assert "fairlead has not changed it" in nothing.reason


CPU = '{"version":1,"sizes":[{"container":"main","key":"cpu","previous":"9","applied":"1"}]}'


@pytest.mark.parametrize("text", ["", "{", '{"version":1}', CPU.replace('"1"', "1"), CPU, "[]"])
def test_a_record_that_fairlead_did_not_write_counts_as_none(text: str) -> None:
    assert recorded(deployment(**{RIGHTSIZE_PREVIOUS: text})) == ()


def test_a_record_of_a_newer_version_is_refused() -> None:
    with pytest.raises(NewerFormatError):
        recorded(deployment(**{RIGHTSIZE_PREVIOUS: '{"version":2,"sizes":[]}'}))
