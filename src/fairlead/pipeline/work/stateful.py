"""Stages with state: one object of the user's class for each stream, and its checkpoints."""

import json
import os
from collections.abc import Callable
from typing import Any, Final

from fairlead.pipeline.checkpoints import EVERY, MOST_BYTES, write_memory
from fairlead.pipeline.control import Channel, Message
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.load import makes_several
from fairlead.pipeline.spec import StageSpec
from fairlead.pipeline.work.runners import FunctionRunner, StageFaultError, one_line
from fairlead.targets import load_target

_BYTES: Final = b"b"
_JSON: Final = b"j"
SaveCheckpoint = Callable[[int, int | None, bytes], None]
"""Takes a stream, the number of the frame that comes next (None: none comes), and the state."""


class StatefulRunner(FunctionRunner):
    """A class with `open(state)`, `process(value)` and `checkpoint()`; `open` gets None at the start."""

    def __init__(self, stage: StageSpec, folder: str, save: SaveCheckpoint) -> None:
        self._class: Callable[[], Any] = load_target(stage.target, folder)
        self._save = save
        self._objects: dict[int, Any] = {}
        self._labels: dict[int, int] = {}
        self._restored: dict[int, Any] = {}
        super().__init__(stage, folder)

    def begin_epoch(self, states: dict[int, Any]) -> None:
        """Forget every object; those of streams with a checkpoint are opened with it."""
        self._objects.clear()
        self._labels.clear()
        self._restored = states

    def begin_frame(self, header: FrameHeader) -> None:
        """Let `run` use the object of the frame's stream; take a checkpoint first if one is due."""
        stream, label = header.stream, header.sequence - header.sequence % EVERY
        if stream not in self._objects:
            self._objects[stream] = self._make(self._restored.pop(stream, None))
            self._labels[stream] = label
        elif label > self._labels[stream]:
            self._labels[stream] = label
            self._save(stream, label, self._state_of(self._objects[stream]))
        self._function = self._objects[stream].process

    def hand_over(self) -> int:
        """Send the state of each stream, after its last frame here; return how many there are."""
        unused = {stream: encode_state(state) for stream, state in self._restored.items()}
        states = unused | {stream: self._state_of(made) for stream, made in self._objects.items()}
        for stream, state in states.items():
            self._save(stream, None, state)
        return len(states)

    def close(self) -> None:
        """Let every object finish."""
        for each in self._objects.values():
            getattr(each, "close", lambda: None)()

    def _load(self) -> None:
        self._several = makes_several(self._class)

    def _make(self, state: Any) -> Any:
        try:
            made = self._class()
            if hasattr(made, "open"):
                made.open(state)
        except Exception as error:  # the user's class may raise anything
            raise StageFaultError(f"raised {one_line(error)} in open") from error
        return made

    def _state_of(self, made: Any) -> bytes:
        try:
            data = encode_state(made.checkpoint())
        except Exception as error:  # the user's class may raise anything
            raise StageFaultError(f"raised {one_line(error)} in checkpoint") from error
        if len(data) > MOST_BYTES:
            raise StageFaultError(f"made a checkpoint of {len(data)} bytes: at most {MOST_BYTES} are kept")
        return data


class RestoredStates:
    """The checkpoints that a worker goes on from, as they come."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        """Checkpoints that are still to come."""
        self._states: dict[int, dict[int, Any]] = {}
        """Of `_epoch`: by stage, then by stream."""
        self._epoch = -1

    @property
    def has_some(self) -> bool:
        """Whether any has come that was not used."""
        return bool(self._states)

    def add(self, message: Message, data: bytes) -> None:
        """Keep a state for the epoch that it is for; those of an epoch that never began are void."""
        if message["epoch"] != self._epoch:
            self._states, self._epoch = {}, message["epoch"]
        self._states.setdefault(message["stage"], {})[message["stream"]] = decode_state(data)
        self.missing = max(0, self.missing - 1)

    def of_epoch(self, epoch: int) -> dict[int, dict[int, Any]]:
        """Return the states of an epoch that begins, by stage and stream; they are used once."""
        if self._epoch != epoch:
            self._states = {}
        return self._states


def send_checkpoint(channel: Channel, stage: int, stream: int, before: int | None, state: bytes) -> None:
    """Hand a checkpoint to the coordinator."""
    descriptor = write_memory(state)
    message = {"event": "checkpoint", "stage": stage, "stream": stream, "before": before}
    channel.send(message, (descriptor,))
    os.close(descriptor)


def encode_state(state: Any) -> bytes:
    """Return a state as bytes: bytes as they are, others as JSON; TypeError for what JSON cannot carry."""
    return _BYTES + state if isinstance(state, bytes) else _JSON + json.dumps(state).encode()


def decode_state(data: bytes) -> Any:
    """Return the state that `encode_state` was given."""
    return data[1:] if data[:1] == _BYTES else json.loads(data[1:])
