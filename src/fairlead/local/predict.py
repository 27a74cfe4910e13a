"""The latency and memory of a model file on each accelerator of this machine, its processor included."""

from collections.abc import Mapping, Sequence

from fairlead.analyze import analyze, parse_shapes
from fairlead.calibrate.profile import default_folder, load_all
from fairlead.catalog import load
from fairlead.catalog.load import user_places
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target_of_accelerator
from fairlead.inventory import Inventory
from fairlead.prediction import Estimate
from fairlead.units import Seconds


def predict_here(
    path: str,
    shapes: Sequence[str],
    slo: Seconds | None,
    inventory: Inventory,
    environ: Mapping[str, str],
) -> dict[str, Estimate]:
    """Return the estimates by accelerator id; an AnalysisError says why the file cannot be analysed."""
    profile = analyze(path, parse_shapes(list(shapes)))
    catalog = load(user_places())
    known = load_all(default_folder(environ))
    knowledge = Knowledge.of(known.calibrations, catalog, known.seen)
    targets = [target_of_accelerator(accelerator, catalog) for accelerator in inventory.accelerators]
    estimates = estimate(Query.of(profile, slo=slo), targets, knowledge)
    ids = (accelerator.id for accelerator in inventory.accelerators)
    return dict(zip(ids, estimates, strict=True))
