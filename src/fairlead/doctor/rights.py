"""What accounts of ours must be allowed: the chart's roles as a table, so that a server can be asked."""

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
"""What the scheduler reads beside that."""
DECIDES: Final = tuple((verb, read) for read in _READS for verb in ("list", "watch"))
"""What every program that decides reads."""
PLACES: Final = (
    *DECIDES,
    *((verb, each) for each in _ALSO for verb in ("list", "watch")),
    *(("patch", each) for each in ("persistentvolumeclaims", "persistentvolumes")),
    ("get", "pods"),
    *(("create", each) for each in ("pods/binding", "pods/eviction", "events")),
    ("patch", "pods/status"),
    *((verb, f"resourceclaims.{_DRA}") for verb in ("get", "create", "patch", "delete")),
    *(("patch", f"resourceclaims/{part}.{_DRA}") for part in ("status", "binding")),
)
"""What the scheduler does, in every namespace."""
LEADS: Final = tuple((verb, "leases.coordination.k8s.io") for verb in ("get", "create", "update"))
"""What the scheduler does in its own namespace."""
PUBLISHES: Final = tuple((verb, "nodes") for verb in ("get", "list", "watch", "patch"))
"""What an agent does."""
READS_PLACEMENTS: Final = (("get", "pods"),)
"""What an agent does where a scheduler of ours writes its choice on pods."""


REVIEWS: Final = (("get", "pods"), ("list", "pods"))
"""What the admission webhook reads."""


def needed(
    agents: Iterable[Pod], schedulers: Iterable[Pod], extenders: Iterable[Pod], webhooks: Iterable[Pod] = ()
) -> Iterator[AccessRule]:
    """Yield what the accounts of the programs that run here must be allowed."""
    schedulers = tuple(schedulers)
    for account, _ in _accounts(agents):
        for verb, resource in (*PUBLISHES, *(READS_PLACEMENTS if schedulers else ())):
            yield AccessRule(account, verb, resource)
    for account, namespace in _accounts(schedulers):
        yield from (AccessRule(account, verb, resource) for verb, resource in PLACES)
        yield from (AccessRule(account, verb, resource, namespace) for verb, resource in LEADS)
    for account, _ in _accounts(extenders):
        yield from (AccessRule(account, verb, resource) for verb, resource in DECIDES)
    for account, _ in _accounts(webhooks):
        yield from (AccessRule(account, verb, resource) for verb, resource in REVIEWS)


def _accounts(pods: Iterable[Pod]) -> list[tuple[str, str]]:
    """Return who pods are, and where: `namespace/name`."""
    return sorted(
        {(f"{p.metadata.namespace}/{p.spec.service_account_name}", p.metadata.namespace) for p in pods}
    )
