"""Models that a cluster knows by its ModelProfiles, for the dashboard."""

from collections.abc import Iterable
from typing import Final

from fairlead.catalog import Catalog
from fairlead.dashboard.predictions import ShownModel
from fairlead.estimate.knowledge import Knowledge
from fairlead.expect.profiles import KnownModels, model_query
from fairlead.modelprofiles.types import ModelProfile

_DIGITS: Final = 8
"""Of a digest, where two models have one name."""


def known_models(
    profiles: Iterable[ModelProfile], catalog: Catalog
) -> tuple[dict[str, ShownModel], Knowledge]:
    """Return the models whose work is known, by name, and what was measured; this computes fits."""
    read = KnownModels.of(profiles, catalog)
    shown: dict[str, ShownModel] = {}
    for digest, model in sorted(read.known.items()):
        if model.features is None:
            continue
        name = min(model.names)
        command = f"fairlead estimate {name} --cluster --on all"
        name = f"{name}@{digest[:_DIGITS]}" if name in shown else name
        shown[name] = ShownModel(name, "a profile of the cluster", model_query(model, ""), None, command)
    return shown, read.knowledge
