"""Workloads: the owner of pods, what its containers request of accelerators, and the series of its pods."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from fairlead.cluster.meta import Metadata
from fairlead.compat import StrEnum
from fairlead.errors import ManifestError
from fairlead.keys import KAI_FRACTION
from fairlead.manifest import amounts
from fairlead.manifest.amounts import MIB
from fairlead.series import Series
from fairlead.units import Bytes

_HASH: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""The letters of the names that Kubernetes generates: it leaves out vowels and digits that look like them."""
_POD_NAMES: Final = {
    "Deployment": rf"-{_HASH}{{1,10}}-{_HASH}{{5}}",
    "ReplicaSet": rf"-{_HASH}{{5}}",
    "ReplicationController": rf"-{_HASH}{{5}}",
    "StatefulSet": r"-[0-9]{1,6}",
    "DaemonSet": rf"-{_HASH}{{5}}",
    "Job": rf"(?:-[0-9]{{1,6}})?-{_HASH}{{5}}",
    "CronJob": rf"-[0-9]{{6,12}}(?:-[0-9]{{1,6}})?-{_HASH}{{5}}",
    "Pod": "",
}
"""How the names of a workload's pods continue its own name."""
NO_SERIES: Final = Series()
TEMPLATE_HASH: Final = "pod-template-hash"
_JOB_NAMES: Final = ("batch.kubernetes.io/job-name", "job-name")
_STATEFUL_POD: Final = "statefulset.kubernetes.io/pod-name"
_DAEMON_GENERATION: Final = "pod-template-generation"
ENDING_KINDS: Final = frozenset({"Job", "CronJob"})
"""Kinds with pods that end: between two runs there are no samples."""


class WorkloadKey(NamedTuple):
    """An owner of pods."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.kind else self.name


class RequestForm(StrEnum):
    """How a request is written."""

    RESOURCE = "resource"
    """An extended resource of the container."""
    ANNOTATION = "annotation"
    """An annotation of the pod template."""
    CLAIM = "claim"
    """A ResourceClaim, or a template of it."""
    WHOLE = "whole"
    """A number of whole accelerators."""
    ASSUMED = "assumed"
    """No request is known: an option states it."""


class SizeField(NamedTuple):
    """Where a request stands, and its amount there."""

    form: RequestForm
    key: str = ""
    """The resource or the annotation; empty for a claim."""
    amount: str = ""


@dataclass(frozen=True, slots=True)
class SizedContainer:
    """A container of a workload, or all containers of its pods together, and its request."""

    workload: WorkloadKey
    container: str
    """Empty: the request is the pod's."""
    field: SizeField
    requested: Bytes | None
    """Of each accelerator; None: it is not known, and `note` says why."""
    pods: tuple[str, ...] = ()
    """The names of its pods that exist."""
    uids: tuple[str, ...] = ()
    accelerators: int = 1
    """Accelerators of each pod."""
    device_memory: Bytes | None = None
    """The memory of the accelerators that its pods are on."""
    crashes: int = 0
    """Restarts because an allocation on an accelerator failed."""
    note: str = ""

    @property
    def step(self) -> Bytes:
        """The unit of the request: its bytes by its amount, as they are written now."""
        number = amount_of(self.field)
        return Bytes(max(1, self.requested // number)) if number and self.requested else Bytes(MIB)


def amount_of(field: SizeField) -> int | None:
    """Return the amount of a request as a whole number: of units, or of hundredths; None: it has none."""
    try:
        if field.key == KAI_FRACTION:
            return -(-amounts.fraction(field.key, field.amount) // 10)
        return amounts.whole(field.key, field.amount) if field.key else None
    except ManifestError:
        return None


@dataclass(frozen=True, slots=True)
class PodSeries:
    """The measured memory of one pod, or of one of its containers, on one accelerator."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    """Empty: of the whole pod."""
    device: str = ""
    id: str = ""
    """The only name of the series: the uid of a pod, or what a file says."""
    memory: Series = NO_SERIES
    busy: Series = NO_SERIES


def owner_of(meta: Metadata, cron_jobs: Mapping[tuple[str, str], str]) -> WorkloadKey:
    """Return the workload of a pod; `cron_jobs` has the CronJob of each job, by namespace and name.

    A Deployment's ReplicaSet has its hash at the end of its name, and need not be read.
    """
    namespace = meta.namespace or "default"
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is None:
        return WorkloadKey(namespace, "Pod", meta.name)
    template = meta.labels.get(TEMPLATE_HASH, "")
    if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
        return WorkloadKey(namespace, "Deployment", owner.name.removesuffix(f"-{template}"))
    if owner.kind == "Job" and (cron_job := cron_jobs.get((namespace, owner.name))):
        return WorkloadKey(namespace, "CronJob", cron_job)
    return WorkloadKey(namespace, owner.kind, owner.name)


def owner_by_labels(namespace: str, name: str, labels: Mapping[str, str]) -> WorkloadKey:
    """Return the workload of a pod by the labels that controllers set: a snapshot has no owners."""
    stem = name.rpartition("-")[0]
    template = labels.get(TEMPLATE_HASH, "")
    if template and stem.endswith(f"-{template}"):
        return WorkloadKey(namespace, "Deployment", stem.removesuffix(f"-{template}"))
    if job := next((labels[key] for key in _JOB_NAMES if key in labels), ""):
        return WorkloadKey(namespace, "Job", job)
    if labels.get(_STATEFUL_POD) == name and stem:
        return WorkloadKey(namespace, "StatefulSet", stem)
    if _DAEMON_GENERATION in labels and stem:
        return WorkloadKey(namespace, "DaemonSet", stem)
    return WorkloadKey(namespace, "Pod", name)


def matching_workload(namespace: str, pod: str, workloads: Iterable[WorkloadKey]) -> WorkloadKey | None:
    """Return the workload that a pod which is gone belonged to, by its name; the longest name wins."""
    fits = [key for key in workloads if key.namespace == namespace and _made(pod, key)]
    return max(fits, key=lambda key: len(key.name), default=None)


def _made(pod: str, key: WorkloadKey) -> bool:
    ending = _POD_NAMES.get(key.kind)
    return ending is not None and re.fullmatch(re.escape(key.name) + ending, pod) is not None
