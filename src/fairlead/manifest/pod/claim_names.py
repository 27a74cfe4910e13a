"""The claims that a pod uses, by name; light, because every `explain` imports it."""

from fairlead.manifest.types.kubernetes import Pod
from fairlead.manifest.types.live import LivePod

Key = tuple[str, str]
"""A claim's namespace and name."""


def claims_named(pod: Pod) -> dict[str, Key]:
    """Return the claims that a pod names, or that a template created for it, by their names in the pod."""
    if not pod.spec.resource_claims:
        return {}
    created = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    named = {
        claim.name: claim.resource_claim_name or created.get(claim.name, "")
        for claim in pod.spec.resource_claims
    }
    return {name: (pod.metadata.namespace, claim) for name, claim in named.items() if claim}


def claims_used(pod: LivePod) -> list[Key]:
    """Return the claims that a pod names, and the claim that a scheduler made for its extended resources."""
    own = pod.status.extended_resource_claim_status.resource_claim_name
    return [*claims_named(pod).values(), *([(pod.metadata.namespace, own)] if own else [])]
