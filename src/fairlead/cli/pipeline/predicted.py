"""Machines that are not there: the estimator's predictions for the ONNX stages of a pipeline."""

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from fairlead.cli.model.estimate import load_profiles
from fairlead.cli.shell import options as shared
from fairlead.errors import FairleadError
from fairlead.units import Bytes

if TYPE_CHECKING:
    from fairlead.estimate.target import Target
    from fairlead.pipeline.profile.facts import PipelineProfile, StageCost, StageFacts
    from fairlead.pipeline.spec import PipelineSpec, StageSpec
    from fairlead.prediction import Estimate


def check_classes(options: argparse.Namespace) -> None:
    """Refuse a --class that the catalog does not have, before anything is measured; SettingsError."""
    from fairlead.estimate.target import target

    for name in options.classes:
        target(name, shared.catalog_of(options))


def with_predictions(
    profile: "PipelineProfile", spec: "PipelineSpec", options: argparse.Namespace
) -> "PipelineProfile":
    """Return a profile with a machine for each class of the file or of --class that was not reached."""
    from fairlead.estimate.target import target

    absent = {
        host.name: host.host_class
        for host in spec.hosts
        if host.host_class and profile.machine(host.name) is None
    }
    absent |= {name: name for name in options.classes if profile.machine(name) is None}
    for name, host_class in absent.items():
        try:
            device = target(host_class, shared.catalog_of(options))
        except FairleadError as error:
            note = f"host {name} is not known: {error}"
            profile = replace(profile, notes=(*profile.notes, note))
            continue
        profile = _with_machine(profile, spec, name, device, options)
    return profile


def _with_machine(
    profile: "PipelineProfile",
    spec: "PipelineSpec",
    name: str,
    device: "Target",
    options: argparse.Namespace,
) -> "PipelineProfile":
    from fairlead.pipeline.profile.facts import Basis, MachineFacts

    stages = []
    for facts in profile.stages:
        stage = spec.stage(facts.name)
        if stage.role == "source" or (stage.is_placed and name not in spec.hosts_of(stage)):
            stages.append(facts)
        else:
            stages.append(_predict(facts, stage, spec.folder, name, device, options))
    notes, memory = profile.notes, device.memory
    if memory is None:  # no model is refused for memory that the catalog does not know
        notes = (*notes, f"the memory of {name} is not known: any stage fits")
        memory = Bytes(sum(stage.costs[name].memory_bytes for stage in stages if name in stage.costs))
    machine = MachineFacts(name, 1, memory, device.device, Basis.PREDICTED)
    return replace(profile, machines=(*profile.machines, machine), stages=tuple(stages), notes=notes)


def _predict(
    facts: "StageFacts",
    stage: "StageSpec",
    folder: str,
    name: str,
    device: "Target",
    options: argparse.Namespace,
) -> "StageFacts":
    if stage.kind != "onnx":
        reason = f"only ONNX stages are predicted, and {name} was not reached"
        return replace(facts, unknown={**facts.unknown, name: reason})
    try:
        estimate = _estimate(os.path.join(folder, stage.target), device, options)
    except FairleadError as error:
        return replace(facts, unknown={**facts.unknown, name: str(error)})
    cost = _cost(estimate)
    if cost is None:
        return replace(facts, unknown={**facts.unknown, name: "; ".join(estimate.reasons)})
    return replace(facts, costs={**facts.costs, name: cost})


def _estimate(path: str, device: "Target", options: argparse.Namespace) -> "Estimate":
    from fairlead.analyze import analyze
    from fairlead.estimate.knowledge import Knowledge
    from fairlead.estimate.predict import estimate
    from fairlead.estimate.query import Query

    known = load_profiles(None)
    knowledge = Knowledge.of(known.calibrations, shared.catalog_of(options), known.seen)
    return estimate(Query.of(analyze(path)), [device], knowledge)[0]


def _cost(estimate: "Estimate") -> "StageCost | None":
    """Return the cost of one frame; None where the model does not run or fit."""
    from fairlead.pipeline.profile.facts import Basis, StageCost

    if not estimate.good or estimate.seconds is None or estimate.p90 is None:
        return None
    seconds, p90 = (each / estimate.batch for each in (estimate.seconds, estimate.p90))
    return StageCost(seconds, p90, estimate.memory or 0, 0, Basis.PREDICTED, estimate.confidence)
