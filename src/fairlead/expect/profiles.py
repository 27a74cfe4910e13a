"""Models that a cluster knows by its profiles: found by the name that a pod gives, and estimated.

The cluster has no model file. The work that a profile records is enough to predict the model on every
accelerator of the catalog; for a model that was only observed in use, the observation is the estimate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from os.path import basename
from typing import Final

from fairlead import keys
from fairlead.calibration import Features, ObservedUse
from fairlead.catalog import Catalog
from fairlead.catalog.device import PRECISIONS
from fairlead.errors import ManifestError, SettingsError
from fairlead.estimate.feasible import UNKNOWN
from fairlead.estimate.knowledge import FitCache, Knowledge
from fairlead.estimate.query import Query
from fairlead.expect.files import (
    NO_KNOWLEDGE,
    predict_expectations,
    training_expectations,
    with_stated_memory,
)
from fairlead.manifest.types.kubernetes import Pod
from fairlead.modelprofiles.analysed import file_parts
from fairlead.modelprofiles.convert import profile_set
from fairlead.modelprofiles.types import FilePart, ModelProfile
from fairlead.request import Expectation, Request
from fairlead.training.features import job_of_features
from fairlead.training.setup import parse_setup
from fairlead.units import Bytes
from fairlead.workload import Profile

_SHORTEST: Final = 8
"""The fewest characters of a digest that name a model."""
_LONGEST: Final = 253
"""The most characters of a name: the limit of a profile."""
_ENDINGS: Final = (".onnx", ".tflite")
_IMPORT_HINT: Final = "fairlead profiles import --model FILE, or fairlead calibrate --cluster"
_LIST_HINT: Final = "kubectl get modelprofiles"
"""The command that lists the models. An error appears in a pod's condition and names no model itself:
profiles belong to the whole cluster, and a user who may read the pod may not be allowed to list them."""

_NOT_HERE: Final = f"{UNKNOWN}: the model was observed in use, but not here; import its file"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that profiles describe."""

    digest: str
    names: frozenset[str]
    precision: str
    features: Features | None = None
    """Its work; None: the model was only observed in use."""
    file: FilePart | None = None
    """What its file says beyond its work; None where the file was not imported."""


@dataclass(frozen=True, slots=True)
class KnownModels:
    """All models that a cluster knows, with their measurements."""

    catalog: Catalog
    known: Mapping[str, KnownModel] = field(default_factory=dict)
    """By digest."""
    seen: tuple[ObservedUse, ...] = ()
    knowledge: Knowledge = NO_KNOWLEDGE
    fits: FitCache = field(default_factory=FitCache)
    """Fits that the next set of profiles can reuse."""
    _expected: dict[tuple[str, str, str, tuple[str, ...]], dict[str, Expectation]] = field(
        default_factory=dict
    )
    """Estimates by digest, precision, training and accelerators, as a cache."""

    @classmethod
    def of(
        cls, profiles: Iterable[ModelProfile], catalog: Catalog, before: "KnownModels | None" = None
    ) -> "KnownModels":
        """Read the profiles of a cluster; fits of `before` that still hold are reused."""
        listed = tuple(profiles)
        profiles_read = profile_set(listed)
        by_file = file_parts(listed)
        known: dict[str, KnownModel] = {}
        for seen in profiles_read.seen:
            _add(known, KnownModel(seen.digest, frozenset({seen.model}), seen.setup.precision))
        for calibration in profiles_read.calibrations:
            for trial in calibration.trials:
                digest, names = trial.features.digest, frozenset({trial.model})
                file = by_file.get(digest)
                precision = file.precision if file else calibration.setup.precision
                _add(known, KnownModel(digest, names, precision, trial.features, file))
        fits = before.fits if before else FitCache()
        learnt = Knowledge.of(profiles_read.calibrations, catalog, profiles_read.seen, fits)
        return cls(catalog, known, profiles_read.seen, learnt, fits)

    def with_expectations(
        self, where: str, pod: Pod, request: Request, accelerators: Iterable[str]
    ) -> Request:
        """Return a request with the estimates for the model that its pod names, if it names one."""
        annotations = pod.metadata.annotations
        name, precision = annotations.get(keys.MODEL, "").strip(), annotations.get(keys.PRECISION, "").strip()
        if not name:
            return request
        model = self.find(f"{where}: metadata.annotations[{keys.MODEL}]", name, precision)
        training = annotations.get(keys.TRAINING, "").strip()
        key = (model.digest, precision, training, tuple(accelerators))
        if key not in self._expected:
            self._expected[key] = (
                self._training(where, model, precision, training, key[3])
                if training
                else self.expectations(model, precision, key[3])
            )
        return replace(request, estimates=with_stated_memory(self._expected[key], request.estimates))

    def find(self, where: str, name: str, precision: str) -> KnownModel:
        """Return the one model that a name stands for; an error names no other model."""
        if len(name) > _LONGEST:
            raise ManifestError(f"{where}: a name of {len(name)} characters", _IMPORT_HINT)
        named = [model for model in self.known.values() if _is_named(model, name)]
        matches = [model for model in named if model.precision == precision] or named
        if len(matches) == 1:
            return matches[0]
        if not matches:
            hint = f"list the known models: {_LIST_HINT}. Or import it: {_IMPORT_HINT}"
            raise ManifestError(f"{where}: the cluster knows no model {name!r}", hint)
        raise ManifestError(
            f"{where}: {name!r} may be any of {len(matches)} models",
            f"add the annotation {keys.PRECISION}, or name it by its digest: {_LIST_HINT} -o yaml",
        )

    def expectations(
        self, model: KnownModel, precision: str, accelerators: Iterable[str]
    ) -> dict[str, Expectation]:
        """Return the estimates for a model on each of these accelerators."""
        if model.features is None:
            return self._observed_expectations(model, frozenset(accelerators))
        return predict_expectations(model_query(model, precision), accelerators, self.catalog, self.knowledge)

    def _training(
        self, where: str, model: KnownModel, precision: str, training: str, accelerators: Iterable[str]
    ) -> dict[str, Expectation]:
        """Return the estimates of a model's training, from its work by kind: a profile holds no graph."""
        place = f"{where}: metadata.annotations[{keys.TRAINING}]"
        if model.features is None:
            raise ManifestError(f"{place}: of {min(model.names)!r} only its use is known", _IMPORT_HINT)
        try:
            setup = parse_setup(training, precision)
        except SettingsError as error:
            raise ManifestError(f"{place}: {error}", error.hint) from None
        query = model_query(model, precision if precision in PRECISIONS else "")
        job = job_of_features(query.profile, model.features, setup)
        return training_expectations(job, accelerators, self.catalog, self.knowledge)

    def _observed_expectations(
        self, model: KnownModel, accelerators: frozenset[str]
    ) -> dict[str, Expectation]:
        """Return the observations in use, of several that with the most runs; elsewhere it is not known."""
        observations = [use for use in self.seen if use.digest == model.digest]
        observations.sort(key=lambda use: use.latency.count if use.latency else 0)
        elsewhere = dict.fromkeys(accelerators, Expectation(unknown=_NOT_HERE))
        return elsewhere | {
            observed.setup.device: _observed_expectation(observed)
            for observed in observations
            if observed.setup.device in accelerators
        }


def _is_named(model: KnownModel, name: str) -> bool:
    """Return whether a name is a model's: whole, without folder or ending, or the start of its digest."""
    if len(name) >= _SHORTEST and model.digest.startswith(name.lower()):
        return True
    return name in model.names or _bare_name(name) in map(_bare_name, model.names)


def _bare_name(name: str) -> str:
    last = basename(name).lower()
    return next((last.removesuffix(ending) for ending in _ENDINGS if last.endswith(ending)), last)


def _add(known: dict[str, KnownModel], model: KnownModel) -> None:
    """Add a model; files of different names may be the same work."""
    before = known.get(model.digest)
    names = before.names | model.names if before else model.names
    known[model.digest] = replace(model, names=names)


def model_query(model: KnownModel, precision: str) -> Query:
    """Return the query of a model whose work is known."""
    assert model.features is not None, "a query needs the work of the model"
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
        scope=file.scope,
    )
    return Query(profile, model.features, precision or None, max(1, model.features.batch), exact=file.exact)


def _observed_expectation(observed: ObservedUse) -> Expectation:
    if observed.latency is None:
        return Expectation(memory=observed.peak_bytes)
    joules = None if observed.watts is None else observed.watts * observed.latency.median
    return Expectation(observed.latency.p90, joules, observed.peak_bytes)
