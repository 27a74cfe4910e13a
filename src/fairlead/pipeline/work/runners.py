"""Functions, generators, classes, sources and sinks, as a worker calls them."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fairlead.errors import FairleadError
from fairlead.pipeline.endpoints.sinks import SINKS, FrameSink, Position
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.models.session import open_model
from fairlead.pipeline.observe.histogram import DurationHistogram
from fairlead.pipeline.progress import ProgressPage
from fairlead.pipeline.spec import StageKind, StageSpec
from fairlead.targets import load_target


class StageFaultError(FairleadError):
    """A stage raised, or made what its port does not carry; the message is one line."""


class StageCounters:
    """What a stage has done."""

    def __init__(self) -> None:
        self.frames_in = 0
        self.frames_out = 0
        self.failed = 0
        self.dropped: dict[str, int] = {}
        """Frames that a live source had before the pipeline could take them, by reason."""
        self.receive = DurationHistogram()
        """From the end of the frame before until the next one was there and decoded."""
        self.process = DurationHistogram()
        """One duration for each call; of a batch, one for all its frames."""
        self.send = DurationHistogram()
        """Encoding, waiting for room, and copying."""
        self.batch: dict[str, float] | None = None
        """Of a stage with batches: the frames that a batch waits for, has at most, and how long it waits."""

    def drop(self, reason: str, number: int) -> None:
        """Count frames that were dropped."""
        if number:
            self.dropped[reason] = self.dropped.get(reason, 0) + number

    def to_json(self) -> dict[str, Any]:
        """Return the counters as a report carries them."""
        batch = {"batch": self.batch} if self.batch else {}
        return batch | {
            "in": self.frames_in,
            "out": self.frames_out,
            "failed": self.failed,
            "dropped": dict(self.dropped),
            "times": {
                "receive": self.receive.to_json(),
                "process": self.process.to_json(),
                "send": self.send.to_json(),
            },
        }


class FunctionRunner:
    """A stage that calls a function, a generator or a class of the user."""

    def __init__(self, stage: StageSpec, folder: str) -> None:
        self.stage = stage
        self.counters = StageCounters()
        self._folder = folder
        self._closing: Callable[[], Any] = lambda: None
        self._function: Callable[..., Any]
        self._several = False
        self._load()

    def _load(self) -> None:
        is_model = self.stage.kind is StageKind.ONNX
        target: Any = (
            open_model(self.stage, self._folder) if is_model else load_target(self.stage.target, self._folder)
        )
        if inspect.isclass(target):
            made: Any = target()
            if hasattr(made, "open"):
                made.open()
            self._closing = getattr(made, "close", self._closing)
            target = made.process
        self._function = target
        self._several = inspect.isgeneratorfunction(target)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Return what the stage makes of one frame; of a join, `values` has one value for each input."""
        self._check_inputs(values)
        result = self._call(values)
        made = [each for each in (result if self._several else (result,)) if each is not None]
        self._check_outputs(made)
        self.counters.frames_in += 1
        self.counters.frames_out += len(made)
        return made

    def run_batch(self, values: Sequence[Any]) -> list[Any]:
        """Return what the stage makes of several frames: one result for each, None for a filtered one."""
        self._check_inputs(values)
        results = self._call([list(values)])
        number = len(results) if isinstance(results, Sequence) or hasattr(results, "shape") else -1
        if number != len(values):
            got = f"{number} results" if number >= 0 else f"a {type(results).__name__}"
            raise StageFaultError(f"made {got} of a batch of {len(values)}: return one result for each frame")
        made = [each for each in results if each is not None]
        self._check_outputs(made)
        self.counters.frames_in += len(values)
        self.counters.frames_out += len(made)
        return list(results)

    def close(self) -> None:
        """Let a class finish."""
        self._closing()

    def _call(self, arguments: Sequence[Any]) -> Any:
        begin = time.perf_counter()
        try:
            result = self._function(*arguments)
            return list(result) if self._several else result
        except Exception as error:  # the user's function may raise anything
            raise StageFaultError(f"raised {one_line(error)}") from error
        finally:
            self.counters.process.observe(time.perf_counter() - begin)

    def _check_inputs(self, values: Sequence[Any]) -> None:
        for value in values:
            if fault := self.stage.inputs.objection(value):
                raise StageFaultError(f"got {fault}: its input is {self.stage.inputs}")

    def _check_outputs(self, values: Sequence[Any]) -> None:
        for value in values:
            if fault := self.stage.outputs.objection(value):
                wanted = (
                    self.stage.outputs if str(self.stage.outputs) != "Any" else "an array or a dictionary"
                )
                raise StageFaultError(f"returned {fault}: its output is {wanted}")


class SinkRunner:
    """A sink; it drops frames that it has taken before, in an earlier epoch or an earlier process."""

    def __init__(
        self, stage: StageSpec, folder: str, page: ProgressPage, *, resume: bool, dedupe: bool
    ) -> None:
        self.stage = stage
        self.counters = StageCounters()
        self._page = page
        self._dedupe = dedupe
        self._sink: FrameSink = SINKS[stage.target].open(stage.options, folder, resume)
        known: Mapping[int, Position] = page.positions() if resume else {}
        self._taken = {**known, **self._sink.positions()}
        self._current: dict[int, tuple[int, int, int]] = {}
        """By stream: the epoch, the sequence and the count of the frame that came last."""

    def run(self, header: FrameHeader, value: Any) -> None:
        """Take one value."""
        if fault := self.stage.inputs.objection(value):
            raise StageFaultError(f"got {fault}: its input is {self.stage.inputs}")
        self.counters.frames_in += 1
        position = self._position(header)
        if self._dedupe and position <= self._taken.get(header.stream, (-1, 0)):
            return
        begin = time.perf_counter()
        try:
            self._sink.write(header, value, position[1])
        except Exception as error:  # a function of the user, or a file system
            raise StageFaultError(f"raised {one_line(error)}") from error
        finally:
            self.counters.process.observe(time.perf_counter() - begin)
        self.counters.frames_out += 1
        self._taken[header.stream] = position
        self._page.acknowledge(header.stream, position)

    def close(self) -> None:
        """Close the sink."""
        with suppress(BrokenPipeError):
            self._sink.close()

    def _position(self, header: FrameHeader) -> Position:
        epoch, sequence, count = self._current.get(header.stream, (-1, -1, 0))
        again = (epoch, sequence) == (header.epoch, header.sequence)
        self._current[header.stream] = (header.epoch, header.sequence, count + 1 if again else 1)
        return header.sequence, count + 1 if again else 1


def one_line(error: BaseException) -> str:
    """Return an exception as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
