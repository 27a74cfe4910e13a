"""Measure one stage in a process of its own: `python -m fairlead.pipeline.profile.process`, JSON in and out.

It reads the frames of its inputs from records, calls the stage as a worker would, one frame after another,
and may write what the stage makes into a record, for the stages behind.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from fairlead.errors import FairleadError
from fairlead.pipeline.control import Message, stage_from_json
from fairlead.pipeline.endpoints.reading import Captured, Pending
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.frame import FrameHeader, boottime
from fairlead.pipeline.place import resident_bytes
from fairlead.pipeline.profile.record import FrameRecorder, joined, map_record, read_frames
from fairlead.pipeline.programs.runner import ProgramRunner
from fairlead.pipeline.spec import OnError, StageRole, StageSpec
from fairlead.pipeline.work.runners import FunctionRunner, StageFaultError, one_line
from fairlead.pipeline.work.stateful import StatefulRunner
from fairlead.pipeline.work.values import decode_value
from fairlead.targets import LoadError

_WAIT: Final = 0.25


@dataclass(slots=True)
class _Measured:
    """What was measured so far."""

    seconds: list[float] = field(default_factory=list)
    """Of each value, in order."""
    made: int = 0
    failed: int = 0
    mapped: int = 0
    """Bytes of its inputs, which are not the stage's own memory."""

    def to_json(self) -> Message:
        return {
            "problem": "",
            "seconds": self.seconds,
            "made": self.made,
            "failed": self.failed,
            "memory_bytes": max(0, resident_bytes(os.getpid()) - self.mapped),
        }


def measure(body: Message) -> Message:
    """Return the seconds of each value, how many values the stage made, its memory, or what went wrong."""
    stage = stage_from_json(body["stage"])
    if stage.cores:
        os.sched_setaffinity(0, stage.cores)
    end = time.monotonic() + body["seconds"]
    with ExitStack() as files:
        record = None
        if body["output"]:
            output = files.enter_context(open(body["output"], "wb"))
            record = FrameRecorder(output, body["output_bytes"])
        if stage.role is StageRole.SOURCE:
            return _read_source(stage, body, record, end).to_json()
        inputs = [files.enter_context(map_record(path)) for path in body["inputs"]]
        frames = joined([read_frames(each) for each in inputs])
        values = ((header, [decode_value(frame) for frame in several]) for header, several in frames)
        measured = _run(stage, body["folder"], islice(values, body["frames"]), len(inputs), record, end)
        measured.mapped = sum(each.size for each in inputs)
        return measured.to_json()


def _read_source(stage: StageSpec, body: Message, record: FrameRecorder | None, end: float) -> _Measured:
    source = SOURCES[stage.target].open(stage.options, body["folder"])
    measured = _Measured()
    while measured.made < body["frames"] and time.monotonic() < end:
        begin = time.perf_counter()
        value = source.read()
        seconds = time.perf_counter() - begin
        if isinstance(value, Pending):
            waits = [value.descriptor] if value.descriptor is not None else []
            select.select(waits, [], [], min(_WAIT, max(0.0, value.until - boottime())))
            continue
        value = value.value if isinstance(value, Captured) else value
        if value is None:
            break
        measured.seconds.append(seconds)
        if record is not None:
            record.write(FrameHeader(body["stream"], measured.made, boottime()), value)
            if record.is_full:
                break
        measured.made += 1
    return measured


def _run(
    stage: StageSpec,
    folder: str,
    frames: Iterator[tuple[FrameHeader, list[Any]]],
    inputs: int,
    record: FrameRecorder | None,
    end: float,
) -> _Measured:
    runner, call, size = _open(stage, folder, inputs)
    try:
        return _call_all(stage, call, size, frames, record, end)
    finally:
        runner.close()


def _call_all(
    stage: StageSpec,
    call: Callable[..., list[list[Any]]],
    size: int,
    frames: Iterator[tuple[FrameHeader, list[Any]]],
    record: FrameRecorder | None,
    end: float,
) -> _Measured:
    measured = _Measured()
    while (batch := list(islice(frames, size))) and time.monotonic() < end:
        begin = time.perf_counter()
        try:
            results = call(batch)
        except StageFaultError:
            if stage.on_error is not OnError.SKIP:
                raise
            measured.failed += len(batch)
            continue
        measured.seconds += [(time.perf_counter() - begin) / len(batch)] * len(batch)
        for (header, _), values in zip(batch, results, strict=True):
            for value in values:
                measured.made += 1
                if record is not None:
                    record.write(header, value)
    return measured


def _open(
    stage: StageSpec, folder: str, inputs: int
) -> tuple[FunctionRunner | ProgramRunner, Callable[..., list[list[Any]]], int]:
    """Return the open stage, what calls it with some frames, and how many frames it takes at once."""
    if stage.role is StageRole.EXEC:
        program = ProgramRunner(stage, folder, inputs)
        return program, lambda batch: [_ask_program(program, *batch[0])], 1
    if stage.is_stateful:
        stateful = StatefulRunner(stage, folder, lambda stream, before, state: None)
        return stateful, lambda batch: [_call_stateful(stateful, *batch[0])], 1
    runner = FunctionRunner(stage, folder)
    if stage.batch is None:
        return runner, lambda batch: [runner.run(batch[0][1])], 1
    return runner, lambda batch: _call_batch(runner, batch), stage.batch.most


def _call_stateful(runner: StatefulRunner, header: FrameHeader, values: list[Any]) -> list[Any]:
    runner.begin_frame(header)
    return runner.run(values)


def _call_batch(runner: FunctionRunner, batch: Sequence[tuple[FrameHeader, list[Any]]]) -> list[list[Any]]:
    results = runner.run_batch([values[0] for _, values in batch])
    return [[] if result is None else [result] for result in results]


def _ask_program(program: ProgramRunner, header: FrameHeader, values: list[Any]) -> list[Any]:
    answer = program.offer(header, values)
    while answer is None:
        answers = program.exchange()
        if answers:
            answer = answers[0]
        else:
            reading, writing = program.descriptors()
            select.select(reading, writing, [], _WAIT)
    if answer.fault:
        raise StageFaultError(answer.fault)
    return [] if answer.value is None else [answer.value]


def main() -> None:
    """Answer one question."""
    body = json.load(sys.stdin)
    # What modules and libraries print is no answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        result = measure(body)
    except (FairleadError, LoadError) as error:
        result = {"problem": " ".join(f"{error}".split())}
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        result = {"problem": one_line(error)}
    answer.write(json.dumps(result))
    answer.flush()
    os._exit(0)  # threads of the user's libraries must not keep it


if __name__ == "__main__":
    main()
