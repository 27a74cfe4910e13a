"""Hands accelerators out: answers the kubelet's Allocate and NodePrepareResources, ledger in hand."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from fairlead.errors import AllocationRefusedError, KubeletError, WardenError
from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory, Machine
from fairlead.kubelet.claims import KubeletClaim, Prepared
from fairlead.offer import DRIVER, Form, Grant, Holding, Offer
from fairlead.publish import access, cdi
from fairlead.publish.ledger import UNNAMED
from fairlead.publish.offers import parse_units, prefer
from fairlead.publish.parts import MEMORY_RESOURCES, MemoryUnit, Refusal
from fairlead.serve.agent.claim_reader import ClaimDevice, ClaimReader
from fairlead.serve.agent.placement_lookup import ChosenAccelerators, PlacementLookup
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker, holder_of
from fairlead.settings.publishing import PublishConfig
from fairlead.warden.client import CdiWriter

_ACCELERATORS: Final = f"{DRIVER}-accelerators.json"
_CDI_AGE: Final = 60.0
"""Seconds for which it is believed that NVIDIA's CDI file is there, or not."""


class Allocator:
    """Gives out what the kubelet asks for, never anything twice."""

    def __init__(
        self,
        terms: PublishConfig,
        books: PodResourcesTracker,
        handover: PlacementLookup,
        look: Callable[[], Host],
    ) -> None:
        self._terms = terms
        self._books = books
        self._handover = handover
        self._chosen: dict[str, ChosenAccelerators] = {}
        """By resource: for whom the kubelet asked last, until it takes units."""
        self._look = look
        self._writer = CdiWriter(terms.cdi) if terms.cdi else None
        self._inventory = Inventory(Machine())
        self._described: str = ""
        self._nvidia: tuple[float, access.Nvidia] = (-_CDI_AGE, "env")
        self.claims: ClaimReader | None = None
        """Where claims are read; None before there is an API server."""
        self.offered: Mapping[str, Offer] = {}
        self.refused: Counter[str] = Counter(dict.fromkeys(Form, 0))

    async def write_cdi_spec(self, inventory: Inventory) -> None:
        """Write what containers need of each accelerator where runtimes find it, if that has changed."""
        self._inventory = inventory
        if self._writer is None:
            return
        usable = [acc for acc in inventory.accelerators if acc.kind != "cpu" and acc.state.allocatable]
        spec = cdi.accelerators_spec({acc.id: self._grant(acc, "") for acc in usable})
        digest = cdi.digest(spec)
        if digest == self._described:
            return
        if usable:
            await asyncio.to_thread(self._writer.put, _ACCELERATORS, spec)
        else:
            await asyncio.to_thread(self._writer.remove, _ACCELERATORS)
        self._described = digest

    async def remove_cdi_spec(self) -> None:
        """Leave no CDI file behind that nobody needs any more."""
        if self._writer is None or not self._described:
            return
        await self._books.refresh()  # who held something a moment ago may be gone
        if not any(self._books.ledger):
            with suppress(WardenError):  # it may have ended before us
                await asyncio.to_thread(self._writer.remove, _ACCELERATORS)

    def by_units(self) -> frozenset[str]:
        """Return the accelerators whose memory is offered in units."""
        blocks = (block for offer in self.offered.values() for block in offer.blocks)
        return frozenset(block.accelerator for block in blocks if block.many)

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> list[str]:
        """Return the units to take: of the accelerator that a scheduler chose, and of a share all on one."""
        offer = self.offered.get(resource)
        self._chosen.pop(resource, None)
        if offer is None:
            return []
        with self._counted(resource):
            chosen = await self._handover.chosen_accelerators(resource, size)
            if chosen is None:
                return prefer(offer, available, required, size)
            self._chosen[resource] = chosen
            units = prefer(part_of(offer, chosen.devices), available, required, size)
            if not units:
                where = " or ".join(sorted(chosen.devices)) or "nothing"
                raise AllocationRefusedError(
                    f"{resource}: {chosen.pod} was placed on {where}, which has not {size} free"
                )
            return units

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Return what a container receives with these units, and note that it has them."""
        unit = MEMORY_RESOURCES.get(resource, MemoryUnit.MIB)
        chosen = self._chosen.pop(resource, None)
        with self._counted(resource):
            parts = parse_units(ids, self._inventory, unit)
            if isinstance(parts, Refusal):
                raise AllocationRefusedError(f"{resource}: {parts.reason}")
            held = [part.holding(UNNAMED, unit) for part in parts]
            strange = {each.accelerator for each in held} - (chosen.devices if chosen else set())
            if chosen and strange:
                where, there = " and ".join(sorted(chosen.devices)), " and ".join(sorted(strange))
                raise AllocationRefusedError(
                    f"{resource}: {chosen.pod} was placed on {where}, not on {there}"
                )
            await self._noted(partial(self._books.record_allocation, held))
        return self._with_nodes([self._given(holding, resource) for holding in held], held)

    async def prepare(self, claim: KubeletClaim) -> list[Prepared]:
        """Make a claim's accelerators ready, and note that it has them."""
        if self.claims is None or self._writer is None:
            raise KubeletError("claims cannot be prepared yet: the API server has not been reached")
        allotments = await self.claims.read(claim, self._terms.node)
        spec, prepared = self._prepared(claim, allotments)
        try:
            await self._noted(partial(self._books.claim, claim, _holdings(claim, allotments)))
        except AllocationRefusedError:
            self.refused[Form.CLAIM] += 1
            raise
        if spec["devices"]:
            await asyncio.to_thread(self._writer.put, claim_file(claim), spec)
        return prepared

    async def unprepare(self, claim: KubeletClaim) -> None:
        """Let a claim go; one that is not known is gone already."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.remove, claim_file(claim))
        self._books.release(claim)

    async def _noted(self, note: Callable[[], None]) -> None:
        """Note that something is given; who stands against it may be gone since the books were read."""
        try:
            note()
        except AllocationRefusedError:
            await self._books.refresh()
            note()

    @contextmanager
    def _counted(self, resource: str) -> Iterator[None]:
        """Count a refusal."""
        try:
            yield
        except AllocationRefusedError:
            self.refused[Form.MEMORY if resource in MEMORY_RESOURCES else Form.WHOLE] += 1
            raise

    def _prepared(
        self, claim: KubeletClaim, allotments: Sequence[ClaimDevice]
    ) -> tuple[dict[str, object], list[Prepared]]:
        """Return a claim's CDI document and what the kubelet is told of it: one device for each request."""
        grants = {id(allotment): self._allotted(allotment) for allotment in allotments}
        requests = dict.fromkeys(allotment.request for allotment in allotments)
        entries = {
            request: access.merge(
                grants[id(allotment)] for allotment in allotments if allotment.request == request
            )
            for request in requests
        }
        prepared = [
            Prepared(
                requests=(allotment.request,),
                pool=allotment.pool,
                device=allotment.device,
                cdi=(
                    cdi.accelerator_device(allotment.device),
                    cdi.claim_device(claim.uid, allotment.request),
                    *grants[id(allotment)].cdi,
                ),
                share=allotment.share or None,
            )
            for allotment in allotments
        ]
        return cdi.claim_spec(claim.uid, entries), prepared

    def _allotted(self, each: ClaimDevice) -> Grant:
        acc = self._accelerator(each.device)
        memory = each.mebibytes or None
        return self._grant(acc, f"{DRIVER}/{each.request}", memory=memory, share=each.share)

    def _given(self, holding: Holding, resource: str) -> Grant:
        return self._grant(self._accelerator(holding.accelerator), resource, memory=holding.mebibytes or None)

    def _with_nodes(self, grants: Sequence[Grant], held: Sequence[Holding]) -> Grant:
        """Return the grants as one, its nodes by CDI where that is to be had."""
        joined = access.merge(grants)
        if self._writer is None:
            return access.without_cdi(joined)
        devices = (cdi.accelerator_device(holding.accelerator) for holding in held)
        return Grant(joined.env, (), (*devices, *joined.cdi))

    def _grant(self, acc: Accelerator, resource: str, *, memory: int | None = None, share: str = "") -> Grant:
        host = self._look()
        return access.grant(
            acc,
            host,
            resource=resource,
            memory=memory,
            share=share,
            nvidia=self._way_of_nvidia(host),
            device_root=self._terms.device_root,
        )

    def _way_of_nvidia(self, host: Host) -> access.Nvidia:
        if self._terms.nvidia != "auto":
            return self._terms.nvidia
        if time.monotonic() - self._nvidia[0] > _CDI_AGE:
            self._nvidia = (time.monotonic(), "cdi" if access.nvidia_cdi_present(host) else "env")
        return self._nvidia[1]

    def _accelerator(self, name: str) -> Accelerator:
        found = next((acc for acc in self._inventory.accelerators if acc.id == name), None)
        if found is None:
            raise AllocationRefusedError(f"{name} is not on this node any more")
        return found


def part_of(offer: Offer, accelerators: Collection[str]) -> Offer:
    """Return what an offer has of some accelerators."""
    return replace(offer, blocks=tuple(block for block in offer.blocks if block.accelerator in accelerators))


def claim_file(claim: KubeletClaim) -> str:
    """Return the name of a claim's CDI file."""
    return f"{DRIVER}-claim-{claim.uid}.json"


def _holdings(claim: KubeletClaim, allotments: Sequence[ClaimDevice]) -> list[Holding]:
    """Return what a claim holds: the sum of its requests per accelerator, without mere looks."""
    sums: dict[str, int] = {}
    for allotment in allotments:
        if not allotment.admin:
            whole = not allotment.mebibytes or sums.get(allotment.device) == 0
            sums[allotment.device] = 0 if whole else sums.get(allotment.device, 0) + allotment.mebibytes
    return [Holding(device, Form.CLAIM, holder_of(claim), amount) for device, amount in sums.items()]
