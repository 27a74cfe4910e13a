"""Every check, in the order in which a person would look, and the kinds that it needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.doctor import agents, amounts, crashes, devices, health, scheduling, server, sources, telemetry
from fairlead.doctor.finding import CheckResult, Finding, Severity
from fairlead.doctor.view import ClusterView


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str
    run: Callable[[ClusterView], list[CheckResult]]
    needs: tuple[str, ...] = ()
    """Kinds, by plural, without which the check has no result."""
    transient: bool = False
    """It compares lists of different moments: a finding counts only if a second look finds it again."""


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
    Check("telemetry", telemetry.telemetry, ("nodes", "pods", "resourceslices")),
    Check("orphan-claims", devices.orphan_claims, ("pods", "resourceclaims"), True),
)
_MOST: Final = 20
"""Findings of one check that are listed one by one, so that a fault on every node fills no screen."""


def examine(view: ClusterView) -> list[Finding]:
    """Return the findings of every check; a check that is forbidden to list what it needs warns."""
    return [
        Finding(check.name, *_parts(result))
        for check in CHECKS
        for result in _worst_results(_run(check, view))
    ]


def needs_second_look(view: ClusterView, findings: Iterable[Finding]) -> bool:
    """Return whether a finding may mix two moments, so that a second look is needed."""
    transient = {check.name for check in CHECKS if check.transient and not _forbidden_kinds(check, view)}
    return any(finding.check in transient and finding.verdict is not Severity.OK for finding in findings)


def _run(check: Check, view: ClusterView) -> list[CheckResult]:
    forbidden = _forbidden_kinds(check, view)
    if forbidden:
        why = view.forbidden[forbidden[0]]
        return [
            CheckResult(
                Severity.WARN, f"cannot check: {why}", "run it as a user with that right: kubectl auth can-i"
            )
        ]
    return check.run(view)


def _forbidden_kinds(check: Check, view: ClusterView) -> list[str]:
    return [name for name in check.needs if name in view.forbidden]


def _worst_results(results: list[CheckResult]) -> list[CheckResult]:
    """Return the worst results, and a count of the rest."""
    if len(results) <= _MOST:
        return results
    ordered = sorted(results, key=lambda result: list(Severity).index(result.verdict), reverse=True)
    rest = ordered[_MOST:]
    more = CheckResult(
        rest[0].verdict, f"and {len(rest)} more like these", "correct these first, and run it again"
    )
    return [*ordered[:_MOST], more]


def _parts(result: CheckResult) -> tuple[Severity, str, str]:
    return result.verdict, result.text, result.todo
