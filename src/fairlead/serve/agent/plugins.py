"""The plugins registered with the kubelet: one for each resource, and one for claims."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from fairlead.inventory import Inventory
from fairlead.kubelet.claims import ClaimPlugin
from fairlead.kubelet.plugin import LIST_LIMIT, DevicePlugin, encoded_size
from fairlead.kubelet.registration import Registered
from fairlead.offer import Form, Holding, Offer
from fairlead.publish.offers import MemoryUnit, OfferPlan, offers, trim
from fairlead.serve.agent.allocator import Allocator
from fairlead.settings.publishing import PublishConfig, unit_limit

CLAIMS: Final = "claims"
"""The name of the DRA plugin beside the names of the resources."""


class PluginSet:
    """Opens, updates and closes plugins, so that the kubelet lists what the node has."""

    def __init__(
        self, config: PublishConfig, allocator: Allocator, due: asyncio.Event, say: Callable[[str], None]
    ) -> None:
        self._config = config
        self._allocator = allocator
        self._due = due
        self._say = say
        self._open: dict[str, DevicePlugin] = {}
        self._claims: ClaimPlugin | None = None
        self._left_out: tuple[str, ...] = ()
        self._reconciled = False

    @property
    def claims_registered(self) -> bool:
        """Whether the kubelet has registered the DRA plugin."""
        return self._claims is not None and bool(self._claims.registered and self._claims.registered.ok)

    def registered(self) -> dict[str, bool]:
        """Return, by plugin, whether the kubelet has registered it."""
        registered = {
            name: bool(plugin.registered and plugin.registered.ok) for name, plugin in self._open.items()
        }
        return {**registered, CLAIMS: self.claims_registered} if self._claims else registered

    def problem(self) -> str:
        """Return which plugins the kubelet has not registered yet; empty when it has registered all."""
        if not self._config.forms:
            return ""
        if not self._reconciled:
            return "no plugin is registered with the kubelet yet"
        missing = sorted(name for name, known in self.registered().items() if not known)
        return f"not registered with the kubelet: {', '.join(missing)}" if missing else ""

    async def reconcile(
        self, inventory: Inventory, held: Iterable[Holding], *, combine_forms: bool, kubelet: str = ""
    ) -> None:
        """Offer the inventory to a kubelet of some version; withdraw resources without units."""
        limit = self._config.most_units or unit_limit(kubelet)
        plan = OfferPlan(unit=self._unit, forms=self._config.forms, combine_forms=combine_forms)
        wanted = {
            offer.resource: offer for offer in self._within_limits(offers(inventory, held, plan), limit)
        }
        self._allocator.offered = wanted
        for name in self._open.keys() - wanted.keys():
            await self._open.pop(name).close()
        for name, offer in wanted.items():
            await self._open_or_update(name, offer)
        if Form.CLAIM in self._config.forms and self._claims is None:
            plugin = ClaimPlugin(
                self._allocator,
                self._config.sockets,
                self._config.registry,
                partial(self._on_registered, CLAIMS),
                say=self._say,
            )
            await plugin.open()
            self._claims = plugin
        self._reconciled = True

    async def close(self) -> None:
        """Withdraw every plugin."""
        plugins: list[DevicePlugin | ClaimPlugin] = [*self._open.values()]
        plugins += [self._claims] if self._claims else []
        self._open, self._claims = {}, None
        await asyncio.gather(*(plugin.close() for plugin in plugins))

    async def _open_or_update(self, name: str, offer: Offer) -> None:
        if name in self._open:
            self._open[name].offer(offer)
            return
        plugin = DevicePlugin(
            name,
            self._allocator,
            self._config.sockets,
            self._config.registry,
            partial(self._on_registered, name),
            say=self._say,
        )
        await plugin.open(offer)
        self._open[name] = plugin

    @property
    def _unit(self) -> MemoryUnit:
        return MemoryUnit.GIB if self._config.gibibytes else MemoryUnit.MIB

    def _within_limits(self, every: Iterable[Offer], limit: int) -> list[Offer]:
        """Return the offers within a kubelet's limits, and log what they leave out."""
        fit: list[Offer] = []
        left_out: list[str] = []
        for offer in every:
            size = encoded_size(offer)
            most = offer.units if size <= LIST_LIMIT else offer.units * LIST_LIMIT // size
            shown, others = trim(offer, min(most, limit))
            fit.append(shown)
            left_out += others
        self._log_left_out(tuple(left_out))
        return [offer for offer in fit if offer.blocks]

    def _log_left_out(self, left_out: tuple[str, ...]) -> None:
        if left_out and left_out != self._left_out:
            self._say(
                f"more units than this kubelet can handle: {', '.join(left_out)} is not offered by memory; "
                "use claims, count in GiB (--memory-unit GiB), or set --most-units"
            )
        self._left_out = left_out

    def _on_registered(self, name: str, registered: Registered) -> None:
        if not registered.ok:
            self._say(f"the kubelet refused the registration of {name}: {registered.error}")
        self._due.set()
