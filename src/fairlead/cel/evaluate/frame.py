"""One evaluation of an expression: its variables, and what it has cost."""

from collections.abc import Callable
from typing import Any, Final

from fairlead.cel.errors import CostError
from fairlead.cel.evaluate.values import Map

MAX_COST: Final = 1_000_000
"""What one evaluation may cost: `CELSelectorExpressionMaxCost` of Kubernetes."""


class Frame:
    """One evaluation: its variables, and what it has cost."""

    __slots__ = ("cost", "device", "variables")

    def __init__(self, device: Map, variables: int) -> None:
        self.device = device
        self.variables: list[Any] = [None] * variables
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Count a step; CostError beyond the limit."""
        self.cost += cost
        if self.cost > MAX_COST:
            raise CostError


Step = Callable[[Frame], Any]
