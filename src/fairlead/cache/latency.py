"""Latency and memory of the models that pods name, estimated from the cluster's ModelProfiles."""

from collections.abc import Iterable

from fairlead import keys
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.expect.profiles import KnownModels
from fairlead.manifest.types.live import LivePod
from fairlead.modelprofiles.types import ModelProfile
from fairlead.request import Request


def names_model(pod: LivePod) -> bool:
    """Say whether a pod names a model, so that estimates for it decide its place."""
    return bool(pod.metadata.annotations.get(keys.MODEL, "").strip())


class LatencyEstimator:
    """Profiles, and the estimates from them: computed when a pod needs them, and once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._profiles: dict[Key, ModelProfile] = {}
        self._models: KnownModels | None = None
        self._stale = True
        """Whether profiles have changed since the models were read."""

    def on_event(self, change: ObjectChange[ModelProfile]) -> bool:
        """Store a change of a profile; say whether its content changed."""
        before = self._profiles.pop(change.key, None)
        if change.new is not None:
            self._profiles[change.key] = change.new
            if before is not None and before.spec == change.new.spec:
                return False
        self._stale = True
        return True

    def with_expectations(
        self, where: str, pod: LivePod, request: Request, accelerators: Iterable[str]
    ) -> Request:
        """Return a request with the estimates for the model that its pod names."""
        if not names_model(pod):
            return request
        if self._models is None or self._stale:
            self._models = KnownModels.of(self._profiles.values(), self._catalog, self._models)
            self._stale = False
        return self._models.with_expectations(where, pod, request, accelerators)
