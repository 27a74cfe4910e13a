"""The controllers that the operator runs, one for each kind of resource."""

from collections.abc import Callable
from typing import Final

from fairlead.augmentobjects import controller as augmentations
from fairlead.augmentobjects.controller import AugmentationController
from fairlead.ownedobjects.issuer import AuthorityIssuer
from fairlead.pipelineobjects.controller import IMAGE, PipelineController
from fairlead.reconcile import ResourceController
from fairlead.settings.operator import OperatorSettings

ControllerFactory = Callable[[OperatorSettings], ResourceController]


def _pipelines(settings: OperatorSettings) -> ResourceController:
    return PipelineController(AuthorityIssuer(), settings.pipeline_image or IMAGE)


def _augmentations(settings: OperatorSettings) -> ResourceController:
    return AugmentationController(AuthorityIssuer(), settings.store_image or augmentations.IMAGE)


CONTROLLERS: Final[tuple[ControllerFactory, ...]] = (_pipelines, _augmentations)
"""In the order of the metrics page. A controller decides and never writes: see `fairlead/reconcile.py`."""
