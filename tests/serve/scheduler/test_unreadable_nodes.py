"""The scheduler logs why a node takes no pods: each node once, and not too many at a time."""

from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.keys import PLACEMENT
from fairlead.serve.machine.events import Start, Tick
from fairlead.serve.machine.flow import Log
from fairlead.serve.scheduler.events import Cycle, Synced
from fairlead.serve.scheduler.machine import SchedulerMachine
from tests.serve.scheduler.objects import device_slice, node, pod
from tests.serve.scheduler.simulated import settings_of


def logged(machine: SchedulerMachine, now: float) -> list[str]:
    """Return what a cycle and a tick log."""
    effects = [*machine.handle(Cycle(), now), *machine.handle(Tick(now), now)]
    return [effect.line for effect in effects if isinstance(effect, Log) and "pods" in effect.line]


def test_each_unreadable_node_is_logged_once_and_again_after_it_was_readable(catalog: Catalog) -> None:
    machine = SchedulerMachine(catalog, settings_of("one"))
    machine.handle(Start(0.0, "seed"), 0.0)
    newer = pod("a", on="n-0", mib=1, notes={PLACEMENT: '{"version":2}'})
    for item in (node("n-0"), device_slice("n-0"), newer):
        machine.handle(ObjectChange(None, item), 0.0)
    machine.handle(Synced(claims=True), 0.0)
    (line,) = logged(machine, 1.0)
    assert line.startswith("node n-0 takes no pods: pod default/a: placement format 2")
    assert logged(machine, 2.0) == []
    machine.handle(ObjectChange(newer, None), 3.0)
    assert logged(machine, 3.0) == []
    machine.handle(ObjectChange(None, newer), 4.0)
    assert len(logged(machine, 4.0)) == 1


def test_of_many_unreadable_nodes_a_few_are_logged_and_the_rest_is_counted(catalog: Catalog) -> None:
    machine = SchedulerMachine(catalog, settings_of("one"))
    machine.handle(Start(0.0, "seed"), 0.0)
    for number in range(8):
        name = f"n-{number}"
        newer = pod(f"p-{number}", on=name, mib=1, notes={PLACEMENT: '{"version":2}'})
        for item in (node(name), device_slice(name), newer):
            machine.handle(ObjectChange(None, item), 0.0)
    machine.handle(Synced(claims=True), 0.0)
    lines = logged(machine, 1.0)
    assert len(lines) == 6
    assert lines[-1] == "3 more nodes take no pods: they cannot be read"
