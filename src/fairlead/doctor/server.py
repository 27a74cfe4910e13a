"""Checks of the API server: its version, its claims, its clock, our own kind, and our accounts' rights."""

from typing import Final

from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import AccessRule, ClusterView
from fairlead.keys import GPU_MEM

OLDEST: Final = (1, 30)
CLAIMS: Final = (1, 34)
SHARES: Final = (1, 36)
_ODD, _BAD = 5.0, 300.0
"""Seconds between two clocks that are odd, and after which tokens and certificates are refused."""


def version(sight: ClusterView) -> list[CheckResult]:
    """Say whether the server is new enough."""
    text = f"Kubernetes {sight.version[0]}.{sight.version[1]}, as {sight.user}"
    if sight.version < OLDEST:
        return [
            fail(f"{text}: the chart needs 1.30", "upgrade the cluster; `fairlead detect` works without it")
        ]
    if sight.version < CLAIMS:
        return [warn(f"{text}: no claims (DRA) before 1.34", "install with publish.claims=false until then")]
    if sight.version < SHARES:
        return [warn(f"{text}: shares of memory by claims need 1.36", f"use {GPU_MEM} until then")]
    return [ok(text)]


def claims(sight: ClusterView) -> list[CheckResult]:
    """Say whether claims are served, and whether memory can be shared by them."""
    if "resourceslices" in sight.missing:
        if sight.version < CLAIMS:
            return [ok("claims are not served by this version")]
        return [
            warn(
                "resource.k8s.io/v1 is not served, though this version has it",
                "take it out of the API server's --runtime-config, or install with publish.claims=false",
            )
        ]
    devices = [device for each in sight.own_slices for device in each.spec.devices]
    alone = [
        device.name
        for device in devices
        if "memory" in device.capacity
        and device.attributes.get("shareable", {}).get("bool") is True
        and not device.allow_multiple_allocations
    ]
    if alone:
        return [
            warn(
                f"the memory of {count(alone, 'device')} cannot be shared by claims: the server forgot it",
                "switch on DRAConsumableCapacity in API server, scheduler and kubelet",
            )
        ]
    return [ok(f"claims are served; {count(devices, 'device')} of ours can be claimed")]


def clock(sight: ClusterView) -> list[CheckResult]:
    """Say whether this machine and the server agree on the time."""
    apart = abs(sight.ahead)
    which = "ahead of" if sight.ahead > 0 else "behind"
    text = f"this machine is {apart:.0f} s {which} the API server"
    todo = "set both by NTP (chronyc tracking, timedatectl)"
    if apart >= _BAD:
        return [fail(text, todo)]
    return [warn(text, todo)] if apart >= _ODD else [ok("this machine and the API server agree on the time")]


def profiles(sight: ClusterView) -> list[CheckResult]:
    """Say whether what is measured of models can be kept."""
    if "modelprofiles" in sight.missing:
        return [
            warn(
                "the kind ModelProfile is not there: predictions cannot learn from this cluster",
                "install the chart with profiles.enabled=true, or: "
                "fairlead manifests modelprofiles | kubectl apply -f -",
            )
        ]
    return [ok("the kind ModelProfile is there")]


def rights(sight: ClusterView) -> list[CheckResult]:
    """Say what accounts of ours may not do, though they must."""
    by_account: dict[str, list[AccessRule]] = {}
    for each in sight.lacking:
        by_account.setdefault(each.account, []).append(each)
    if not by_account:
        return [ok("the accounts of scheduler and agents may do what they must")]
    return [
        fail(
            f"{account} may not {some(f'{each.verb} {each.resource}' for each in found)}",
            "run helm upgrade again with rbac.create=true, or give the account the chart's role",
        )
        for account, found in sorted(by_account.items())
    ]
