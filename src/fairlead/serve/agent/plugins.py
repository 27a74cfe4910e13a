"""The plugins that a kubelet sees: one for each resource, and one for claims."""

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
"""The name of the claims' plugin among those of the resources."""


class PluginSet:
    """Opens, updates and closes plugins, so that the kubelet sees what there is."""

    def __init__(
        self, terms: PublishConfig, desk: Allocator, due: asyncio.Event, say: Callable[[str], None]
    ) -> None:
        self._terms = terms
        self._desk = desk
        self._due = due
        self._say = say
        self._open: dict[str, DevicePlugin] = {}
        self._claims: ClaimPlugin | None = None
        self._left_out: tuple[str, ...] = ()
        self._shown = False

    @property
    def claims_registered(self) -> bool:
        """Whether the kubelet knows the claims' plugin."""
        return self._claims is not None and bool(self._claims.registered and self._claims.registered.ok)

    def registered(self) -> dict[str, bool]:
        """Return which plugins the kubelet has accepted."""
        found = {
            name: bool(plugin.registered and plugin.registered.ok) for name, plugin in self._open.items()
        }
        return {**found, CLAIMS: self.claims_registered} if self._claims else found

    def problem(self) -> str:
        """Return which plugins the kubelet does not know yet."""
        if not self._terms.forms:
            return ""
        if not self._shown:
            return "the kubelet has been shown nothing yet"
        waiting = sorted(name for name, known in self.registered().items() if not known)
        return f"not registered with the kubelet: {', '.join(waiting)}" if waiting else ""

    async def reconcile(
        self, inventory: Inventory, held: Iterable[Holding], *, together: bool, kubelet: str = ""
    ) -> None:
        """Offer what there is to a kubelet of some version; what nothing is left of is withdrawn."""
        limit = self._terms.most_units or unit_limit(kubelet)
        plan = OfferPlan(unit=self._unit, forms=self._terms.forms, together=together)
        wanted = {offer.resource: offer for offer in self._fitting(offers(inventory, held, plan), limit)}
        self._desk.offered = wanted
        for name in self._open.keys() - wanted.keys():
            await self._open.pop(name).close()
        for name, offer in wanted.items():
            await self._show(name, offer)
        if Form.CLAIM in self._terms.forms and self._claims is None:
            plugin = ClaimPlugin(
                self._desk,
                self._terms.sockets,
                self._terms.registry,
                partial(self._told, CLAIMS),
                say=self._say,
            )
            await plugin.open()
            self._claims = plugin
        self._shown = True

    async def close(self) -> None:
        """Withdraw everything."""
        plugins: list[DevicePlugin | ClaimPlugin] = [*self._open.values()]
        plugins += [self._claims] if self._claims else []
        self._open, self._claims = {}, None
        await asyncio.gather(*(plugin.close() for plugin in plugins))

    async def _show(self, name: str, offer: Offer) -> None:
        if name in self._open:
            self._open[name].offer(offer)
            return
        plugin = DevicePlugin(
            name,
            self._desk,
            self._terms.sockets,
            self._terms.registry,
            partial(self._told, name),
            say=self._say,
        )
        await plugin.open(offer)
        self._open[name] = plugin

    @property
    def _unit(self) -> MemoryUnit:
        return MemoryUnit.GIB if self._terms.gibibytes else MemoryUnit.MIB

    def _fitting(self, every: Iterable[Offer], limit: int) -> list[Offer]:
        """Return the offers that a kubelet can bear, and complain of what they leave out."""
        fit: list[Offer] = []
        left_out: list[str] = []
        for offer in every:
            size = encoded_size(offer)
            most = offer.units if size <= LIST_LIMIT else offer.units * LIST_LIMIT // size
            shown, others = trim(offer, min(most, limit))
            fit.append(shown)
            left_out += others
        self._complain(tuple(left_out))
        return [offer for offer in fit if offer.blocks]

    def _complain(self, left_out: tuple[str, ...]) -> None:
        if left_out and left_out != self._left_out:
            self._say(
                f"more units than this kubelet can bear: {', '.join(left_out)} is not offered by memory; "
                "use claims, count in GiB (--memory-unit GiB), or say --most-units"
            )
        self._left_out = left_out

    def _told(self, name: str, registered: Registered) -> None:
        if not registered.ok:
            self._say(f"the kubelet does not take {name}: {registered.error}")
        self._due.set()
