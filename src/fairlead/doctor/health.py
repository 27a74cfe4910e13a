"""The check of the accelerators themselves: those that their node's agent reports as unhealthy."""

from fairlead.annotations import parse_devices
from fairlead.doctor.finding import CheckResult, fail, ok
from fairlead.doctor.view import ClusterView
from fairlead.keys import DEVICES


def unhealthy(view: ClusterView) -> list[CheckResult]:
    """Report the unhealthy accelerators, on which nothing is placed, with the reason."""
    results = [
        fail(
            f"{node.metadata.name}: {device.id} ({device.model}) is unhealthy: "
            f"{device.reason or 'reason unknown'}",
            "nothing new is placed on it, and running pods stay; see `fairlead docs health`",
        )
        for node in view.nodes
        for device in parse_devices(node.metadata.annotations.get(DEVICES, "")) or ()
        if not device.healthy
    ]
    return results or [ok("no agent reports an unhealthy accelerator")]
