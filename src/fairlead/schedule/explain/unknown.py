"""What is not known of the accelerators that a request takes, and what the policy did with that."""

from fairlead.placement import Placement
from fairlead.schedule.filter.compiled import UNKNOWN, CompiledRequest
from fairlead.schedule.score.policies import Policy


def unknown_of(compiled: CompiledRequest, placement: Placement, policy: Policy) -> tuple[str, ...]:
    """Return a text for each model of accelerator taken on which the latency is not known."""
    if not compiled.some_unknown:
        return ()
    row = compiled.cluster.row(placement.node)
    models = dict.fromkeys(
        compiled.cluster.device_named(row, share.device).model for share in placement.shares
    )
    expected = {model: compiled.request.estimates.get(model, UNKNOWN) for model in models}
    texts = [
        f"its latency on {model} is {each.unknown}; policy {policy.name} {policy.with_unknown}"
        for model, each in expected.items()
        if each.unknown
    ]
    return (
        *texts,
        *dict.fromkeys(f"its latency is of {each.scope}" for each in expected.values() if each.scope),
    )
