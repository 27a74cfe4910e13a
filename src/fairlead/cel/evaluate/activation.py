"""One evaluation of an expression: its variables, and its cost so far."""

from collections.abc import Callable
from typing import Any, Final

from fairlead.cel.errors import CostError
from fairlead.cel.evaluate.values import Map

MAX_COST: Final = 1_000_000
"""The cost limit of one evaluation: `CELSelectorExpressionMaxCost` of Kubernetes."""


class Activation:
    """One evaluation: its variables, and its cost so far."""

    __slots__ = ("cost", "device", "variables")

    def __init__(self, device: Map, variables: int) -> None:
        self.device = device
        self.variables: list[Any] = [None] * variables
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Add a cost; CostError beyond the limit."""
        self.cost += cost
        if self.cost > MAX_COST:
            raise CostError


Step = Callable[[Activation], Any]
