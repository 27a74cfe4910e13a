"""Every check, in the order in which a person would look, and what of the cluster it must have seen."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.doctor import agents, amounts, crashes, devices, health, scheduling, server, sources
from fairlead.doctor.finding import CheckResult, Finding, Severity
from fairlead.doctor.view import ClusterView


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str
    run: Callable[[ClusterView], list[CheckResult]]
    needs: tuple[str, ...] = ()
    """Kinds, by plural, without which it can say nothing."""
    transient: bool = False
    """It compares lists of different moments: what it finds must be found twice."""


CHECKS: Final = (
    Check("api", server.version),
    Check("clock", server.clock),
    Check("claims", server.claims, ("resourceslices",)),
    Check("profiles", server.profiles),
    Check("rights", server.rights, ("accounts",)),
    Check("lease", scheduling.lease, ("leases", "pods")),
    Check("replicas", scheduling.replicas, ("pods",)),
    Check("admission", scheduling.admission, ("pods",)),
    Check("agents", agents.agents, ("nodes", "pods", "resourceslices")),
    Check("crashes", crashes.crashes, ("pods",)),
    Check("versions", agents.versions, ("pods",)),
    Check("scheduler-names", scheduling.scheduler_names, ("pods",)),
    Check("priority-classes", scheduling.priority_classes, ("pods", "priorityclasses")),
    Check("other-plugins", devices.other_plugins, ("nodes", "pods", "resourceslices")),
    Check("two-schedulers", scheduling.two_schedulers, ("pods", "resourceclaims", "leases")),
    Check("unhealthy", health.unhealthy, ("nodes",)),
    Check("slices", devices.slices, ("nodes", "resourceslices")),
    Check("sources", sources.sources, ("nodes", "resourceslices"), True),
    Check("given-away", amounts.given_away, ("nodes", "pods", "resourceclaims", "resourceslices"), True),
    Check("orphan-claims", devices.orphan_claims, ("pods", "resourceclaims"), True),
)
_MOST: Final = 20
"""Findings of one check that are told one by one: what is wrong on every node fills no screen."""


def examine(sight: ClusterView) -> list[Finding]:
    """Return what every check finds; one that could not look says so, which is not well."""
    return [
        Finding(check.name, *_parts(said)) for check in CHECKS for said in _worst_results(_run(check, sight))
    ]


def needs_second_look(sight: ClusterView, findings: Iterable[Finding]) -> bool:
    """Say whether something was found that may be of two moments, so that another look is needed."""
    fleeting = {check.name for check in CHECKS if check.transient and not _forbidden_kinds(check, sight)}
    return any(finding.check in fleeting and finding.verdict is not Severity.OK for finding in findings)


def _run(check: Check, sight: ClusterView) -> list[CheckResult]:
    hidden = _forbidden_kinds(check, sight)
    if hidden:
        why = sight.blind[hidden[0]]
        return [
            CheckResult(
                Severity.WARN, f"cannot look: {why}", "run it as somebody who may: kubectl auth can-i"
            )
        ]
    return check.run(sight)


def _forbidden_kinds(check: Check, sight: ClusterView) -> list[str]:
    return [name for name in check.needs if name in sight.blind]


def _worst_results(said: list[CheckResult]) -> list[CheckResult]:
    """Return the worst of what was said, and how much more there is."""
    if len(said) <= _MOST:
        return said
    ordered = sorted(said, key=lambda each: list(Severity).index(each.verdict), reverse=True)
    rest = ordered[_MOST:]
    more = CheckResult(
        rest[0].verdict, f"and {len(rest)} more like these", "set these right first, and look again"
    )
    return [*ordered[:_MOST], more]


def _parts(said: CheckResult) -> tuple[Severity, str, str]:
    return said.verdict, said.text, said.todo
