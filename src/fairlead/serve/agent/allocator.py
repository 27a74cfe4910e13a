"""Allocates accelerators: answers the kubelet's Allocate and NodePrepareResources from one ledger."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from fairlead.enforcement.request import Limit
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
from fairlead.serve.agent.limits import ShareLimits, identity_of
from fairlead.serve.agent.placement_lookup import ChosenAccelerators, PlacementLookup
from fairlead.serve.agent.pod_limiter import LimiterRequest, can_limit, limit_grant, limit_of
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker, holder_of
from fairlead.settings.publishing import PublishConfig
from fairlead.warden.client import CdiWriter
from fairlead.warden.rules import mps_identity

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
        limits: ShareLimits,
    ) -> None:
        self._config = config
        self._tracker = tracker
        self._lookup = lookup
        self._limits = limits
        self._chosen: dict[str, ChosenAccelerators | None] = {}
        """By resource, the result of the kubelet's last GetPreferredAllocation, until its Allocate."""
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
            self._chosen[resource] = chosen
            if chosen is None:
                return prefer(offer, available, required, size)
            if chosen.devices is None:  # of those that can be limited, any will do
                limitable = {acc.id for acc in self._inventory.accelerators if can_limit(acc)}
                return prefer(part_of(offer, limitable), available, required, size)
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
        with self._count_refusals(resource):
            if resource in self._chosen:
                chosen = self._chosen.pop(resource)
            else:  # a kubelet that hands on an init container's units has not asked which to take
                chosen = await self._lookup.chosen_accelerators(resource, len(ids))
            parts = parse_units(ids, self._inventory, unit)
            if isinstance(parts, Refusal):
                raise AllocationRefusedError(f"{resource}: {parts.reason}")
            held = [part.holding(UNNAMED, unit) for part in parts]
            _check_chosen(resource, chosen, held)
            limiter = chosen.limiter if chosen else None
            limit = self._limit(limiter, held)
            await self._record(partial(self._tracker.record_allocation, held))
            await self._enforce(limit, held)
        extra = self._limit_grant(limit, limiter, chosen.limit if chosen else None, held)
        return self._with_nodes([self._unit_grant(holding, resource) for holding in held], held, extra)

    async def prepare(self, claim: KubeletClaim) -> list[Prepared]:
        """Prepare a claim's accelerators, and record the claim."""
        if self.claims is None or self._writer is None:
            raise KubeletError("claims cannot be prepared yet: the API server is not connected")
        allocated = await self.claims.read(claim, self._config.node)
        devices, holdings = allocated.devices, _holdings(claim, allocated.devices)
        try:
            limit = self._limit(allocated.limiter, holdings)
            extra = self._limit_grant(limit, allocated.limiter, allocated.limit, holdings)
            spec, prepared = self._prepare_spec(claim, devices, extra)
            await self._record(partial(self._tracker.record_claim, claim, holdings))
            await self._enforce(limit, holdings)
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
        await self._limits.release(mps_identity(claim.uid))

    async def limit_of_share(self, holding: Holding) -> Limit | None:
        """Read again how the holder of a share is limited; None: it is not."""
        holder, held = holding.holder, [holding]
        if holding.form is not Form.CLAIM:
            limiter = await self._lookup.limiter_of(holder)
        elif self.claims is None:
            raise KubeletError("claims cannot be read yet")
        else:
            claim = KubeletClaim(holder.namespace, holder.name, holder.container)
            allocated = await self.claims.read(claim, self._config.node)
            limiter, held = allocated.limiter, _holdings(claim, allocated.devices)
        return self._limit(limiter, held)

    def _limit(self, limiter: LimiterRequest | None, held: Sequence[Holding]) -> Limit | None:
        """Return the limit of a share; None without a request for one, or with a whole accelerator."""
        if limiter is None or not _is_share(held):
            return None
        shares = [(self._accelerator(each.accelerator), each.mebibytes) for each in held]
        limit = limit_of(identity_of(held[0]), limiter, shares)
        if isinstance(limit, Refusal):
            raise AllocationRefusedError(limit.reason)
        return limit

    async def _enforce(self, limit: Limit | None, held: Sequence[Holding]) -> None:
        """Have the daemon of a limited share before its container starts; none for any other."""
        if limit is not None:
            # A kubelet prepares a claim again while its container runs: its daemon stays as it is.
            await self._limits.start(limit, renew=held[0].form is not Form.CLAIM)
        elif _is_share(held):
            await self._limits.release(identity_of(held[0]))

    def _limit_grant(
        self,
        limit: Limit | None,
        limiter: LimiterRequest | None,
        size: MemoryLimit | None,
        held: Sequence[Holding],
    ) -> Grant:
        """Return what a container receives so that it stays inside its share."""
        if limit is None or limiter is None:
            return Grant(self._limit_variables(size, held))
        return limit_grant(limit, limiter.own, [self._accelerator(each.accelerator) for each in held])

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
        self, claim: KubeletClaim, devices: Sequence[ClaimDevice], extra: Grant
    ) -> tuple[dict[str, object], list[Prepared]]:
        """Return a claim's CDI spec, with one device for each request, and its devices for the kubelet."""
        grants = {id(device): self._claim_grant(device) for device in devices}
        requests = dict.fromkeys(device.request for device in devices)
        entries = {
            request: _with_extra(
                access.merge(grants[id(device)] for device in devices if device.request == request), extra
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
        if limit is None or not _is_share(held):
            return {}
        return limit_variables(limit, [self._accelerator(holding.accelerator) for holding in held])

    def _with_nodes(self, grants: Sequence[Grant], held: Sequence[Holding], extra: Grant) -> Grant:
        """Return the grants as one, with device nodes by CDI where a CDI spec can be written."""
        joined = _with_extra(access.merge(grants), extra)
        if self._writer is None:
            return access.without_cdi(joined)
        devices = (cdi.accelerator_device(holding.accelerator) for holding in held)
        return replace(joined, nodes=(), cdi=(*devices, *joined.cdi))

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


def _with_extra(grant: Grant, extra: Grant) -> Grant:
    return replace(grant, env={**extra.env, **grant.env}, mounts=(*grant.mounts, *extra.mounts))


def _is_share(held: Sequence[Holding]) -> bool:
    """Say whether a container holds shares alone, and no whole accelerator."""
    return bool(held) and all(holding.mebibytes for holding in held)


def _check_chosen(resource: str, chosen: ChosenAccelerators | None, held: Sequence[Holding]) -> None:
    """Refuse units of an accelerator that the scheduler did not choose."""
    if chosen is None or chosen.devices is None:
        return
    unchosen = {each.accelerator for each in held} - chosen.devices
    if unchosen:
        where, there = " and ".join(sorted(chosen.devices)), " and ".join(sorted(unchosen))
        raise AllocationRefusedError(f"{resource}: {chosen.pod} was placed on {where}, not on {there}")


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
