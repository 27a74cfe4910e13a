"""The checkpoints of stages with state, held by the coordinator's process: they outlive every worker.

A checkpoint comes from its worker in a memfd. It is labelled with a sequence number: the state before
that frame of a stream, after all earlier ones. All stages take theirs at the same numbers, so that a replay
can begin where each of them has one.
"""

import os
from collections.abc import Mapping
from typing import Final

EVERY: Final = 16
"""Frames of a stream from one checkpoint to the next."""
MOST_BYTES: Final = 16 << 20
"""Of all checkpoints of one stage and stream; beyond it the oldest go, and a replay begins earlier."""
_FINAL: Final = -1
"""The label of a state that is handed over, until its frame is known."""
Key = tuple[str, int, int]
"""The worker, the index of its stage, and the stream."""


class CheckpointStore:
    """The checkpoints of a run."""

    def __init__(self) -> None:
        self._held: dict[Key, dict[int, bytes]] = {}
        """States by label, oldest first."""

    def add(self, key: Key, before: int, state: bytes, acknowledged: int) -> None:
        """Keep a checkpoint; drop those that no replay needs: the sinks have taken the frames behind them."""
        held = self._held.setdefault(key, {})
        held.pop(before, None)
        held[before] = state
        useful = max((label for label in held if label <= acknowledged), default=0)
        for label in [label for label in held if label < useful]:
            del held[label]
        while len(held) > 1 and sum(map(len, held.values())) > MOST_BYTES:
            del held[min(held)]

    def add_final(self, key: Key, state: bytes) -> None:
        """Keep the state of a stage that moves, after its last frame here."""
        self._held.setdefault(key, {})[_FINAL] = state

    def carry(self, old: tuple[str, int], new: tuple[str, int], before: int | None) -> None:
        """Give the checkpoints of a stage to its new worker; its final state is that before a frame."""
        for key in [key for key in self._held if key[:2] == old]:
            held = self._held.pop(key)
            final = held.pop(_FINAL, None)
            if final is not None and before is not None:
                held[before] = final
            if held:
                self._held[(new[0], new[1], key[2])] = held

    def count_final(self, worker: str) -> int:
        """Return how many final states of a worker are here."""
        return sum(key[0] == worker and _FINAL in held for key, held in self._held.items())

    def labels(self) -> dict[tuple[str, int], dict[int, frozenset[int]]]:
        """Return the labels by worker and stage, and then by stream."""
        found: dict[tuple[str, int], dict[int, frozenset[int]]] = {}
        for (worker, stage, stream), held in self._held.items():
            found.setdefault((worker, stage), {})[stream] = frozenset(held) - {_FINAL}
        return found

    def at(self, worker: str, start: Mapping[int, int], *, latest: bool) -> list[tuple[int, int, bytes]]:
        """Return stage, stream and state of the checkpoints before the first frames, or the latest."""
        chosen = []
        for (name, stage, stream), held in self._held.items():
            label = max(held) if latest else start.get(stream, 0)
            if name == worker and label in held:
                chosen.append((stage, stream, held[label]))
        return chosen

    def drop_after(self, worker: str, start: Mapping[int, int]) -> None:
        """Forget what a worker takes again: the frames behind are replayed."""
        for (name, _, stream), held in self._held.items():
            if name == worker:
                for label in [label for label in held if label > start.get(stream, 0)]:
                    del held[label]


def write_memory(data: bytes) -> int:
    """Return the descriptor of new memory that holds bytes; it has no name."""
    descriptor = os.memfd_create("fairlead-checkpoint", os.MFD_CLOEXEC)
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    return descriptor


def read_memory(descriptor: int) -> bytes:
    """Return the bytes of a checkpoint, and close its descriptor."""
    with open(descriptor, "rb", buffering=0) as file:
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
