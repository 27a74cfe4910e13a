"""Faults and repairs of machines: scripted, or drawn for each target from its name and the seed."""

from collections.abc import Iterable, Iterator
from random import Random

from fairlead.placement import NodeState
from fairlead.simulate.trace.job import Fault, RandomFaults


def fault_targets(nodes: Iterable[NodeState], kind: str) -> Iterator[tuple[str, str]]:
    """Yield the targets of faults, as node and accelerator; an empty accelerator means the node."""
    for node in nodes:
        if kind == "node":
            yield node.name, ""
        else:
            yield from ((node.name, device.id) for device in node.devices)


class FaultProcess:
    """Draws the next fault of one target, independently of all other targets."""

    def __init__(self, failures: RandomFaults, node: str, device: str, seed: int) -> None:
        self._failures, self._node, self._device = failures, node, device
        self._random = Random(f"{seed}/{failures.kind}/{node}/{device}")  # noqa: S311 - a simulation, no secret

    def after(self, now: float) -> Fault:
        """Return the next fault of a target that is healthy now."""
        at = now + self._random.expovariate(1.0 / self._failures.mtbf)
        seconds = self._random.expovariate(1.0 / self._failures.mttr)
        return Fault(at, self._node, self._device, seconds)


def fault_processes(
    nodes: Iterable[NodeState], failures: Iterable[RandomFaults], seed: int
) -> dict[tuple[str, str], FaultProcess]:
    """Return the fault process of every target that fails at random."""
    listed = tuple(nodes)
    return {
        (node, device): FaultProcess(failure, node, device, seed)
        for failure in failures
        for node, device in fault_targets(listed, failure.kind)
    }
