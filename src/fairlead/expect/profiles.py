"""Models that a cluster knows by its profiles: found by the name that a pod gives, and foreseen.

No model file is at hand there. What the profiles say of a model's work is enough to predict it on every
accelerator of the catalog; of a model that was only seen in use, what was seen is all that is expected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from os.path import basename
from typing import Final

from fairlead import keys
from fairlead.calibration import Features, ObservedUse
from fairlead.catalog import Catalog
from fairlead.catalog.device import PRECISIONS
from fairlead.errors import ManifestError
from fairlead.estimate.knowledge import FitCache, Knowledge
from fairlead.estimate.query import Query
from fairlead.expect.files import NO_KNOWLEDGE, predict_expectations, with_stated_memory
from fairlead.manifest.types.kubernetes import Pod
from fairlead.modelprofiles.analysed import file_parts
from fairlead.modelprofiles.convert import profile_set
from fairlead.modelprofiles.types import FilePart, ModelProfile
from fairlead.request import Expectation, Request
from fairlead.units import Bytes
from fairlead.workload import Profile

_SHORTEST: Final = 8
"""Characters of a digest that name a model."""
_LONGEST: Final = 253
"""Characters of a name; profiles have room for no more."""
_ENDINGS: Final = (".onnx", ".tflite")
_IMPORT_HINT: Final = "fairlead profiles import --model FILE, or fairlead calibrate --cluster"
_LIST_HINT: Final = "kubectl get modelprofiles"
"""What lists the models. A refusal stands in a pod's condition and names none itself: profiles are of the
whole cluster, and a user who may read the pod may not be allowed to list them."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of which profiles tell."""

    digest: str
    names: frozenset[str]
    precision: str
    features: Features | None = None
    """Its work; None: it was only seen in use."""
    file: FilePart | None = None
    """What its file says beyond its work, where somebody brought that."""


@dataclass(frozen=True, slots=True)
class KnownModels:
    """All models that a cluster knows, and what was measured of them."""

    catalog: Catalog
    known: Mapping[str, KnownModel] = field(default_factory=dict)
    """By digest."""
    seen: tuple[ObservedUse, ...] = ()
    knowledge: Knowledge = NO_KNOWLEDGE
    fits: FitCache = field(default_factory=FitCache)
    """For the next that are learnt."""
    _expected: dict[tuple[str, str, tuple[str, ...]], dict[str, Expectation]] = field(default_factory=dict)
    """What was worked out already."""

    @classmethod
    def of(
        cls, profiles: Iterable[ModelProfile], catalog: Catalog, before: "KnownModels | None" = None
    ) -> "KnownModels":
        """Learn from the profiles of a cluster; what was learnt `before` and still holds is kept."""
        listed = tuple(profiles)
        told = profile_set(listed)
        by_file = file_parts(listed)
        known: dict[str, KnownModel] = {}
        for seen in told.seen:
            _add(known, KnownModel(seen.digest, frozenset({seen.model}), seen.setup.precision))
        for calibration in told.calibrations:
            for trial in calibration.trials:
                digest, names = trial.features.digest, frozenset({trial.model})
                file = by_file.get(digest)
                precision = file.precision if file else calibration.setup.precision
                _add(known, KnownModel(digest, names, precision, trial.features, file))
        fits = before.fits if before else FitCache()
        learnt = Knowledge.of(told.calibrations, catalog, told.seen, fits)
        return cls(catalog, known, told.seen, learnt, fits)

    def with_expectations(
        self, where: str, pod: Pod, request: Request, accelerators: Iterable[str]
    ) -> Request:
        """Return a request with what is expected of the model that its pod names, if it names one."""
        notes = pod.metadata.annotations
        name, precision = notes.get(keys.MODEL, "").strip(), notes.get(keys.PRECISION, "").strip()
        if not name:
            return request
        model = self.find(f"{where}: metadata.annotations[{keys.MODEL}]", name, precision)
        key = (model.digest, precision, tuple(accelerators))
        if key not in self._expected:
            self._expected[key] = self.expectations(model, precision, key[2])
        return replace(request, estimates=with_stated_memory(self._expected[key], request.estimates))

    def find(self, where: str, name: str, precision: str) -> KnownModel:
        """Return the one model that a name means; an error names no other one."""
        if len(name) > _LONGEST:
            raise ManifestError(f"{where}: a name of {len(name)} characters", _IMPORT_HINT)
        found = [each for each in self.known.values() if _is_named(each, name)]
        fitting = [each for each in found if each.precision == precision] or found
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            hint = f"see those that it knows: {_LIST_HINT}. Or teach it: {_IMPORT_HINT}"
            raise ManifestError(f"{where}: the cluster knows no model {name!r}", hint)
        raise ManifestError(
            f"{where}: {name!r} may be any of {len(fitting)} models",
            f"add the annotation {keys.PRECISION}, or name it by its digest: {_LIST_HINT} -o yaml",
        )

    def expectations(
        self, model: KnownModel, precision: str, accelerators: Iterable[str]
    ) -> dict[str, Expectation]:
        """Return what is expected of a model on each of these."""
        if model.features is None:
            return self._observed_expectations(model, frozenset(accelerators))
        return predict_expectations(_query(model, precision), accelerators, self.catalog, self.knowledge)

    def _observed_expectations(
        self, model: KnownModel, accelerators: frozenset[str]
    ) -> dict[str, Expectation]:
        """Return what was seen in use; of several sights on one accelerator, the richest."""
        sights = [each for each in self.seen if each.digest == model.digest]
        sights.sort(key=lambda each: each.latency.count if each.latency else 0)
        return {
            sight.setup.device: _observed_expectation(sight)
            for sight in sights
            if sight.setup.device in accelerators
        }


def _is_named(model: KnownModel, name: str) -> bool:
    """Return whether a name is a model's: whole, without folder or ending, or the start of its digest."""
    if len(name) >= _SHORTEST and model.digest.startswith(name.lower()):
        return True
    return name in model.names or _bare_name(name) in map(_bare_name, model.names)


def _bare_name(name: str) -> str:
    last = basename(name).lower()
    return next((last.removesuffix(ending) for ending in _ENDINGS if last.endswith(ending)), last)


def _add(known: dict[str, KnownModel], found: KnownModel) -> None:
    """Add what is known of a model; files of different names may be the same work."""
    before = known.get(found.digest)
    names = before.names | found.names if before else found.names
    known[found.digest] = replace(found, names=names)


def _query(model: KnownModel, precision: str) -> Query:
    assert model.features is not None, "only a model whose work is known is asked about"
    file = model.file or FilePart()
    own = model.precision if model.precision in PRECISIONS else "fp32"
    profile = Profile(
        name=min(model.names),
        format=file.format,
        digest=model.digest,
        precision=own,
        inputs=(),
        outputs=(),
        operators=(),
        macs=0,
        params=0,
        weight_bytes=Bytes(0),
        activations=0,
        peak_bytes=model.features.peak_bytes,
        unsupported=file.unsupported,
    )
    return Query(profile, model.features, precision or None, max(1, model.features.batch), exact=file.exact)


def _observed_expectation(seen: ObservedUse) -> Expectation:
    if seen.latency is None:
        return Expectation(memory=seen.peak_bytes)
    joules = None if seen.watts is None else seen.watts * seen.latency.median
    return Expectation(seen.latency.p90, joules, seen.peak_bytes)
