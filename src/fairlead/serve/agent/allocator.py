"""Allocates accelerators: answers the kubelet's Allocate and NodePrepareResources from one ledger."""

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
from fairlead.publish.memory_limit import MemoryLimit, limit_variables
from fairlead.publish.offers import parse_units, prefer
from fairlead.publish.parts import MEMORY_RESOURCES, MemoryUnit, Refusal
from fairlead.serve.agent.claim_reader import ClaimDevice, ClaimReader
from fairlead.serve.agent.placement_lookup import ChosenAccelerators, PlacementLookup
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker, holder_of
from fairlead.settings.publishing import PublishConfig
from fairlead.warden.client import CdiWriter

_ACCELERATORS: Final = f"{DRIVER}-accelerators.json"
_CDI_AGE: Final = 60.0
"""Seconds for which the result of the search for NVIDIA's CDI file is cached."""


class Allocator:
    """Allocates what the kubelet requests, and nothing twice."""

    def __init__(
        self,
        config: PublishConfig,
        tracker: PodResourcesTracker,
        lookup: PlacementLookup,
        read_host: Callable[[], Host],
    ) -> None:
        self._config = config
        self._tracker = tracker
        self._lookup = lookup
        self._chosen: dict[str, ChosenAccelerators] = {}
        """By resource, the placement of the kubelet's last GetPreferredAllocation, until its Allocate."""
        self._read_host = read_host
        self._writer = CdiWriter(config.cdi) if config.cdi else None
        self._inventory = Inventory(Machine())
        self._spec_digest: str = ""
        self._nvidia: tuple[float, access.Nvidia] = (-_CDI_AGE, "env")
        self.claims: ClaimReader | None = None
        """Reads claims; None before the API server is connected."""
        self.offered: Mapping[str, Offer] = {}
        self.refused: Counter[str] = Counter(dict.fromkeys(Form, 0))

    async def write_cdi_spec(self, inventory: Inventory) -> None:
        """Write the CDI spec of the accelerators for container runtimes, if it has changed."""
        self._inventory = inventory
        if self._writer is None:
            return
        usable = [acc for acc in inventory.accelerators if acc.kind != "cpu" and acc.state.allocatable]
        spec = cdi.accelerators_spec({acc.id: self._grant(acc, "") for acc in usable})
        digest = cdi.digest(spec)
        if digest == self._spec_digest:
            return
        if usable:
            await asyncio.to_thread(self._writer.put, _ACCELERATORS, spec)
        else:
            await asyncio.to_thread(self._writer.remove, _ACCELERATORS)
        self._spec_digest = digest

    async def remove_cdi_spec(self) -> None:
        """Remove the CDI spec of the accelerators where no container uses it any more."""
        if self._writer is None or not self._spec_digest:
            return
        await self._tracker.refresh()  # a holder may have ended since the last read
        if not any(self._tracker.ledger):
            with suppress(WardenError):  # the warden may have ended before the agent
                await asyncio.to_thread(self._writer.remove, _ACCELERATORS)

    def by_units(self) -> frozenset[str]:
        """Return the accelerators whose memory is offered in units."""
        blocks = (block for offer in self.offered.values() for block in offer.blocks)
        return frozenset(block.accelerator for block in blocks if block.many)

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> list[str]:
        """Return the units to take: on the accelerator that a scheduler chose, and a share all on one."""
        offer = self.offered.get(resource)
        self._chosen.pop(resource, None)
        if offer is None:
            return []
        with self._count_refusals(resource):
            chosen = await self._lookup.chosen_accelerators(resource, size)
            if chosen is None:
                return prefer(offer, available, required, size)
            self._chosen[resource] = chosen
            units = prefer(part_of(offer, chosen.devices), available, required, size)
            if not units:
                where = " or ".join(sorted(chosen.devices)) or "nothing"
                raise AllocationRefusedError(
                    f"{resource}: {chosen.pod} was placed on {where}, which does not have {size} units free"
                )
            return units

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Return what a container receives with these units, and record the allocation."""
        unit = MEMORY_RESOURCES.get(resource, MemoryUnit.MIB)
        chosen = self._chosen.pop(resource, None)
        with self._count_refusals(resource):
            parts = parse_units(ids, self._inventory, unit)
            if isinstance(parts, Refusal):
                raise AllocationRefusedError(f"{resource}: {parts.reason}")
            held = [part.holding(UNNAMED, unit) for part in parts]
            unchosen = {each.accelerator for each in held} - (chosen.devices if chosen else set())
            if chosen and unchosen:
                where, there = " and ".join(sorted(chosen.devices)), " and ".join(sorted(unchosen))
                raise AllocationRefusedError(
                    f"{resource}: {chosen.pod} was placed on {where}, not on {there}"
                )
            await self._record(partial(self._tracker.record_allocation, held))
        limit = self._limit_variables(chosen.limit if chosen else None, held)
        return self._with_nodes([self._unit_grant(holding, resource) for holding in held], held, limit)

    async def prepare(self, claim: KubeletClaim) -> list[Prepared]:
        """Prepare a claim's accelerators, and record the claim."""
        if self.claims is None or self._writer is None:
            raise KubeletError("claims cannot be prepared yet: the API server is not connected")
        allocated = await self.claims.read(claim, self._config.node)
        devices, holdings = allocated.devices, _holdings(claim, allocated.devices)
        limit = self._limit_variables(allocated.limit, holdings)
        spec, prepared = self._prepare_spec(claim, devices, limit)
        try:
            await self._record(partial(self._tracker.record_claim, claim, holdings))
        except AllocationRefusedError:
            self.refused[Form.CLAIM] += 1
            raise
        if spec["devices"]:
            await asyncio.to_thread(self._writer.put, claim_file(claim), spec)
        return prepared

    async def unprepare(self, claim: KubeletClaim) -> None:
        """Release a claim; an unknown claim counts as released."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.remove, claim_file(claim))
        self._tracker.release_claim(claim)

    async def _record(self, record: Callable[[], None]) -> None:
        """Record an allocation; after a refusal read pod resources again: a holder may have ended since."""
        try:
            record()
        except AllocationRefusedError:
            await self._tracker.refresh()
            record()

    @contextmanager
    def _count_refusals(self, resource: str) -> Iterator[None]:
        """Count refused allocations."""
        try:
            yield
        except AllocationRefusedError:
            self.refused[Form.MEMORY if resource in MEMORY_RESOURCES else Form.WHOLE] += 1
            raise

    def _prepare_spec(
        self, claim: KubeletClaim, devices: Sequence[ClaimDevice], limit: Mapping[str, str]
    ) -> tuple[dict[str, object], list[Prepared]]:
        """Return a claim's CDI spec, with one device for each request, and its devices for the kubelet."""
        grants = {id(device): self._claim_grant(device) for device in devices}
        requests = dict.fromkeys(device.request for device in devices)
        entries = {
            request: _with_env(
                access.merge(grants[id(device)] for device in devices if device.request == request), limit
            )
            for request in requests
        }
        prepared = [
            Prepared(
                requests=(device.request,),
                pool=device.pool,
                device=device.device,
                cdi=(
                    cdi.accelerator_device(device.device),
                    cdi.claim_device(claim.uid, device.request),
                    *grants[id(device)].cdi,
                ),
                share=device.share or None,
            )
            for device in devices
        ]
        return cdi.claim_spec(claim.uid, entries), prepared

    def _claim_grant(self, device: ClaimDevice) -> Grant:
        acc = self._accelerator(device.device)
        memory = device.mebibytes or None
        return self._grant(acc, f"{DRIVER}/{device.request}", memory=memory, share=device.share)

    def _unit_grant(self, holding: Holding, resource: str) -> Grant:
        return self._grant(self._accelerator(holding.accelerator), resource, memory=holding.mebibytes or None)

    def _limit_variables(self, limit: MemoryLimit | None, held: Sequence[Holding]) -> dict[str, str]:
        """Return the variables for frameworks; none without a limit, or with a whole accelerator."""
        if limit is None or not held or not all(holding.mebibytes for holding in held):
            return {}
        return limit_variables(limit, [self._accelerator(holding.accelerator) for holding in held])

    def _with_nodes(
        self, grants: Sequence[Grant], held: Sequence[Holding], limit: Mapping[str, str]
    ) -> Grant:
        """Return the grants as one, with device nodes by CDI where a CDI spec can be written."""
        joined = _with_env(access.merge(grants), limit)
        if self._writer is None:
            return access.without_cdi(joined)
        devices = (cdi.accelerator_device(holding.accelerator) for holding in held)
        return Grant(joined.env, (), (*devices, *joined.cdi))

    def _grant(self, acc: Accelerator, resource: str, *, memory: int | None = None, share: str = "") -> Grant:
        host = self._read_host()
        return access.grant(
            acc,
            host,
            resource=resource,
            memory=memory,
            share=share,
            nvidia=self._nvidia_mode(host),
            device_root=self._config.device_root,
        )

    def _nvidia_mode(self, host: Host) -> access.Nvidia:
        if self._config.nvidia != "auto":
            return self._config.nvidia
        if time.monotonic() - self._nvidia[0] > _CDI_AGE:
            self._nvidia = (time.monotonic(), "cdi" if access.nvidia_cdi_present(host) else "env")
        return self._nvidia[1]

    def _accelerator(self, name: str) -> Accelerator:
        acc = next((acc for acc in self._inventory.accelerators if acc.id == name), None)
        if acc is None:
            raise AllocationRefusedError(f"{name} is not on this node any more")
        return acc


def _with_env(grant: Grant, variables: Mapping[str, str]) -> Grant:
    return replace(grant, env={**variables, **grant.env})


def part_of(offer: Offer, accelerators: Collection[str]) -> Offer:
    """Return the part of an offer that belongs to some accelerators."""
    return replace(offer, blocks=tuple(block for block in offer.blocks if block.accelerator in accelerators))


def claim_file(claim: KubeletClaim) -> str:
    """Return the name of a claim's CDI file."""
    return f"{DRIVER}-claim-{claim.uid}.json"


def _holdings(claim: KubeletClaim, devices: Sequence[ClaimDevice]) -> list[Holding]:
    """Return what a claim holds: the sum of its requests per accelerator, without admin access."""
    sums: dict[str, int] = {}
    for device in devices:
        if not device.admin:
            whole = not device.mebibytes or sums.get(device.device) == 0
            sums[device.device] = 0 if whole else sums.get(device.device, 0) + device.mebibytes
    by_use = any(device.by_use for device in devices)
    return [
        Holding(device, Form.CLAIM, holder_of(claim), amount, by_use=by_use)
        for device, amount in sums.items()
    ]
