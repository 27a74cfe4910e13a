"""The agent's ledger, kept true: the kubelet's books are read again and again, claims are kept on disk."""

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

_OFTEN, _SELDOM = Seconds(10.0), Seconds(60.0)
_SHARE: Final = 500
"""A look pauses for so many times as long as it took: reading books must not be what a node does."""
_SOON: Final = Seconds(2.0)
"""So long after something was given out the kubelet has written it down, mostly."""


class PodResourcesTracker:
    """Who holds what on this node, as far as can be known."""

    def __init__(
        self,
        terms: PublishConfig,
        due: asyncio.Event,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = terms.books
        self._file = terms.sockets / "claims.json"
        self._due = due
        self._say = say
        self._clock = clock
        self._inventory = Inventory(Machine())
        self._early = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._given_at = 0.0
        self._read_at: float | None = None
        self._trouble = ""
        self.ledger = Ledger()

    @property
    def together(self) -> bool:
        """Whether one accelerator may be offered in several forms: only where the books can be read."""
        return self._socket is not None

    @property
    def synced(self) -> bool:
        """Whether it is known what was handed out before this agent began."""
        return self._socket is None or self._read_at is not None

    def problem(self) -> str:
        """Return why nothing can be handed out yet."""
        return "" if self.synced else self._trouble or "the kubelet's books have not been read yet"

    def age(self) -> float | None:
        """Return how long ago the books were read; None where they never were."""
        return None if self._read_at is None else self._clock() - self._read_at

    def reported(self) -> tuple[Holding, ...]:
        """Return what the kubelet's books and the prepared claims say; nothing that is only assumed."""
        return (*self.ledger.books, *self.ledger.claims)

    async def on_inventory(self, inventory: Inventory) -> None:
        """Take note of what there is.

        Who holds an accelerator that comes, or comes back, is read before any of it can be handed out.
        """
        before, after = ({acc.id for acc in each.accelerators} for each in (self._inventory, inventory))
        if self._socket is None or before == after:
            self._inventory = inventory
        else:
            began = self._clock()
            self._note(await read_pod_resources(self._socket), inventory, began)

    def record_allocation(self, asked: Sequence[Holding]) -> None:
        """Note what a container is about to be given, all of it or nothing; RefusedError with the reason."""
        if self._socket is None:
            return  # one form only: the kubelet's own count suffices, and nobody would say when it ends
        self.ledger = self._admitted(asked)
        self._given_at = self._clock()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._look_early)
        self._due.set()

    def _look_early(self) -> None:
        """Have the books looked into; once more where something was given out since the timer was set.

        A pod of hundreds of containers takes seconds to be admitted: the books are not read for each.
        """
        self._early.set()
        rest = self._given_at + _SOON - self._clock()
        again = asyncio.get_running_loop().call_later(_SOON, self._look_early) if rest > 0 else None
        self._timer = again

    def claim(self, claim: KubeletClaim, asked: Sequence[Holding]) -> None:
        """Note a claim that is about to be prepared, here and on disk; RefusedError with the reason."""
        self._change(self._admitted(asked), "noted")

    def release(self, claim: KubeletClaim) -> None:
        """Forget a claim; one that is not known is forgotten already."""
        ledger = self.ledger
        for holder in (holder_of(claim), Holder(claim.namespace, claim.name)):
            ledger = release_claim(ledger, holder)
        if ledger.claims != self.ledger.claims:
            self._change(ledger, "let go")

    def _change(self, ledger: Ledger, verb: str) -> None:
        """Take a ledger with other claims, here and on disk, or neither."""
        before, self.ledger = self.ledger, ledger
        try:
            self._keep()
        except OSError as error:
            self.ledger = before
            raise KubeletError(f"{self._file}: {error.strerror}: the claim cannot be {verb}") from error
        self._due.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read what was there before, then keep on reading the kubelet's books."""
        for holding in _stored(self._file):
            self.ledger = add_claim(self.ledger, holding)
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def refresh(self) -> None:
        """Look into the kubelet's books once more, for somebody who cannot wait for the next time."""
        if self._socket is not None:
            await self._look(self._socket)

    def _admitted(self, asked: Sequence[Holding]) -> Ledger:
        answer = admit_all(self.ledger, self._inventory, asked, self._clock())
        if isinstance(answer, Refusal):
            raise AllocationRefusedError(answer.reason)
        return answer

    async def _follow(self) -> None:
        while self._socket is not None:
            took = await self._look(self._socket)
            if self._read_at is None:
                pause: float = 1.0
            elif self.ledger.assumed:
                pause = GRACE / 2
            else:
                pause = min(max(_SHARE * took, _OFTEN if self.ledger.books else 3 * _OFTEN), _SELDOM)
            with suppress(*TIMEOUTS):
                await asyncio.wait_for(self._early.wait(), pause)
            self._early.clear()

    async def _look(self, socket: Path) -> float:
        """Look into the books once, and return how much work that was."""
        began, worked = self._clock(), time.thread_time()
        try:
            books = await read_pod_resources(socket)
        except KubeletError as error:
            if str(error) != self._trouble:
                self._say(f"cannot read the kubelet's books: {error}")
            self._trouble = str(error)
            return 0.0
        self._note(books, self._inventory, began)
        return time.thread_time() - worked

    def _note(self, books: podresources.PodResourcesListing, inventory: Inventory, began: float) -> None:
        """Believe the kubelet, and together with it that this is what there is."""
        if self._read_at is None:
            self._recall(books.claims)
        rows = ((held.namespace, held.pod, held.container, held.resource, held.ids) for held in books.devices)
        before, self._inventory = self.ledger, inventory
        self.ledger = observe(before, kubelet_holdings(rows, inventory).holdings, began)
        first, self._read_at, self._trouble = self._read_at is None, self._clock(), ""
        if first or self.ledger != before:
            self._due.set()

    def _recall(self, claims: Iterable[ContainerClaimDevice]) -> None:
        """Note claims that containers have and the file does not: how much is unknown, so count all of it."""
        known = {(each.holder.namespace, each.holder.name, each.accelerator) for each in self.ledger.claims}
        for held in claims:
            if (held.namespace, held.claim, held.device) not in known:
                holder = Holder(held.namespace, held.claim)
                self.ledger = add_claim(self.ledger, Holding(held.device, Form.CLAIM, holder))

    def _keep(self) -> None:
        """Write the claims down; a file that is half written never has the name of the whole one."""
        if not self.ledger.claims:
            self._file.unlink(missing_ok=True)
            return
        aside = self._file.with_suffix(".new")
        text = PREPARED_CLAIMS.encode(tuple(self.ledger.claims))
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._file)


def holder_of(claim: KubeletClaim) -> Holder:
    """Return a claim as a holder; its uid tells it from a later one of the same name."""
    return Holder(claim.namespace, claim.name, claim.uid)


def _stored(file: Path) -> Iterable[Holding]:
    """Return the claims that were prepared before; the PodResources API makes up for an unreadable file."""
    try:
        return PREPARED_CLAIMS.decode(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, NewerFormatError):
        return []


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
