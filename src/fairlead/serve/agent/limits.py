"""The MPS daemons of limited containers: there is one while a container or a claim holds its share.

The limiter keeps them alive. Here is decided which must exist, from what the kubelet reports as held: so the
end of a container, and a restart of the agent, of the limiter or of the node, need no records of their own.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from fairlead.enforcement.client import LimiterClient
from fairlead.enforcement.request import Limit
from fairlead.errors import AllocationRefusedError, FairleadError, LimiterError
from fairlead.keys import LIMITER
from fairlead.offer import Form, Holding
from fairlead.publish.parts import unit_of
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker
from fairlead.settings.publishing import PublishConfig
from fairlead.warden.rules import mps_identity

_PERIOD: Final = 2.0
"""Seconds between two comparisons of what is held with the daemons."""
_NO_LIMITER: Final = "this node runs no limiter"
_HINT: Final = f"install the chart with limiter.enabled=true, or remove the annotation {LIMITER}"

Resolve = Callable[[Holding], Awaitable[Limit | None]]
"""Reads from the API server how the holder of a share is limited; None: it is not."""


def identity_of(holding: Holding) -> str:
    """Return the name of the daemon for a share: the claim's uid, or a digest of the units."""
    if holding.form is Form.CLAIM:
        return mps_identity(holding.holder.container)
    units = ",".join(f"{first}-{last}" for first, last in holding.units)
    text = f"{holding.accelerator} {unit_of(holding)} {units}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def shares_by_identity(held: Iterable[Holding]) -> dict[str, Holding]:
    """Return one holding for each share that could be limited, by the name of its daemon."""
    shares = [each for each in held if each.mebibytes and each.form is not Form.WHOLE]
    return {identity: each for each in shares if (identity := identity_of(each))}


class ShareLimits:
    """Starts and stops the daemons of this node's shares."""

    def __init__(
        self,
        config: PublishConfig,
        tracker: PodResourcesTracker,
        say: Callable[[str], None],
        period: float = _PERIOD,
    ) -> None:
        self._client = LimiterClient(config.limiter) if config.limiter else None
        self._tracker = tracker
        self._say = say
        self._period = period
        self._limits: dict[str, Limit | None] = {}
        """By the name of a share's daemon, its limit; None: the share is not limited."""
        self._lock = asyncio.Lock()
        self._compared = False
        """Whether the daemons were compared since the shares changed."""
        self._last_error = ""

    async def start(self, limit: Limit, *, renew: bool) -> None:
        """Have a daemon before a container starts; AllocationRefusedError where that fails.

        `renew` replaces a living daemon of another limit: its share has a new container.
        """
        if self._client is None:
            raise AllocationRefusedError(_NO_LIMITER, _HINT)
        self._limits[limit.identity] = limit  # before the first wait: a comparison may begin meanwhile
        async with self._lock:
            try:
                known = {} if renew else await asyncio.to_thread(self._client.alive)
                if not known.get(limit.identity):
                    await asyncio.to_thread(self._client.start, limit)
            except LimiterError as error:
                self._limits[limit.identity] = None
                self._compared = False
                raise AllocationRefusedError(str(error), error.hint) from None

    async def release(self, identity: str) -> None:
        """End the daemon of a share that is given back, or has a container now that is not limited."""
        if self._client is None:
            return
        limited, self._limits[identity] = self._limits.get(identity) is not None, None
        if not limited:
            return
        self._compared = False
        async with self._lock:
            try:
                await asyncio.to_thread(self._client.stop, identity)
            except LimiterError as error:  # the next comparison ends it
                self._report(str(error))

    async def run(self, resolve: Resolve) -> None:
        """Compare periodically, for as long as the task lives."""
        while self._client is not None:
            try:
                if self._tracker.synced:
                    await self._compare(self._client, resolve)
            except Exception as error:  # noqa: BLE001 - a fault must not leave every share without a daemon
                self._report(f"a fault of this program: {error!r}")
            await asyncio.sleep(self._period)

    async def _compare(self, client: LimiterClient, resolve: Resolve) -> None:
        await self._read_limits(resolve)
        if self._compared and not any(self._limits.values()):
            return
        try:
            async with self._lock:
                await self._correct(client)
        except LimiterError as error:
            self._report(str(error))
        else:
            self._last_error = ""

    async def _read_limits(self, resolve: Resolve) -> None:
        """Read the limit of each share that is held and not known, and forget the others."""
        held = shares_by_identity(self._tracker.ledger)
        for identity in self._limits.keys() - held.keys():
            self._compared = self._compared and self._limits[identity] is None
            del self._limits[identity]
        for identity, holding in held.items():
            if identity in self._limits or not holding.holder.name:  # of one just allocated it is known soon
                continue
            try:
                limit = await resolve(holding)
            except FairleadError as error:  # read again later; until then its daemon is left alone
                self._report(str(error))
                continue
            self._compared = self._compared and limit is None
            self._limits.setdefault(identity, limit)

    async def _correct(self, client: LimiterClient) -> None:
        """Start the daemons that are missing, and stop those that no container has."""
        alive = await asyncio.to_thread(client.alive)
        held = shares_by_identity(self._tracker.ledger)
        for identity in alive:
            if identity not in held or (identity in self._limits and self._limits[identity] is None):
                await asyncio.to_thread(client.stop, identity)
        for identity in held:
            limit = self._limits.get(identity)
            if limit is not None and not alive.get(identity):
                await asyncio.to_thread(client.start, limit)
        self._compared = True

    def _report(self, error: str) -> None:
        if error != self._last_error:
            self._say(f"limits: {error}")
        self._last_error = error
