"""Estimates for a model file on the accelerators of a cluster: analysed once, predicted once per model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.analyze import analyze, parse_shapes
from fairlead.annotations import MIG
from fairlead.catalog import Catalog
from fairlead.errors import AnalysisError, CatalogError, ManifestError, SettingsError
from fairlead.estimate.feasible import UNKNOWN
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import Target, target
from fairlead.estimate.target import target_of_accelerator as local_target
from fairlead.inventory import Accelerator
from fairlead.placement import NodeState
from fairlead.prediction import Estimate
from fairlead.request import Expectation, Request
from fairlead.training.predict import TrainingEstimate, TrainingJob, estimate_training
from fairlead.training.setup import parse_setup
from fairlead.workload import ModelFile, Profile

NO_KNOWLEDGE: Final = Knowledge()
"""Without calibrations, predictions rest on data sheets."""
_NO_ROW: Final = f"{UNKNOWN}: no row in the catalog; add one"


@dataclass(frozen=True, slots=True)
class ModelFileEstimator:
    """Predicts for the accelerators of one cluster, each model file once."""

    catalog: Catalog
    accelerators: tuple[str, ...]
    """The models of accelerators in the cluster."""
    knowledge: Knowledge = NO_KNOWLEDGE
    """What calibrations have shown; empty without calibrations."""
    local_accelerators: tuple[Accelerator, ...] = ()
    """Accelerators of this machine: detection knows their current state better than the catalog."""
    _known: dict[ModelFile, Mapping[str, Expectation]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        nodes: Iterable[NodeState],
        catalog: Catalog,
        knowledge: Knowledge = NO_KNOWLEDGE,
        local_accelerators: tuple[Accelerator, ...] = (),
    ) -> "ModelFileEstimator":
        """Return an estimator for the accelerators of these nodes."""
        models = dict.fromkeys(device.model for node in nodes for device in node.devices if device.model)
        return cls(catalog, tuple(models), knowledge, local_accelerators)

    def with_expectations(self, where: str, request: Request, model: ModelFile) -> Request:
        """Return a request with the estimates for its model."""
        if model not in self._known:
            self._known[model] = self._expectations(where, model)
        return replace(request, estimates=with_stated_memory(self._known[model], request.estimates))

    def _expectations(self, where: str, model: ModelFile) -> Mapping[str, Expectation]:
        profile = _profile(where, model)
        place = (self.accelerators, self.catalog, self.knowledge, self.local_accelerators)
        try:
            if model.training:
                job = TrainingJob.of(profile, parse_setup(model.training, model.precision))
                return training_expectations(job, *place)
            query = Query.of(profile, model.precision or None)
        except SettingsError as error:
            raise ManifestError(f"{where}: {error}", error.hint) from None
        return predict_expectations(query, *place)


def predict_expectations(
    query: Query,
    accelerators: Iterable[str],
    catalog: Catalog,
    knowledge: Knowledge = NO_KNOWLEDGE,
    local_accelerators: tuple[Accelerator, ...] = (),
) -> dict[str, Expectation]:
    """Return the estimates on each model of accelerator; what the catalog lacks is not known."""
    targets, unlisted = _targets(accelerators, catalog, local_accelerators)
    estimates = estimate(query, list(targets.values()), knowledge)
    return unlisted | {
        name: _expectation(estimated, streams=target_.memory is None)
        for (name, target_), estimated in zip(targets.items(), estimates, strict=True)
    }


def training_expectations(
    job: TrainingJob,
    accelerators: Iterable[str],
    catalog: Catalog,
    knowledge: Knowledge = NO_KNOWLEDGE,
    local_accelerators: tuple[Accelerator, ...] = (),
) -> dict[str, Expectation]:
    """Return the estimates of a training job on each model of accelerator: of the whole job, if it ends."""
    targets, unlisted = _targets(accelerators, catalog, local_accelerators)
    estimates = estimate_training(job, list(targets.values()), knowledge)
    return unlisted | {
        name: _training_expectation(estimated) for name, estimated in zip(targets, estimates, strict=True)
    }


def _training_expectation(estimated: TrainingEstimate) -> Expectation:
    step, steps = estimated.step, estimated.steps or 1
    if step.runs is False:
        return Expectation(reason="; ".join(step.reasons))
    if step.p90 is None:
        return Expectation(memory=estimated.device_bytes, unknown=step.reasons[-1])
    joules = None if step.joules is None else steps * step.joules
    return Expectation(steps * step.p90, joules, estimated.device_bytes)


def _targets(
    accelerators: Iterable[str], catalog: Catalog, local_accelerators: tuple[Accelerator, ...]
) -> tuple[dict[str, Target], dict[str, Expectation]]:
    """Return what to predict for by name, and what is expected of names that the catalog lacks."""
    local_by_model = {accelerator.model: accelerator for accelerator in local_accelerators}
    targets: dict[str, Target] = {}
    unlisted: dict[str, Expectation] = {}
    for name in accelerators:
        try:
            found = (
                local_target(local_by_model[name], catalog)
                if name in local_by_model
                else target(name, catalog)
            )
        except (CatalogError, SettingsError):
            unlisted[name] = Expectation(unknown=_NO_ROW)
        else:
            targets[name if MIG in name else found.device] = found
    return targets, unlisted


def with_stated_memory(
    estimates: Mapping[str, Expectation], stated: Mapping[str, Expectation]
) -> Mapping[str, Expectation]:
    """Return the estimates, with the memory that the pod requests in place of the estimated memory."""
    return {
        name: replace(expected, memory=stated[name].memory) if name in stated else expected
        for name, expected in estimates.items()
    }


def _profile(where: str, model: ModelFile) -> Profile:
    try:
        return analyze(model.path, parse_shapes(list(model.shapes)))
    except (AnalysisError, SettingsError) as error:
        raise ManifestError(f"{where}: {error}", error.hint) from None


def _expectation(estimated: Estimate, *, streams: bool) -> Expectation:
    """Return an estimate as the engine reads it; a model that streams through a device takes no memory."""
    if estimated.runs is False:
        return Expectation(reason="; ".join(estimated.reasons))
    if estimated.runs is None:
        return Expectation(memory=estimated.memory, unknown=estimated.reasons[-1])
    memory = None if streams else estimated.memory
    return Expectation(estimated.p90, estimated.joules, memory, scope=estimated.scope)
