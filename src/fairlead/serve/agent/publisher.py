"""The part of the agent that publishes: it runs in a thread of its own, beside the part that scans.

A GPU that hangs a measurement must not block the kubelet's calls, and an unavailable API server must not
block the metrics page.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.api import ClusterClient
from fairlead.errors import FairleadError
from fairlead.host import Host
from fairlead.inventory import Inventory
from fairlead.metrics import PublishStatus
from fairlead.offer import Holding
from fairlead.serve.agent.allocator import Allocator
from fairlead.serve.agent.claim_reader import ClaimReader
from fairlead.serve.agent.limits import ShareLimits
from fairlead.serve.agent.node_reconciler import NodeReconciler, PublishedFacts
from fairlead.serve.agent.placement_lookup import PlacementLookup
from fairlead.serve.agent.plugins import PluginSet
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker
from fairlead.settings.publishing import PublishConfig
from fairlead.units import Seconds

_DEBOUNCE: Final = Seconds(0.2)
"""Changes come in bursts: the delay after which they are published together."""
_BACK_OFF: Final = (Seconds(1.0), Seconds(60.0))
_STOP_TIMEOUT: Final = Seconds(8.0)
"""Seconds that a stop may take; the pod's grace period is ten."""


@dataclass(frozen=True, slots=True)
class PublisherEnvironment:
    """What a publisher needs: its configuration, the API server and the machine."""

    config: PublishConfig
    connect: Callable[[], AbstractAsyncContextManager[ClusterClient]]
    """Connects to the API server."""
    read_host: Callable[[], Host]
    """Returns the machine as it is now."""


class PublisherThread:
    """Publishes the latest inventory, until it is stopped."""

    def __init__(self, environment: PublisherEnvironment, say: Callable[[str], None]) -> None:
        self._environment = environment
        self._say = say
        self._inventory: Inventory | None = None
        self._withheld: tuple[Holding, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._started = threading.Event()
        self._publisher: Publisher | None = None
        self.failed = ""
        """Why publishing ended without a call of `stop`; empty while it runs."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._started.wait()

    def offer(self, inventory: Inventory) -> None:
        """Publish the inventory of a scan; safe from any thread."""
        self._inventory = inventory
        self._wake()

    def withhold(self, withheld: tuple[Holding, ...]) -> None:
        """Offer less by what processes outside pods use; safe from any thread."""
        if withheld != self._withheld:
            self._withheld = withheld
            self._wake()

    def problem(self) -> str:
        """Return why the inventory is not fully published yet; empty when it is."""
        if self.failed:
            return self.failed
        return self._publisher.problem() if self._publisher else "not started yet"

    def snapshot(self) -> PublishStatus:
        """Return the publisher's counters."""
        return self._publisher.snapshot() if self._publisher else PublishStatus()

    def stop(self) -> None:
        """Stop, and leave labels and slices as they are: the next agent of this node takes them over."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_STOP_TIMEOUT)

    def _wake(self) -> None:
        if self._loop is not None and self._due is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._due.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except FairleadError as error:
            self.failed = str(error)
            self._say(f"publishing ended: {error}{f'; {error.hint}' if error.hint else ''}")
        except Exception as error:
            self.failed = f"a fault of this program: {error!r}"
            raise
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._due = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.create_task(self._publish())
        self._started.set()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _publish(self) -> None:
        assert self._due is not None
        async with AsyncExitStack() as stack:
            self._publisher = Publisher(self._environment, self._due, self._say)
            await self._publisher.open(stack)
            wait = _BACK_OFF[0]
            while True:
                await self._due.wait()
                await asyncio.sleep(_DEBOUNCE)
                self._due.clear()
                problems = await self._publish_once(self._publisher)
                for problem in problems:
                    self._say(f"cannot publish: {problem}; trying again in about {wait:.0f} s")
                if problems:
                    self._retry_later(wait)
                wait = Seconds(min(2 * wait, _BACK_OFF[1])) if problems else _BACK_OFF[0]

    async def _publish_once(self, publisher: "Publisher") -> list[str]:
        return await publisher.publish(self._inventory, self._withheld) if self._inventory else []

    def _retry_later(self, wait: Seconds) -> None:
        """Retry with jitter, so that the nodes of a cluster do not retry at once."""
        assert self._loop is not None
        self._loop.call_later(wait * random.uniform(0.8, 1.2), self._wake)  # noqa: S311 - spreads load


class Publisher:
    """Publishes to the kubelet and the API server, in the order in which it must happen."""

    def __init__(
        self, environment: PublisherEnvironment, due: asyncio.Event, say: Callable[[str], None]
    ) -> None:
        config = environment.config
        self._config = config
        self._environment = environment
        self._tracker = PodResourcesTracker(config, due, say)
        self._lookup = PlacementLookup(config, due, say)
        self._limits = ShareLimits(config, self._tracker, say)
        self._allocator = Allocator(config, self._tracker, self._lookup, environment.read_host, self._limits)
        self._plugins = PluginSet(config, self._allocator, due, say)
        self._reconciler: NodeReconciler | None = None
        self._due = due
        self._say = say

    async def open(self, stack: AsyncExitStack) -> None:
        """Connect to the API server and read pod resources, before anything is allocated."""
        stack.push_async_callback(self._allocator.remove_cdi_spec)
        stack.push_async_callback(self._plugins.close)
        cluster = await stack.enter_async_context(self._environment.connect())
        self._reconciler = NodeReconciler(self._config, cluster, self._due, self._say)
        self._reconciler.open(stack)
        self._allocator.claims = ClaimReader(cluster, hami=self._config.limit_hami)
        stack.push_async_callback(self._reconciler.withdraw)
        stack.callback(asyncio.create_task(self._lookup.probe_access(cluster)).cancel)
        await stack.enter_async_context(self._tracker.running())
        stack.callback(asyncio.create_task(self._limits.run(self._allocator.limit_of_share)).cancel)

    async def publish(self, inventory: Inventory, withheld: tuple[Holding, ...] = ()) -> list[str]:
        """Publish an inventory, less what is withheld, and return the errors.

        The kubelet and the API server are updated independently: neither waits for the other.
        """
        problems = []
        for update in (self._update_kubelet, self._update_cluster):
            try:
                await update(inventory, withheld)
            except (FairleadError, OSError) as error:
                problems.append(str(error))
        return problems

    async def _update_kubelet(self, inventory: Inventory, withheld: tuple[Holding, ...]) -> None:
        if self._tracker.synced and self._config.forms:
            await self._tracker.on_inventory(inventory)
            await self._allocator.write_cdi_spec(inventory)
            await self._plugins.reconcile(
                inventory,
                (*self._tracker.ledger, *withheld),
                combine_forms=self._tracker.combine_forms,
                kubelet=self._kubelet(),
            )

    def _kubelet(self) -> str:
        """Return the kubelet's version from its node; empty while it is unknown."""
        return self._reconciler.kubelet if self._reconciler else ""

    async def _update_cluster(self, inventory: Inventory, withheld: tuple[Holding, ...]) -> None:
        if self._reconciler is not None:
            reported, units = (
                self._tracker.reported(),
                self._allocator.by_units() if self._tracker.synced else None,
            )
            held = (*self._tracker.ledger, *withheld)
            facts = PublishedFacts(held, reported, units, hands_over=self._lookup.enabled)
            await self._reconciler.reconcile(inventory, facts, claims=self._plugins.claims_registered)

    def problem(self) -> str:
        """Return why the inventory is not fully published yet; empty when it is."""
        problems = [self._tracker.problem(), self._plugins.problem()] if self._config.forms else []
        problems += [self._reconciler.problem()] if self._reconciler else []
        return "; ".join(filter(None, problems))

    def snapshot(self) -> PublishStatus:
        """Return the publisher's counters."""
        written = self._reconciler.written if self._reconciler else {}
        failed = self._reconciler.failed if self._reconciler else {}
        return PublishStatus(
            writes=dict(written),
            errors=dict(failed),
            registered=self._plugins.registered(),
            holdings=self._tracker.reported(),
            refused=dict(self._allocator.refused),
            pod_resources_age=self._tracker.age(),
        )
