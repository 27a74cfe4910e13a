"""The controllers that the operator runs, one for each kind of resource."""

from collections.abc import Callable
from typing import Final

from fairlead.pipelineobjects.controller import PipelineController
from fairlead.pipelineobjects.issuer import AuthorityIssuer
from fairlead.reconcile import ResourceController
from fairlead.settings.operator import OperatorSettings

ControllerFactory = Callable[[OperatorSettings], ResourceController]

CONTROLLERS: Final[tuple[ControllerFactory, ...]] = (lambda _: PipelineController(AuthorityIssuer()),)
"""In the order of the metrics page. A controller decides and never writes: see `fairlead/reconcile.py`."""
