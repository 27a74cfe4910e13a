"""Analyse the models that were found for workloads, and say for each what was found or why nothing was."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead import keys
from fairlead.analyze import analyze, parse_shapes
from fairlead.compat import StrEnum
from fairlead.errors import AnalysisError, SettingsError
from fairlead.expect.submitted.find import FoundModel, ModelSearch, TriedPath
from fairlead.expect.submitted.workloads import SubmittedWorkload
from fairlead.manifest.types.program import ProgramPod
from fairlead.workload import Profile


class SearchStatus(StrEnum):
    """How the search for a workload's model ended."""

    FOUND = "found"
    NAMED = "named"
    """The workload already names its model."""
    SEVERAL = "several"
    """Several models were found, and the annotation can name one only."""
    MISSING = "missing"
    SKIPPED = "skipped"
    """The workload requests no accelerator."""


@dataclass(frozen=True, slots=True)
class AnalysedModel:
    """A model file and its profile."""

    found: FoundModel
    profile: Profile

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "container": self.found.container,
            "path": self.found.path,
            "source": self.found.source,
            "name": self.profile.name,
            "digest": self.profile.digest,
        }


@dataclass(frozen=True, slots=True)
class WorkloadModels:
    """What was found for one workload."""

    where: str
    status: SearchStatus
    model: str = ""
    """The digest for the annotation, or the name that the workload already has."""
    models: tuple[AnalysedModel, ...] = ()
    tried: tuple[TriedPath, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for the workload."""
        return self.status not in (SearchStatus.SEVERAL, SearchStatus.MISSING)

    def sentence(self) -> str:
        """Return the result in words."""
        names = sorted({each.profile.name for each in self.models})
        match self.status:
            case SearchStatus.FOUND:
                place = self.models[0].found
                return f"model {names[0]} ({self.model}) at {place.path}, {place.source}"
            case SearchStatus.NAMED:
                return f"already names the model {self.model}"
            case SearchStatus.SEVERAL:
                return f"runs several models ({', '.join(names)}): write {keys.MODEL} yourself"
            case SearchStatus.SKIPPED:
                return f"requests no accelerator; with the annotation {keys.ANALYZE}: auto it is searched"
        return "no model found"

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "workload": self.where,
            "status": self.status.value,
            "model": self.model or None,
            "models": [each.to_json() for each in self.models],
            "tried": [each.to_json() for each in self.tried],
            "sentence": self.sentence(),
        }


def analyse_workload(workload: SubmittedWorkload, search: ModelSearch, shapes: list[str]) -> WorkloadModels:
    """Return the models of a workload of a manifest."""
    if workload.model:
        return WorkloadModels(workload.where, SearchStatus.NAMED, workload.model)
    if not workload.wants_analysis:
        return WorkloadModels(workload.where, SearchStatus.SKIPPED)
    return analyse_pod(workload.where, workload.pod, search, shapes)


def analyse_pod(
    where: str,
    pod: ProgramPod,
    search: ModelSearch,
    shapes: list[str],
    analyse: Callable[..., Profile] = analyze,
) -> WorkloadModels:
    """Return the models of a pod; files that cannot be analysed are among the tried ones."""
    found = search.search(pod)
    own = pod.metadata.annotations.get(keys.SHAPES, "")
    stated = [*shapes, *(part.strip() for part in own.split(";") if part.strip())]
    models: list[AnalysedModel] = []
    tried = list(found.tried)
    for each in found.models:
        try:
            models.append(AnalysedModel(each, analyse(each.file, parse_shapes(stated))))
        except (AnalysisError, SettingsError) as error:
            hint = f" ({error.hint})" if error.hint else ""
            reason = f"{each.source}: {str(error).removeprefix(f'{each.file}: ')}{hint}"
            tried.append(TriedPath(each.container, each.path, reason))
    digests = {each.profile.digest for each in models}
    if not digests:
        return WorkloadModels(where, SearchStatus.MISSING, "", (), tuple(tried))
    status = SearchStatus.FOUND if len(digests) == 1 else SearchStatus.SEVERAL
    model = models[0].profile.digest if len(digests) == 1 else ""
    return WorkloadModels(where, status, model, tuple(models), tuple(tried))
