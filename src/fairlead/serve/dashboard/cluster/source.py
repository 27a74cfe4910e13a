"""ClusterSource: watches a cluster, and shows it on the board; what does not answer is stale, and heals."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from fairlead.cache import types as cached
from fairlead.cache.use_index import agent_targets, device_index
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Raw
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.compat.aio import timeout
from fairlead.dashboard.answers import (
    CancelAction,
    DrainAction,
    PipelineAnswer,
    RightsizeAction,
    SourceInfo,
    WhyAnswer,
)
from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import ApiAnswer
from fairlead.dashboard.source import DashboardSource
from fairlead.dashboard.sources.cluster.custom_rows import augmentation_row
from fairlead.dashboard.sources.cluster.tables import ClusterTables
from fairlead.errors import AccessError, ClusterError, FairleadError
from fairlead.keys import DOMAIN
from fairlead.modelprofiles.types import ModelProfile
from fairlead.serve.dashboard.cluster.actions import act, config_for
from fairlead.serve.dashboard.cluster.heat import open_heat
from fairlead.serve.dashboard.cluster.models import known_models
from fairlead.serve.dashboard.cluster.pipelines import PipelineReader
from fairlead.serve.dashboard.cluster.proposals import ProposalReader
from fairlead.serve.dashboard.cluster.why import explain_pod, find_pod
from fairlead.serve.follow import Follower
from fairlead.usage.source import SourceName, UsageSettings, open_source
from fairlead.use import UseFault, UseReport

APART: Final = 0.25
"""Seconds between two looks at what changed; more where one look takes long."""
_PROBE: Final = 2.0
"""Seconds between two requests that show whether the API server answers, and for one of them."""
_PIPELINES: Final = 5.0
PIPELINES: Final = Kind.of(DOMAIN, "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
AUGMENTATIONS: Final = Kind.of(DOMAIN, "v1alpha1", "augmentations", namespaced=True, name="Augmentation")
_OPTIONAL: Final[tuple[Kind[Any], ...]] = (
    *cached.RULES,
    cached.SLICES,
    cached.CLAIMS,
    *cached.STORAGE,
    cached.QUOTAS,
    cached.BUDGETS,
    PIPELINES,
    AUGMENTATIONS,
)
COMMANDS: Final = {
    "nodes": "fairlead nodes",
    "devices": "fairlead devices",
    "workloads": "kubectl get pods -A",
    "pipelines": f"kubectl get pipelines.{DOMAIN} -A",
    "augmentations": "fairlead augment list -A",
    "proposals": "fairlead rightsize -A --prometheus URL",
    "models": "fairlead profiles list --cluster",
}
_API_SERVER: Final = "api-server"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What is read beside the API server."""

    usage: UsageSettings = field(default_factory=UsageSettings)
    agents: str = "fairlead-system"
    """The namespace of the agents."""
    lease: str | None = None
    """The namespace of the scheduler's Lease; None: any."""
    with_tokens: bool = False
    """Whether viewers have tokens of the cluster, with which their actions are done; else with our own
    credentials, which are theirs."""


class ClusterSource(DashboardSource):
    """A live cluster."""

    def __init__(
        self,
        config: ClusterConfig,
        catalog: Catalog,
        settings: ClusterSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        name = config.context or config.server
        self._settings = settings or ClusterSettings()
        commands = {
            table: text
            for table, text in COMMANDS.items()
            if self._settings.usage.url or table != "proposals"
        }
        super().__init__(Board(commands, clock), SourceInfo(kind="cluster", name=name))
        self.config = config
        self._catalog = catalog
        self.tables = ClusterTables(self.board, catalog)
        self._custom: dict[str, dict[Key, Raw]] = {PIPELINES.name: {}, AUGMENTATIONS.name: {}}
        self._dirty = False
        self._synced = False
        self._client: Client | None = None
        self._pipelines = PipelineReader()
        self._proposals = ProposalReader()
        self._follower: Follower | None = None
        self._explaining = asyncio.Semaphore(4)

    @property
    def ready(self) -> bool:
        """Whether the cluster has been listed."""
        return self._synced

    @property
    def client(self) -> Client:
        """The connection to the cluster."""
        assert self._client is not None, "the source runs"
        return self._client

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[asyncio.Future[None]]":
        """Watch the cluster while the context lasts."""
        async with Client.connect(self.config, read_timeout=30.0) as self._client:
            task = asyncio.create_task(self._run())
            try:
                yield task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._probe())
            self._follower = Follower(self.client, group, self._on_event)
            for kind in _OPTIONAL:
                await self._follow(self._follower, kind, optional=True)
            for kind in (cached.NODES, cached.PODS):
                await self._follow(self._follower, kind, optional=False)
            self._synced = True
            group.create_task(self._refresh())
            group.create_task(self._read_use())
            group.create_task(self._read_pipelines())
            group.create_task(self._proposals.follow(self, self._settings.usage))
            group.create_task(self._read_models())

    async def _follow(self, follower: Follower, kind: Kind[Any], *, optional: bool) -> None:
        """Watch a kind, once the API server answers; an optional one that may not be read is left out."""
        while True:
            try:
                await follower.start((kind,) if optional else (), () if optional else (kind,))
                return
            except AccessError as error:
                if not optional:
                    raise
                self.board.set_stale(kind.plural, f"{kind.plural} are not shown: {error}", ())
                return
            except ClusterError as error:
                if error.exit_code == 2:
                    raise
                self.board.set_stale(_API_SERVER, str(error), COMMANDS)
                await asyncio.sleep(_PROBE)

    def _on_event(self, change: ObjectChange[Any]) -> None:
        self._dirty = True
        item = change.object
        if not isinstance(item, Raw):
            self.tables.on_event(change)
            return
        known = self._custom[item.kind]
        if change.new is None:
            known.pop(change.key, None)
        else:
            known[change.key] = item

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if self._dirty:
                self._dirty = False
                self.tables.refresh()
                rows = [
                    augmentation_row(item.document()) for item in self._custom[AUGMENTATIONS.name].values()
                ]
                self.board.replace("augmentations", rows)
            await asyncio.sleep(max(APART, 3 * (loop.time() - began)))

    async def _probe(self) -> None:
        """Say since when the API server does not answer: a watch without events looks like one without it."""
        last = self.board.clock()
        while True:
            try:
                async with timeout(_PROBE):
                    await self.client.version()
            except (FairleadError, TimeoutError) as error:
                why = str(error) or f"it did not answer within {_PROBE:g} s"
                self.board.set_stale(_API_SERVER, why, COMMANDS, last)
            else:
                last = self.board.clock()
                self._check_watches()
            await asyncio.sleep(_PROBE)

    def _check_watches(self) -> None:
        """Heal what is watched again: the API server answers, but a watch may still wait for its next try."""
        informers = self._follower.informers if self._follower is not None else {}
        failed = {name: each.last_error for name, each in informers.items() if each.last_error is not None}
        if failed:
            name, error = next(iter(failed.items()))
            self.board.set_stale(_API_SERVER, f"{name} are not followed: {error}", COMMANDS)
        else:
            self.board.heal(_API_SERVER)

    async def _read_use(self) -> None:
        namespace, settings = self._settings.agents, self._settings.usage
        cache = self.tables.cache
        index = partial(device_index, cache, namespace)
        targets = partial(agent_targets, cache, namespace, secure=bool(settings.ca_file))
        if settings.source is SourceName.NONE:
            return
        async with (
            open_source(settings, index, targets) as source,
            open_heat(settings, index, targets) as heat,
        ):
            while True:
                self.show_use(await source.read(self.board.clock()))
                now = self.board.clock()
                for device, values in (await heat.heat()).items():
                    self.tables.on_heat(now, device, values.watts, values.celsius)
                await asyncio.sleep(settings.period)

    def show_use(self, report: UseReport) -> None:
        """Show a report of measured use, and whether its source answers."""
        self.tables.on_use(report)
        self._dirty = True
        name = report.source or "measured use"
        if report.devices or not report.faults:
            self.board.heal(name)
        elif set(report.faults) != {UseFault.NO_SERIES} or self._settings.usage.url:
            self.board.set_stale(name, report.detail, ("devices",))

    async def _read_models(self) -> None:
        """Show the models of profiles, again where these have changed; their fits take a while."""
        before: dict[str, str] = {}
        while True:
            profiles = [item for _, item in self.objects() if isinstance(item, ModelProfile)]
            now = {item.metadata.name: item.metadata.resource_version for item in profiles}
            if now != before:
                before = now
                models, knowledge = await asyncio.to_thread(known_models, profiles, self._catalog)
                self.show_models(models, self._catalog, knowledge)
            await asyncio.sleep(_PIPELINES)

    async def _read_pipelines(self) -> None:
        while True:
            known = {"/".join(key): item for key, item in self._custom[PIPELINES.name].items()}
            try:
                self.board.replace("pipelines", await self._pipelines.read(self.client, known))
                self.board.heal("pipelines")
            except FairleadError as error:
                self.board.set_stale("pipelines", f"pipelines cannot be read: {error}", ("pipelines",))
            await asyncio.sleep(_PIPELINES)

    def namespaces(self) -> Collection[str]:
        """Return every namespace with an object that is shown."""
        custom = {key[0] for objects in self._custom.values() for key in objects}
        return {*super().namespaces(), *custom}

    async def why(self, key: str) -> WhyAnswer | None:
        """Return why a pod is where it is, or waits: by its scheduler, or else decided here."""
        namespace, _, name = key.partition("/")
        async with self._explaining:
            return await explain_pod(self, namespace, name)

    def objects(self) -> list[tuple[Kind[Any], Any]]:
        """Return all objects that are watched, with their kinds."""
        informers = self._follower.informers if self._follower is not None else {}
        kinds = {kind.resource: kind for kind in (*_OPTIONAL, cached.NODES, cached.PODS)}
        watched = [(kinds[name], informer) for name, informer in informers.items()]
        return [(kind, item) for kind, informer in watched for item in informer.objects.values()]

    @property
    def lease_namespace(self) -> str | None:
        """The namespace of the scheduler's Lease; None: any."""
        return self._settings.lease

    @property
    def catalog(self) -> Catalog:
        """The devices that are known."""
        return self._catalog

    async def act(self, action: ApiAnswer, token: str) -> str | None:
        """Do what an action asks, with the credentials of the person."""
        config = config_for(self.config, token) if self._settings.with_tokens else self.config
        cache = self.tables.cache
        if isinstance(action, CancelAction):
            namespace, _, name = action.workload.partition("/")
            pod = find_pod(self.objects(), namespace, name)
            return await act(config, action, [pod]) if pod is not None else None
        if isinstance(action, DrainAction):
            known = cache.node(action.node) is not None
            return await act(config, action, cache.pods_on(action.node)) if known else None
        assert isinstance(action, RightsizeAction), "there are three actions"
        advised = self._proposals.recommendations.get(action.proposal)
        return await act(config, action, (), [advised]) if advised is not None else None

    async def pipeline(self, key: str) -> PipelineAnswer | None:
        """Return a pipeline."""
        return self._pipelines.answers.get(key)
