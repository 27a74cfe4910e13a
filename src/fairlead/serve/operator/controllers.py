"""The controllers that the operator runs, one for each kind of resource."""

from collections.abc import Callable
from typing import Final

from fairlead.reconcile import Controller
from fairlead.settings.operator import OperatorSettings

ControllerFactory = Callable[[OperatorSettings], Controller]

CONTROLLERS: Final[tuple[ControllerFactory, ...]] = ()
"""In the order of the metrics page. A controller decides and never writes: see `fairlead/reconcile.py`."""
