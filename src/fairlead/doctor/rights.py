"""The rights that our accounts need: the chart's roles as a table, so that a server can be asked."""

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead.doctor.view import AccessRule, Pod

_DRA: Final = "resource.k8s.io"
_READS: Final = (
    *("nodes", "pods", f"resourceslices.{_DRA}", f"resourceclaims.{_DRA}"),
    *(f"resourceclaimtemplates.{_DRA}", f"deviceclasses.{_DRA}", "priorityclasses.scheduling.k8s.io"),
)
_ALSO: Final = (
    *("resourcequotas", "poddisruptionbudgets.policy"),
    *("persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"),
)
"""What the scheduler reads in addition."""
READ_RULES: Final = tuple((verb, read) for read in _READS for verb in ("list", "watch"))
"""What every program that places pods reads."""
SCHEDULER_RULES: Final = (
    *READ_RULES,
    *((verb, kind) for kind in _ALSO for verb in ("list", "watch")),
    *(("patch", kind) for kind in ("persistentvolumeclaims", "persistentvolumes")),
    ("get", "pods"),
    *(("create", kind) for kind in ("pods/binding", "pods/eviction", "events")),
    ("patch", "pods/status"),
    *((verb, f"resourceclaims.{_DRA}") for verb in ("get", "create", "patch", "delete")),
    *(("patch", f"resourceclaims/{part}.{_DRA}") for part in ("status", "binding")),
)
"""What the scheduler does in every namespace."""
LEASE_RULES: Final = tuple(
    (verb, kind)
    for kind in ("leases.coordination.k8s.io", "configmaps")
    for verb in ("get", "create", "update")
)
"""What the scheduler does in its own namespace: leader election, and the sizes that it learned."""
AGENT_RULES: Final = tuple((verb, "nodes") for verb in ("get", "list", "watch", "patch"))
"""What an agent does."""
AGENT_POD_RULES: Final = (("get", "pods"),)
"""What an agent does where our scheduler writes placements on pods."""


ADMISSION_RULES: Final = (("get", "pods"), ("list", "pods"))
"""What the admission webhook reads."""


def required_rules(
    agents: Iterable[Pod], schedulers: Iterable[Pod], extenders: Iterable[Pod], webhooks: Iterable[Pod] = ()
) -> Iterator[AccessRule]:
    """Yield the rights that the accounts of the running programs need."""
    schedulers = tuple(schedulers)
    for account, _ in _accounts(agents):
        for verb, resource in (*AGENT_RULES, *(AGENT_POD_RULES if schedulers else ())):
            yield AccessRule(account, verb, resource)
    for account, namespace in _accounts(schedulers):
        yield from (AccessRule(account, verb, resource) for verb, resource in SCHEDULER_RULES)
        yield from (AccessRule(account, verb, resource, namespace) for verb, resource in LEASE_RULES)
    for account, _ in _accounts(extenders):
        yield from (AccessRule(account, verb, resource) for verb, resource in READ_RULES)
    for account, _ in _accounts(webhooks):
        yield from (AccessRule(account, verb, resource) for verb, resource in ADMISSION_RULES)


def _accounts(pods: Iterable[Pod]) -> list[tuple[str, str]]:
    """Return the service accounts of pods, as `namespace/name`, each with its namespace."""
    return sorted(
        {(f"{p.metadata.namespace}/{p.spec.service_account_name}", p.metadata.namespace) for p in pods}
    )
