"""Another client that writes to the agents' nodes, by patch and by update, and remembers its last values."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from bench.agents_check import FOREIGN, ExpectedNode
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
from fairlead.errors import ConflictError, NotFoundError
from fairlead.keys import PREFIX

WRITERS = 8
"""Concurrent writers; each node belongs to one of them, so that every node has a defined last write."""
UNDO_SHARE = 0.2
"""The share of its writes that undo what agents published."""
SKEW = 3
"""The higher, the more writes go to a few nodes."""
LONGEST_EDIT = 0.3
"""The most seconds between reading a node and writing it back."""
_FIELD_MANAGER = "other-writer"


class OtherWriter:
    """Writes its own labels and annotations, by patch and by replacing whole nodes, until stopped."""

    def __init__(
        self, client: Client, wanted: Mapping[str, ExpectedNode], pace: float, dice: random.Random
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._pause = WRITERS / pace
        self._dice = dice
        self._number = 0
        self._stopped = False
        self.undoes = False
        """Whether it also undoes what agents published."""
        self.done: Counter[str] = Counter()
        names = list(wanted)
        self._writers = [asyncio.create_task(self._write(names[hand::WRITERS])) for hand in range(WRITERS)]

    async def stop(self) -> None:
        """Finish the current writes, and stop."""
        self._stopped = True
        await asyncio.gather(*self._writers)

    async def _write(self, names: Sequence[str]) -> None:
        while names and not self._stopped:
            # Some nodes get more writes than others: there writers conflict.
            name = names[int(len(names) * self._dice.random() ** SKEW)]
            roll = self._dice.random()
            if self.undoes and roll < UNDO_SHARE:
                await self._undo(name)
            elif roll < 0.6:
                await self._patch(name)
            else:
                await self._replace(name)
            await asyncio.sleep(self._pause * self._dice.uniform(0.5, 1.5))

    def _next(self, name: str) -> dict[str, dict[str, str]]:
        self._number += 1
        key, value = f"{FOREIGN}key-{self._dice.randrange(3)}", str(self._number)
        self._wanted[name].labels[key] = self._wanted[name].annotations[key] = value
        return {"labels": {key: value}, "annotations": {key: value}}

    async def _patch(self, name: str) -> None:
        await self._client.patch(NODES, name, {"metadata": self._next(name)}, field_manager=_FIELD_MANAGER)
        self.done["patches"] += 1

    async def _replace(self, name: str) -> None:
        """Read, change and write back a whole node; repeat on a conflict."""
        change = self._next(name)
        while True:
            node = (await self._client.get(NODES.raw(), name)).document()
            for kind, entries in change.items():
                node["metadata"].setdefault(kind, {}).update(entries)
            await asyncio.sleep(self._dice.uniform(0, LONGEST_EDIT))
            try:
                await self._client.update(NODES.raw(), node, field_manager=_FIELD_MANAGER)
            except ConflictError:
                self.done["conflicts, retried"] += 1
                continue
            self.done["replacements"] += 1
            return

    async def _undo(self, name: str) -> None:
        """Delete or falsify one of the agent's labels, or delete its slice."""
        if self._dice.random() < 0.2:
            with suppress(NotFoundError):
                await self._client.delete(RESOURCE_SLICES, f"{name}-fairlead-0")
                self.done["slices of agents deleted"] += 1
            return
        node = await self._client.get(NODES, name)
        ours = [key for key in node.metadata.labels if key.startswith(PREFIX)]
        if ours:
            change = {self._dice.choice(ours): self._dice.choice((None, "by-hand"))}
            await self._client.patch(
                NODES, name, {"metadata": {"labels": change}}, field_manager=_FIELD_MANAGER
            )
            self.done["labels of agents undone"] += 1
