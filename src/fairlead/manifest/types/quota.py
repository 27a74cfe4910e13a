"""Quotas of namespaces, as far as they bound what pods take of accelerators."""

from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart, field
from fairlead.manifest.types.kubernetes import Amounts
from fairlead.manifest.types.live import LivePod

_BEST_EFFORT: Final = "BestEffort"


class ScopeRequirement(ObjectPart, frozen=True):
    """Which pods a quota is about, by their priority class or something else that has a name."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(ObjectPart, frozen=True):
    """Requirements that a pod must meet together."""

    match_expressions: tuple[ScopeRequirement, ...] = ()


class QuotaSpec(ObjectPart, frozen=True):
    """What the pods of a namespace may have in all."""

    hard: Amounts = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector = ScopeSelector()


class QuotaStatus(ObjectPart, frozen=True):
    """What the API server has counted of it."""

    used: Amounts = field(default_factory=dict)


class ResourceQuota(Object, frozen=True):
    """A bound on the resources of a namespace."""

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()

    def covers(self, pod: LivePod) -> bool:
        """Return whether a pod counts against it; one of a scope that is not known here covers every pod."""
        plain = (ScopeRequirement(scope, "Exists") for scope in self.spec.scopes)
        return all(
            _matches_scope(each, pod) for each in (*plain, *self.spec.scope_selector.match_expressions)
        )


def _matches_scope(said: ScopeRequirement, pod: LivePod) -> bool:
    match said.scope_name:
        case "PriorityClass":
            return _matches_class(said, pod.spec.priority_class_name)
        case "Terminating":
            return pod.spec.active_deadline_seconds is not None
        case "NotTerminating":
            return pod.spec.active_deadline_seconds is None
        case "BestEffort":
            return pod.status.qos_class == _BEST_EFFORT
        case "NotBestEffort":
            return pod.status.qos_class != _BEST_EFFORT
    return True


def _matches_class(said: ScopeRequirement, name: str) -> bool:
    match said.operator:
        case "In":
            return name in said.values
        case "NotIn":
            return name not in said.values
        case "DoesNotExist":
            return not name
    return bool(name)


QUOTAS: Final = Kind("", "v1", "resourcequotas", True, ResourceQuota, "ResourceQuota")
