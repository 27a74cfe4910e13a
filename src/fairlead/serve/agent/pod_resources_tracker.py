"""The agent's ledger: read periodically from the kubelet's PodResources API, with claims kept on disk."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fairlead.compat.aio import TIMEOUTS
from fairlead.errors import AllocationRefusedError, KubeletError, NewerFormatError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.inventory import Inventory, Machine
from fairlead.kubelet import podresources
from fairlead.kubelet.claims import KubeletClaim
from fairlead.kubelet.podresources import ContainerClaimDevice, read_pod_resources
from fairlead.offer import Form, Holder, Holding
from fairlead.publish.ledger import (
    GRACE,
    Ledger,
    add_claim,
    admit_all,
    kubelet_holdings,
    observe,
    release_claim,
)
from fairlead.publish.parts import Refusal
from fairlead.settings.publishing import PublishConfig
from fairlead.units import Seconds

_SHORTEST_PAUSE, _LONGEST_PAUSE = Seconds(10.0), Seconds(60.0)
_PAUSE_FACTOR: Final = 500
"""The pause after a read, in multiples of its CPU time: reading must cost a node next to nothing."""
_SETTLE_TIME: Final = Seconds(2.0)
"""Seconds after an allocation by which the PodResources API usually lists it."""


class PodResourcesTracker:
    """Tracks which pods and claims hold which parts of this node's accelerators."""

    def __init__(
        self,
        config: PublishConfig,
        due: asyncio.Event,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = config.pod_resources
        self._file = config.sockets / "claims.json"
        self._due = due
        self._say = say
        self._clock = clock
        self._inventory = Inventory(Machine())
        self._early = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._allocated_at = 0.0
        self._read_at: float | None = None
        self._last_error = ""
        self.ledger = Ledger()

    @property
    def combine_forms(self) -> bool:
        """Whether one accelerator may be offered in several forms: only where pod resources can be read."""
        return self._socket is not None

    @property
    def synced(self) -> bool:
        """Whether the allocations from before this agent's start are known."""
        return self._socket is None or self._read_at is not None

    def problem(self) -> str:
        """Return why nothing can be allocated yet; empty when it can."""
        return "" if self.synced else self._last_error or "the kubelet's pod resources have not been read yet"

    def age(self) -> float | None:
        """Return the seconds since pod resources were read; None where they never were."""
        return None if self._read_at is None else self._clock() - self._read_at

    def reported(self) -> tuple[Holding, ...]:
        """Return the holdings of pod resources and prepared claims, without assumed ones."""
        return (*self.ledger.reported, *self.ledger.claims)

    async def on_inventory(self, inventory: Inventory) -> None:
        """Take over a new inventory.

        Where an accelerator appears, or appears again, its holders are read before it can be allocated.
        """
        before, after = ({acc.id for acc in each.accelerators} for each in (self._inventory, inventory))
        if self._socket is None or before == after:
            self._inventory = inventory
        else:
            began = self._clock()
            self._observe(await read_pod_resources(self._socket), inventory, began)

    def record_allocation(self, requested: Sequence[Holding]) -> None:
        """Record an allocation, all of it or nothing; AllocationRefusedError with the reason."""
        if self._socket is None:
            return  # one form only: the kubelet's own count suffices, and nothing would report the end
        self.ledger = self._admit(requested)
        self._allocated_at = self._clock()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SETTLE_TIME, self._read_early)
        self._due.set()

    def _read_early(self) -> None:
        """Read pod resources early; once more where something was allocated since the timer started.

        A pod of hundreds of containers takes seconds to be admitted: it does not cause a read for each.
        """
        self._early.set()
        rest = self._allocated_at + _SETTLE_TIME - self._clock()
        again = asyncio.get_running_loop().call_later(_SETTLE_TIME, self._read_early) if rest > 0 else None
        self._timer = again

    def record_claim(self, claim: KubeletClaim, requested: Sequence[Holding]) -> None:
        """Record a claim before it is prepared, also on disk; AllocationRefusedError with the reason."""
        self._replace_claims(self._admit(requested), "recorded")

    def release_claim(self, claim: KubeletClaim) -> None:
        """Release a claim; an unknown claim counts as released."""
        ledger = self.ledger
        for holder in (holder_of(claim), Holder(claim.namespace, claim.name)):
            ledger = release_claim(ledger, holder)
        if ledger.claims != self.ledger.claims:
            self._replace_claims(ledger, "released")

    def _replace_claims(self, ledger: Ledger, verb: str) -> None:
        """Replace the ledger and the file of claims, both or neither."""
        before, self.ledger = self.ledger, ledger
        try:
            self._save_claims()
        except OSError as error:
            self.ledger = before
            raise KubeletError(f"{self._file}: {error.strerror}: the claim cannot be {verb}") from error
        self._due.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load the stored claims, then read pod resources periodically as long as the context lasts."""
        for holding in self._load_claims():
            self.ledger = add_claim(self.ledger, holding)
        task = asyncio.create_task(self._read_periodically())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def refresh(self) -> None:
        """Read pod resources now, for a caller that cannot wait for the next periodic read."""
        if self._socket is not None:
            await self._read_once(self._socket)

    def _admit(self, requested: Sequence[Holding]) -> Ledger:
        answer = admit_all(self.ledger, self._inventory, requested, self._clock())
        if isinstance(answer, Refusal):
            raise AllocationRefusedError(answer.reason)
        return answer

    async def _read_periodically(self) -> None:
        while self._socket is not None:
            took = await self._read_once(self._socket)
            if self._read_at is None:
                pause: float = 1.0
            elif self.ledger.assumed:
                pause = GRACE / 2
            else:
                pause = min(
                    max(
                        _PAUSE_FACTOR * took, _SHORTEST_PAUSE if self.ledger.reported else 3 * _SHORTEST_PAUSE
                    ),
                    _LONGEST_PAUSE,
                )
            with suppress(*TIMEOUTS):
                await asyncio.wait_for(self._early.wait(), pause)
            self._early.clear()

    async def _read_once(self, socket: Path) -> float:
        """Read pod resources once, and return the CPU time that it took."""
        began, cpu = self._clock(), time.thread_time()
        try:
            listing = await read_pod_resources(socket)
        except KubeletError as error:
            if str(error) != self._last_error:
                self._say(f"cannot read the kubelet's pod resources: {error}")
            self._last_error = str(error)
            return 0.0
        self._observe(listing, self._inventory, began)
        return time.thread_time() - cpu

    def _observe(self, listing: podresources.PodResourcesListing, inventory: Inventory, began: float) -> None:
        """Replace the reported holdings and the inventory together."""
        if self._read_at is None:
            self._restore_claims(listing.claims)
        rows = (
            (held.namespace, held.pod, held.container, held.resource, held.ids) for held in listing.devices
        )
        before, self._inventory = self.ledger, inventory
        self.ledger = observe(before, kubelet_holdings(rows, inventory).holdings, began)
        first, self._read_at, self._last_error = self._read_at is None, self._clock(), ""
        if first or self.ledger != before:
            self._due.set()

    def _restore_claims(self, claims: Iterable[ContainerClaimDevice]) -> None:
        """Add claims that the kubelet lists and the file does not; without their amount, count all of it."""
        known = {(each.holder.namespace, each.holder.name, each.accelerator) for each in self.ledger.claims}
        for held in claims:
            if (held.namespace, held.claim, held.device) not in known:
                holder = Holder(held.namespace, held.claim)
                self.ledger = add_claim(self.ledger, Holding(held.device, Form.CLAIM, holder))

    def _load_claims(self) -> Iterable[Holding]:
        """Return the stored claims; pod resources make up for an unreadable file."""
        try:
            return PREPARED_CLAIMS.decode(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ()  # no claim is prepared
        except (OSError, ValueError, NewerFormatError) as error:
            self._say(f"{self._file}: {error}; claims are read from the kubelet's pod resources instead")
            return ()

    def _save_claims(self) -> None:
        """Write the claims to disk; a half-written file never has the final name."""
        if not self.ledger.claims:
            self._file.unlink(missing_ok=True)
            return
        temporary = self._file.with_suffix(".new")
        text = PREPARED_CLAIMS.encode(tuple(self.ledger.claims))
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._file)


def holder_of(claim: KubeletClaim) -> Holder:
    """Return a claim as a holder; its uid distinguishes it from a later claim of the same name."""
    return Holder(claim.namespace, claim.name, claim.uid)


def _to_json(holding: Holding) -> dict[str, Any]:
    holder = holding.holder
    return {
        "accelerator": holding.accelerator,
        "namespace": holder.namespace,
        "name": holder.name,
        "uid": holder.container,
        "mebibytes": holding.mebibytes,
    }


def _decode(body: Mapping[str, Any]) -> tuple[Holding, ...]:
    return tuple(
        Holding(
            str(row["accelerator"]),
            Form.CLAIM,
            Holder(str(row["namespace"]), str(row["name"]), str(row["uid"])),
            int(row["mebibytes"]),
        )
        for row in body["claims"]
    )


PREPARED_CLAIMS: Final[VersionedFormat[tuple[Holding, ...]]] = VersionedFormat(
    "prepared-claims", JSON, {1: Codec(lambda claims: {"claims": [*map(_to_json, claims)]}, _decode)}
)
"""The agent's file of the claims that it has prepared."""
