"""Analyse the models of pending pods of a cluster that ask for it, and name the models on the pods.

A pod asks by the annotation `fairlead.dev/analyze: auto`. Annotations of a pending pod may change without a
restart. A scheduler may be faster than the analysis; where the pod has a scheduling gate of the same name,
schedulers wait, and the gate goes away with the answer, whatever it is. Only what the cluster's users cannot
misuse is read: ConfigMaps of the pod's namespace, and the folders that the operator of this program named;
never a hostPath.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from fairlead import keys
from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import CONFIG_MAPS, Kind
from fairlead.cluster.objects import ConfigMap
from fairlead.cluster.watch.informer import Informer
from fairlead.errors import AccessError, ClusterError, ConflictError, ManifestError, NotFoundError
from fairlead.expect.submitted.analyse import SearchStatus, WorkloadModels, analyse_pod
from fairlead.expect.submitted.contents import Key, ReadableContents, wanted_config_maps
from fairlead.expect.submitted.find import ModelSearch, TriedPath
from fairlead.expect.submitted.workloads import AUTO
from fairlead.manifest.types.program import ProgramPod
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.modelprofiles.store import store

PENDING_PODS: Final = Kind("", "v1", "pods", True, ProgramPod, "Pod")
UNBOUND: Final = "spec.nodeName="
"""The field selector of the pods that no scheduler has placed yet."""
_MOST_CONFIG_MAPS: Final = 32
"""The most ConfigMaps of one pod that are read."""
_RETRY: Final = 60.0
"""Seconds before a pod without a model is searched again: its ConfigMap may come later."""
_MOST_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class PodAnalyser:
    """Analyses the models of pods that ask for it."""

    cluster: ClusterClient
    roots: Mapping[str, str]
    """Where the content of a volume lies on this machine, by `namespace/claim`."""
    node: str
    """The node that signs the profiles."""
    now: Callable[[], str]
    """The time for a profile."""
    say: Callable[[str], None]
    random: Random = field(default_factory=Random)
    _said: dict[str, str] = field(default_factory=dict)
    """By uid, the last line about a pod: the same line is not repeated."""

    async def analyse(self, pod: ProgramPod) -> WorkloadModels | None:
        """Store the profile of a pod's model and name it on the pod; None where the pod does not ask."""
        if not asks(pod):
            return None
        where = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        result = await self._search(where, pod)
        if result.models:
            profiles = [analysed_profile(each.profile, self.now(), self.node) for each in result.models]
            await store(self.cluster, profiles, self.random)
        await self._answer(pod, result)
        self._say_once(pod.metadata.uid, result)
        return result

    async def _search(self, where: str, pod: ProgramPod) -> WorkloadModels:
        if model := pod.metadata.annotations.get(keys.MODEL, ""):
            return WorkloadModels(where, SearchStatus.NAMED, model)
        config_maps = await read_config_maps(self.cluster, wanted_config_maps([pod])[:_MOST_CONFIG_MAPS])
        contents = ReadableContents(config_maps, self.roots, own_pods=False)
        return await asyncio.to_thread(_search, where, pod, contents)

    async def _answer(self, pod: ProgramPod, result: WorkloadModels) -> None:
        """Name the model on the pod and remove its gate, in one write: no scheduler comes between."""
        meta, patch = pod.metadata, _patch(pod, result)
        if patch:
            # With its uid in the patch, a new pod of this name stays as it is.
            whole = {**patch, "metadata": {"uid": meta.uid, **patch.get("metadata", {})}}
            with suppress(NotFoundError, ConflictError):
                await self.cluster.patch(PENDING_PODS, meta.name, whole, meta.namespace)

    def _say_once(self, uid: str, result: WorkloadModels) -> None:
        tried = "".join(f"; {each.path or each.container}: {each.reason}" for each in result.tried)
        line = f"{result.where}: {result.sentence()}{'' if result.is_settled else tried}"
        if self._said.get(uid) != line:
            if len(self._said) >= _MOST_REMEMBERED:
                self._said.clear()
            self._said[uid] = line
            self.say(line)


def asks(pod: ProgramPod) -> bool:
    """Return whether a pod asks for the analysis, and can still be changed by it."""
    meta = pod.metadata
    return (
        meta.annotations.get(keys.ANALYZE, "").strip() == AUTO
        and (not meta.annotations.get(keys.MODEL) or _is_gated(pod))
        and not pod.spec.node_name
        and not meta.deletion_timestamp
    )


def _is_gated(pod: ProgramPod) -> bool:
    return any(gate.name == keys.ANALYZE for gate in pod.spec.scheduling_gates)


def _patch(pod: ProgramPod, result: WorkloadModels) -> dict[str, Any]:
    """Return what changes on a pod by the result of its search."""
    patch: dict[str, Any] = {}
    if result.status is SearchStatus.FOUND:
        patch["metadata"] = {"annotations": {keys.MODEL: result.model}}
    if _is_gated(pod):
        others = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != keys.ANALYZE]
        patch["spec"] = {"schedulingGates": others}
    return patch


async def read_config_maps(cluster: ClusterClient, names: list[Key]) -> dict[Key, ConfigMap]:
    """Return the ConfigMaps that exist and may be read."""
    config_maps: dict[Key, ConfigMap] = {}
    for namespace, name in names:
        with suppress(NotFoundError, AccessError):
            config_maps[namespace, name] = await cluster.get(CONFIG_MAPS, name, namespace)
    return config_maps


async def analyse_listed(analyser: PodAnalyser, namespace: str | None) -> list[WorkloadModels]:
    """Analyse the pending pods of a cluster once."""
    pods = (await analyser.cluster.list(PENDING_PODS, namespace, fields=UNBOUND)).items
    results = [await analyser.analyse(pod) for pod in pods]
    return [each for each in results if each is not None]


async def analyse_watched(analyser: PodAnalyser, namespace: str | None, stop: asyncio.Event) -> None:
    """Analyse pending pods as they come, until the event is set; failed requests are tried again."""
    changed = asyncio.Event()
    clock = asyncio.get_running_loop().time
    next_search: dict[str, float] = {}
    async with Informer(analyser.cluster, PENDING_PODS, namespace, fields=UNBOUND) as pods:
        pods.subscribe(lambda _: changed.set())
        while not stop.is_set():
            changed.clear()
            asking = {pod.metadata.uid: pod for pod in pods.objects.values() if asks(pod)}
            next_search = {uid: at for uid, at in next_search.items() if uid in asking}
            for uid, pod in asking.items():
                if next_search.get(uid, 0.0) > clock():
                    continue
                next_search[uid] = clock() + _RETRY
                try:
                    await analyser.analyse(pod)
                except ClusterError as error:
                    analyser.say(f"pod {pod.metadata.namespace}/{pod.metadata.name}: {error}")
            await _first_of(changed, stop)


async def _first_of(*events: asyncio.Event) -> None:
    """Wait for one of the events, or for the time after which pods are searched again."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=_RETRY, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _search(where: str, pod: ProgramPod, contents: ReadableContents) -> WorkloadModels:
    with tempfile.TemporaryDirectory(prefix="fairlead-") as scratch:
        try:
            return analyse_pod(where, pod, ModelSearch(contents, scratch), [])
        except (ManifestError, OSError) as error:
            return WorkloadModels(where, SearchStatus.MISSING, tried=(TriedPath("", "", str(error)),))
