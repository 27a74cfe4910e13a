"""What the operator's page says of resources: their condition Ready, as long as they exist."""

import pytest

from fairlead.reconcile import Manifest
from fairlead.serve.operator import metrics
from fairlead.serve.operator.kinds import ObjectId
from fairlead.serve.operator.store import Readiness
from tests.serve.operator.simulated import World
from tests.serve.operator.widgets import WIDGETS, widget

KEY = ObjectId(WIDGETS, "default", "a")


@pytest.mark.parametrize(
    ("status", "is_ready", "reason"),
    [
        ({"conditions": [{"type": "Ready", "status": "True", "reason": "Running"}]}, True, "Running"),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "Starting"}]}, False, "Starting"),
        ({"conditions": [{"type": "Accepted", "status": "True", "reason": "Valid"}]}, False, ""),
        (None, False, ""),
    ],
)
def test_readiness_is_the_condition_ready(status: Manifest | None, is_ready: bool, reason: str) -> None:
    assert Readiness.of(KEY, {"status": status}) == Readiness("widgets", "default/a", is_ready, reason)


def test_a_resource_is_on_the_page_until_it_is_gone() -> None:
    world = World()
    world.create(widget("a"))
    world.settle()
    (replica,) = world.replicas
    line = b'fairlead_operator_resource_ready{kind="widgets",object="default/a",reason=""} 0.0\n'
    gauges = replica.machine.gauges(world.clock.now)
    assert line in metrics.render(replica.machine.metrics, gauges, {})
    world.delete("widgets", "a")
    world.settle()
    gauges = replica.machine.gauges(world.clock.now)
    assert b"resource_ready{" not in metrics.render(replica.machine.metrics, gauges, {})
