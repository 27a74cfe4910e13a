"""Checks of the API server: its version, its claims, its clock, our own kind, and our accounts' rights."""

from typing import Final

from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import AccessRule, ClusterView
from fairlead.keys import GPU_MEM

OLDEST: Final = (1, 30)
CLAIMS: Final = (1, 34)
SHARES: Final = (1, 36)
_WARN_SKEW, _FAIL_SKEW = 5.0, 300.0
"""Seconds of clock skew: suspicious, and enough for tokens and certificates to be refused."""


def version(view: ClusterView) -> list[CheckResult]:
    """Report whether the server is new enough."""
    text = f"Kubernetes {view.version[0]}.{view.version[1]}, as {view.user}"
    if view.version < OLDEST:
        return [
            fail(f"{text}: the chart needs 1.30", "upgrade the cluster; `fairlead detect` works without it")
        ]
    if view.version < CLAIMS:
        return [warn(f"{text}: no claims (DRA) before 1.34", "install with publish.claims=false until then")]
    if view.version < SHARES:
        return [warn(f"{text}: shares of memory by claims need 1.36", f"use {GPU_MEM} until then")]
    return [ok(text)]


def claims(view: ClusterView) -> list[CheckResult]:
    """Report whether claims are served, and whether they can share memory."""
    if "resourceslices" in view.missing:
        if view.version < CLAIMS:
            return [ok("claims are not served by this version")]
        return [
            warn(
                "resource.k8s.io/v1 is not served, though this version has it",
                "remove it from the API server's --runtime-config, or install with publish.claims=false",
            )
        ]
    devices = [device for slice_ in view.own_slices for device in slice_.spec.devices]
    unshareable = [
        device.name
        for device in devices
        if "memory" in device.capacity
        and device.attributes.get("shareable", {}).get("bool") is True
        and not device.allow_multiple_allocations
    ]
    if unshareable:
        return [
            warn(
                f"claims cannot share the memory of {count(unshareable, 'device')}: the server dropped it",
                "enable DRAConsumableCapacity in API server, scheduler and kubelet",
            )
        ]
    return [ok(f"claims are served; {count(devices, 'device')} of ours can be claimed")]


def clock(view: ClusterView) -> list[CheckResult]:
    """Report whether this machine and the server agree on the time."""
    skew = abs(view.ahead)
    which = "ahead of" if view.ahead > 0 else "behind"
    text = f"this machine is {skew:.0f} s {which} the API server"
    todo = "set both by NTP (chronyc tracking, timedatectl)"
    if skew >= _FAIL_SKEW:
        return [fail(text, todo)]
    return (
        [warn(text, todo)]
        if skew >= _WARN_SKEW
        else [ok("this machine and the API server agree on the time")]
    )


def profiles(view: ClusterView) -> list[CheckResult]:
    """Report whether measurements of models can be stored."""
    if "modelprofiles" in view.missing:
        return [
            warn(
                "the kind ModelProfile is not served: predictions cannot learn from this cluster",
                "install the chart with profiles.enabled=true, or: "
                "fairlead manifests modelprofiles | kubectl apply -f -",
            )
        ]
    return [ok("the kind ModelProfile is served")]


def rights(view: ClusterView) -> list[CheckResult]:
    """Report the rights that our accounts need and lack."""
    by_account: dict[str, list[AccessRule]] = {}
    for rule in view.missing_rights:
        by_account.setdefault(rule.account, []).append(rule)
    if not by_account:
        return [ok("the accounts of scheduler and agents have the rights that they need")]
    return [
        fail(
            f"{account} may not {some(f'{rule.verb} {rule.resource}' for rule in rules)}",
            "run helm upgrade again with rbac.create=true, or give the account the chart's role",
        )
        for account, rules in sorted(by_account.items())
    ]
