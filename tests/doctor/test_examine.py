"""Each check on a healthy cluster, and on a cluster with just that fault."""

import re
from dataclasses import replace
from typing import Any

import pytest

from fairlead.doctor.examine import CHECKS, examine
from fairlead.doctor.finding import Severity, worst
from fairlead.doctor.view import AccessRule, TelemetryReading
from fairlead.usage.status import UseStatus
from tests.doctor.worlds import (
    GPU,
    ago,
    bare,
    claim,
    crashed,
    device_slice,
    healthy,
    labelled,
    lease,
    node,
    pod,
    priority,
    program,
    share,
)

BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}}
NO_IMAGE = {"waiting": {"reason": "ErrImageNeverPull", "message": "no such image"}}
POLICY = {"terminated": {"exitCode": 2, "reason": "Error", "message": "fairlead: unknown policy 'nonsense'"}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(60)}}
OLD = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ago(3000)}}
PROGRAMS = tuple(program(name, at) for name in ("agent", "scheduler") for at in ("box", "other"))
CASES: dict[str, tuple[str, Severity, str, dict[str, Any]]] = {
    "a Prometheus without measured use": (
        "telemetry",
        Severity.FAIL,
        "no measured use to place by: nothing answers",
        {"telemetry": TelemetryReading("http://p", UseStatus(reason="nothing answers at http://p"))},
    ),
    "an old server": ("api", Severity.FAIL, "1.29, as admin: the chart needs 1.30", {"version": (1, 29)}),
    "a server without claims": ("api", Severity.WARN, "before 1.34", {"version": (1, 33)}),
    "a server without shares": ("api", Severity.WARN, "need 1.36", {"version": (1, 35)}),
    "a clock that is off by seconds": (
        "clock",
        Severity.WARN,
        "20 s behind the API server",
        {"ahead": -20.0},
    ),
    "a clock that is off by an hour": ("clock", Severity.FAIL, "3600 s ahead of", {"ahead": 3600.0}),
    "claims disabled": (
        "claims",
        Severity.WARN,
        "not served, though",
        {"missing": frozenset({"resourceslices"})},
    ),
    "a feature gate disabled": (
        "claims",
        Severity.WARN,
        "cannot share the memory of 1 device",
        {"slices": (device_slice(device={"allowMultipleAllocations": False}),)},
    ),
    "no kind of profiles": (
        "profiles",
        Severity.WARN,
        "cannot learn",
        {"missing": frozenset({"modelprofiles"})},
    ),
    "a right that is missing": (
        "rights",
        Severity.FAIL,
        "default/fairlead-scheduler may not create pods/binding",
        {"missing_rights": (AccessRule("default/fairlead-scheduler", "create", "pods/binding"),)},
    ),
    "no replica ever led": ("lease", Severity.FAIL, "2 replicas, and none has ever led", {"leases": ()}),
    "no replica leads": (
        "lease",
        Severity.FAIL,
        "one last renewed its lease 90 s ago",
        {"leases": (lease(seconds=90),)},
    ),
    "a released lease": ("lease", Severity.FAIL, "no other took it", {"leases": (lease(""),)}),
    "two schedulers lead": (
        "lease",
        Severity.FAIL,
        "2 schedulers of the name 'fairlead' lead at once",
        {"leases": (lease(), lease("two", namespace="kube-system"))},
    ),
    "one replica": (
        "replicas",
        Severity.WARN,
        "no other takes over",
        {"pods": (program("scheduler", "box"),)},
    ),
    "no ready replica": (
        "replicas",
        Severity.FAIL,
        "none of 1 replica",
        {"pods": (program("scheduler", "box", ready=False),)},
    ),
    "replicas on one node": (
        "replicas",
        Severity.WARN,
        "all 2 replicas are on box",
        {"pods": (program("scheduler", "box"), program("scheduler", "box", 1))},
    ),
    "a replica that crashes": (
        "crashes",
        Severity.FAIL,
        "scheduler: 1 pod (default/scheduler-x-0) CrashLoopBackOff, 3 restarts: fairlead: unknown policy",
        {"pods": (*PROGRAMS, crashed("scheduler", "x", restartCount=3, state=BACK_OFF, lastState=POLICY))},
    ),
    "a replica between two crashes": (
        "crashes",
        Severity.FAIL,
        "ended with exit code 2: fairlead: unknown policy",
        {"pods": (*PROGRAMS, crashed("extender", "x", state=POLICY))},
    ),
    "a missing image": (
        "crashes",
        Severity.FAIL,
        "ErrImageNeverPull: no such image",
        {"pods": (*PROGRAMS, crashed("agent", "x", state=NO_IMAGE))},
    ),
    "a replica that was restarted": (
        "crashes",
        Severity.WARN,
        "restarted after OOMKilled, 1 restart",
        {"pods": (*PROGRAMS, crashed("scheduler", "x", restartCount=1, lastState=KILLED))},
    ),
    "a webhook that is not ready": (
        "admission",
        Severity.FAIL,
        "none of 1 replica of the admission webhook is ready",
        {"pods": (*PROGRAMS, program("admission", "box", ready=False))},
    ),
    "no agent": ("agents", Severity.WARN, "no agent runs", {"pods": ()}),
    "an agent that is not ready": (
        "agents",
        Severity.FAIL,
        "1 node with accelerators without a ready agent: other",
        {"pods": (program("agent", "box"), program("agent", "other", ready=False))},
    ),
    "a node that only another plugin labels": (
        "agents",
        Severity.WARN,
        "1 node with GPUs, by others' labels, without an agent: new",
        {"nodes": (*healthy().nodes, bare("new", {"nvidia.com/gpu.present": "true"}))},
    ),
    "versions that differ": (
        "versions",
        Severity.WARN,
        "0.0.9: agent-other-0",
        {"pods": (program("agent", "box"), program("agent", "other", version="0.0.9"))},
    ),
    "a scheduler that does not run": (
        "scheduler-names",
        Severity.FAIL,
        "no scheduler handles 1 pod with schedulerName: farilead (default/lost)",
        {"pods": (*PROGRAMS, pod("lost", spec={"schedulerName": "farilead"}))},
    ),
    "a class that is gone": (
        "priority-classes",
        Severity.WARN,
        "priority class urgent is gone, and 1 pod",
        {
            "pods": (pod("p", "box", spec={"priorityClassName": "urgent"}),),
            "priorities": (priority("other"),),
        },
    ),
    "NVIDIA's plugin beside us": (
        "other-plugins",
        Severity.WARN,
        "box: NVIDIA's device plugin offers the same GPUs",
        {"nodes": (node(has={"nvidia.com/gpu": "1"}),)},
    ),
    "gpushare beside us": (
        "other-plugins",
        Severity.FAIL,
        "default/theirs by gpushare and default/ours by us may hold the same GPU",
        {
            "nodes": (node(has={"aliyun.com/gpu-mem": "15"}),),
            "pods": (pod("theirs", "box", {"aliyun.com/gpu-mem": "4"}), share("ours", 1024)),
        },
    ),
    "another driver's slices": (
        "other-plugins",
        Severity.WARN,
        "NVIDIA's DRA driver",
        {"slices": (device_slice(), device_slice(generation=7, driver="gpu.nvidia.com"))},
    ),
    "kube-scheduler allocates our devices": (
        "two-schedulers",
        Severity.WARN,
        "default-scheduler allocates devices of fairlead.dev as well: 1 claim (default/mine)",
        {"pods": (*PROGRAMS, pod("claims", "box", spec={"schedulerName": "default-scheduler"}))},
    ),
    "a slice of a node that is gone": ("slices", Severity.WARN, "gone: other-1", {"nodes": (node(),)}),
    "an old slice": (
        "slices",
        Severity.WARN,
        "older generation: box-1",
        {"slices": (device_slice(), device_slice(generation=2), device_slice("other"))},
    ),
    "an unhealthy accelerator": (
        "unhealthy",
        Severity.FAIL,
        f"box: {GPU} (t4) is unhealthy: the driver reported XID 79",
        {
            "nodes": (
                node(
                    annotations={
                        "fairlead.dev/devices": '{"version":1,"accelerators":['
                        f'{{"id":"{GPU}","model":"t4","vendor":"NVIDIA",'
                        '"memory_mib":1,"unhealthy":true,"reason":"the driver reported XID 79"}]}'
                    }
                ),
                node("other"),
            )
        },
    ),
    "a slice that names less than the labels count": (
        "sources",
        Severity.WARN,
        "box: the slices name 1 t4, and the labels count 2; the slices decide",
        {"nodes": (labelled(count=2, usable=2), node("other"))},
    ),
    "a slice that names more than the labels count": (
        "sources",
        Severity.WARN,
        "box: the slices name 2 t4, and the labels count 1; the slices decide",
        {"slices": (device_slice(), device_slice(device={"name": "pci-0000-86-00-0"}))},
    ),
    "labels that lag behind the agent's list": (
        "sources",
        Severity.WARN,
        "box: fairlead.dev/devices lists 1 t4, and the labels count 2; the list decides",
        {"nodes": (labelled(count=2, usable=2, listed=(GPU,)), node("other"))},
    ),
    "a slice that names a device which the agent does not list": (
        "sources",
        Severity.WARN,
        f"box: the slices name {GPU}, which fairlead.dev/devices does not list; the list decides",
        {"nodes": (labelled(listed=("pci-0000-86-00-0",)), node("other"))},
    ),
    "a list that cannot be read": (
        "sources",
        Severity.WARN,
        "box: the annotation fairlead.dev/devices cannot be read",
        {"nodes": (node(annotations={"fairlead.dev/devices": "nonsense"}), node("other"))},
    ),
    "more memory allocated than the device has": (
        "given-away",
        Severity.FAIL,
        f"box {GPU}: 5.0 GiB of 4.0 GiB allocated to default/mine, default/small",
        {"pods": (share("small", 3072), pod("claims", "box"))},
    ),
    "a whole device and a share": (
        "given-away",
        Severity.FAIL,
        "a whole device allocated to default/mine, default/small",
        {"pods": (share("small", 0, whole=True), pod("claims", "box"))},
    ),
    "more memory allocated than the device has, by the agent's report": (
        "given-away",
        Severity.FAIL,
        "6.0 GiB of 4.0 GiB allocated",
        {
            "nodes": (
                node(
                    annotations={
                        "fairlead.dev/allocated": '{"version":1,"accelerators":'
                        f'{{"{GPU}":{{"memory":{{"default/stock/main":4096}}}}}}}}'
                    },
                ),
            ),
            "pods": (pod("stock", "box"), pod("claims", "box")),
        },
    ),
    "a device that is gone": ("given-away", Severity.WARN, "no slice offers any more", {"slices": ()}),
    "an orphaned claim": (
        "orphan-claims",
        Severity.WARN,
        "1 claim reserved for pods that are gone: default/mine",
        {"pods": PROGRAMS},
    ),
    "a kind that may not be listed": (
        "replicas",
        Severity.WARN,
        "cannot check: pods are forbidden",
        {"forbidden": {"pods": "pods are forbidden"}},
    ),
}


def test_a_healthy_cluster_has_no_findings() -> None:
    findings = examine(healthy())
    assert [finding.check for finding in findings] == [check.name for check in CHECKS]
    assert worst(findings) is Severity.OK, [
        finding for finding in findings if finding.verdict is not Severity.OK
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_found_with_a_remedy(case: str) -> None:
    check, verdict, words, changes = CASES[case]
    findings = [each for each in examine(healthy(**changes)) if each.check == check]
    assert [(finding.verdict, words in finding.text) for finding in findings] == [(verdict, True)], findings
    assert all(finding.todo for finding in findings)


def test_every_check_has_a_case() -> None:
    assert {case[0] for case in CASES.values()} == {check.name for check in CHECKS}


FINE: dict[str, dict[str, Any]] = {
    "a container that crashed an hour ago": {
        "pods": (*healthy().pods, crashed("scheduler", "x", restartCount=9, lastState=OLD))
    },
    "a container that is about to start": {
        "pods": (
            *healthy().pods,
            crashed("scheduler", "x", state={"waiting": {"reason": "ContainerCreating"}}),
        )
    },
    "nothing of ours": {"pods": (), "leases": (), "slices": (), "claims": (), "nodes": ()},
    "a pod that was created a moment ago": {"pods": (*healthy().pods, pod("new", born=ago(5)))},
    "a pod whose condition says why it waits": {
        "pods": (
            *healthy().pods,
            pod("late", status={"conditions": [{"type": "PodScheduled", "status": "False"}]}),
        )
    },
    "a pod with a scheduling gate": {
        "pods": (*healthy().pods, pod("gated", spec={"schedulingGates": [{"name": "x"}]}))
    },
    "a claim whose pod was created after pods were listed": {
        "claims": (*healthy().claims, claim("new", 512, "unknown", own=True, born=ago(5)))
    },
    "a device that a container holds whole is in no slice": {
        "slices": (device_slice("other"),),
        "pods": (*PROGRAMS, share("all", 0, whole=True)),
        "claims": (),
    },
    "memory that a container holds is not in the slice": {
        "slices": (device_slice(mebibytes=1024), device_slice("other")),
        "pods": (*PROGRAMS, share("large", 3072), pod("claims", "box")),
        "claims": (claim("mine", 1024, "claims"),),
    },
    "a device that a container holds is in the list and in no slice": {
        "nodes": (labelled(count=2, usable=2, listed=(GPU, "pci-0000-86-00-0")), node("other"))
    },
    "a device that a container holds is in no slice, and there is no list": {
        "nodes": (labelled(count=2, usable=2, held=("pci-0000-86-00-0",)), node("other"))
    },
    "an unusable device is in no slice": {"nodes": (labelled(count=2, usable=1), node("other"))},
    "HAMi's names, served by us": {
        "pods": (
            *healthy().pods,
            pod(
                "hami",
                "box",
                {"nvidia.com/gpumem": "512"},
                status={
                    "extendedResourceClaimStatus": {
                        "resourceClaimName": "c",
                        "requestMappings": [{"resourceName": "nvidia.com/gpumem"}],
                    }
                },
            ),
        )
    },
    "another scheduler's lease": {
        "leases": (lease(), lease("two", annotations={"fairlead.dev/scheduler": "edge"}))
    },
    "an agent that cannot name every holder": {
        "nodes": (
            node(
                annotations={
                    "fairlead.dev/allocated": '{"version":1,"accelerators":{"*":{"memory":{"*":9999}}}}'
                }
            ),
            node("other"),
        )
    },
}


@pytest.mark.parametrize("case", FINE)
def test_a_harmless_state_is_not_reported(case: str) -> None:
    wrong = [each for each in examine(healthy(**FINE[case])) if each.verdict is not Severity.OK]
    assert [each.check for each in wrong] == (["agents"] if case == "nothing of ours" else [])


def test_sources_that_differ_in_one_look_only_are_not_reported() -> None:
    differing = healthy(nodes=(labelled(count=2, usable=2), node("other")))
    for earlier, expected in ((differing, Severity.WARN), (healthy(), Severity.OK)):
        findings = [each for each in examine(replace(differing, earlier=earlier)) if each.check == "sources"]
        assert [finding.verdict for finding in findings] == [expected]


def test_one_device_in_use_is_reported_in_the_singular() -> None:
    (text,) = [each.text for each in examine(healthy()) if each.check == "given-away"]
    assert re.fullmatch(r"no device is allocated beyond its capacity; 1 of \d+ devices? is in use", text), (
        text
    )
