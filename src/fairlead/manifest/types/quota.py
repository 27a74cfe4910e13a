"""Resource quotas, with the fields that limit the accelerators of a namespace."""

from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart, field
from fairlead.manifest.types.kubernetes import Amounts
from fairlead.manifest.types.live import LivePod

_BEST_EFFORT: Final = "BestEffort"


class ScopeRequirement(ObjectPart, frozen=True):
    """A scope of a quota: the pods of a priority class, or of another named property."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(ObjectPart, frozen=True):
    """Requirements that a pod must meet together."""

    match_expressions: tuple[ScopeRequirement, ...] = ()


class QuotaSpec(ObjectPart, frozen=True):
    """The total that the pods of a namespace may have."""

    hard: Amounts = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector = ScopeSelector()


class QuotaStatus(ObjectPart, frozen=True):
    """The usage that Kubernetes has counted."""

    used: Amounts = field(default_factory=dict)


class ResourceQuota(Object, frozen=True):
    """A limit on the resources of a namespace."""

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()

    def covers(self, pod: LivePod) -> bool:
        """Return whether a pod counts against the quota; an unknown scope covers every pod."""
        plain = (ScopeRequirement(scope, "Exists") for scope in self.spec.scopes)
        return all(
            _matches_scope(requirement, pod)
            for requirement in (*plain, *self.spec.scope_selector.match_expressions)
        )


def _matches_scope(requirement: ScopeRequirement, pod: LivePod) -> bool:
    match requirement.scope_name:
        case "PriorityClass":
            return _matches_class(requirement, pod.spec.priority_class_name)
        case "Terminating":
            return pod.spec.active_deadline_seconds is not None
        case "NotTerminating":
            return pod.spec.active_deadline_seconds is None
        case "BestEffort":
            return pod.status.qos_class == _BEST_EFFORT
        case "NotBestEffort":
            return pod.status.qos_class != _BEST_EFFORT
    return True


def _matches_class(requirement: ScopeRequirement, name: str) -> bool:
    match requirement.operator:
        case "In":
            return name in requirement.values
        case "NotIn":
            return name not in requirement.values
        case "DoesNotExist":
            return not name
    return bool(name)


QUOTAS: Final = Kind("", "v1", "resourcequotas", True, ResourceQuota, "ResourceQuota")
