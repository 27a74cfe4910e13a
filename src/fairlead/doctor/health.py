"""Check of the accelerators themselves: those that their node's agent calls unhealthy."""

from fairlead.annotations import parse_devices
from fairlead.doctor.finding import CheckResult, fail, ok
from fairlead.doctor.view import ClusterView
from fairlead.keys import DEVICES


def unhealthy(sight: ClusterView) -> list[CheckResult]:
    """Say which accelerators nothing is placed on, and why."""
    said = [
        fail(
            f"{node.metadata.name}: {each.id} ({each.model}) is unhealthy: {each.reason or 'reason unknown'}",
            "nothing is placed on it, and pods that run there stay; see `fairlead docs health`",
        )
        for node in sight.nodes
        for each in parse_devices(node.metadata.annotations.get(DEVICES, "")) or ()
        if not each.healthy
    ]
    return said or [ok("no agent calls an accelerator unhealthy")]
