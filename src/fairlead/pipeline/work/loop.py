"""The loop of a worker: frames in, through its stages, and out; messages of the coordinator in between."""

import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from fairlead.pipeline.awake import AwakeWait
from fairlead.pipeline.checkpoints import read_memory
from fairlead.pipeline.control import Channel, Message, stage_from_json
from fairlead.pipeline.endpoints.reading import Pending
from fairlead.pipeline.frame import Frame, FrameHeader, boottime
from fairlead.pipeline.observe.spans import FrameTracer
from fairlead.pipeline.programs.runner import ProgramAnswer, ProgramRunner
from fairlead.pipeline.progress import ProgressPage
from fairlead.pipeline.ring.pair import RingReceiver, RingSender
from fairlead.pipeline.spec import OnError
from fairlead.pipeline.work.emission import Emission
from fairlead.pipeline.work.intake import Intake, make_intake
from fairlead.pipeline.work.join import JoinedInput
from fairlead.pipeline.work.opening import OpenStages, StageRunner, open_stages
from fairlead.pipeline.work.outlet import Outlet
from fairlead.pipeline.work.reporting import FAILED, WorkerReports
from fairlead.pipeline.work.runners import SinkRunner, StageFaultError
from fairlead.pipeline.work.source_reader import SourceReader
from fairlead.pipeline.work.stage_batches import StageBatches, make_batches
from fairlead.pipeline.work.stateful import RestoredStates, StatefulRunner
from fairlead.pipeline.work.values import decode_value, end_of


class PipelineWorker:
    """The stages of one process, one after another."""

    def __init__(self, channel: Channel, body: Message, page: ProgressPage) -> None:
        self._channel = channel
        self._page = page
        self._awake = AwakeWait()
        self._stages = [stage_from_json(each) for each in body["stages"]]
        self._epoch: int = body["epoch"]
        self._skip = {tuple(each) for each in body["skip"]}
        self._done = False
        self._reads = False
        self._draining = False
        self._hands_over = False
        """Its stages go on elsewhere, with the states that they have here after the last frame."""
        self._free = time.perf_counter()
        """Since when the worker waits for a frame."""
        self._intakes = [make_intake(each, replayable=body["replayable"]) for each in body["inputs"]]
        self._outlets = [self._outlet(each) for each in body["outputs"]]
        self._ends: list[Intake | Outlet] = [*self._intakes, *self._outlets]
        self._input = JoinedInput(self._intakes) if self._intakes else None
        self._tracer = FrameTracer(
            [stage.name for stage in self._stages], [each.name for each in self._intakes]
        )
        self._emission = Emission(self._outlets, self._tracer)
        self._reports = WorkerReports(channel, self._tracer)
        self._states = RestoredStates(body["restores"])
        self._opened = self._open(body)
        self._source, self._program = self._opened.source, self._opened.program
        self._runners = self._opened.runners
        *_, self._last = self._opened.counters()
        self._batch = make_batches(self._stages[0], self._runners, self._intakes)
        self._begin_epoch(body)

    def _outlet(self, output: Message) -> Outlet:
        return Outlet(
            output["edge"],
            output["links"],
            marked=output["marked"],
            wait=self.wait,
            is_stale=self.is_stale,
            path=output["path"],
            on_switch=self._on_switch,
        )

    def is_stale(self, epoch: int) -> bool:
        """Return whether frames of an epoch are not wanted any more."""
        return epoch < self._epoch

    def run(self) -> None:
        """Work until the coordinator ends it."""
        while self._states.missing or not all(end.is_attached for end in self._ends):
            self.wait([])
        if self._states.has_some:
            self._opened.restore(self._states.of_epoch(self._epoch))
        self._channel.send({"event": "ready"})
        while True:
            self._poll()
            waits_to_start = self._source is not None and not (self._reads or self._draining)
            if self._done or waits_to_start:
                self.wait([])
            elif self._source is not None:
                self._read_source(self._source)
            elif self._program is not None and self._input is not None:
                self._exchange(self._program, self._input)
            elif self._input is not None:
                self._consume(self._input)

    def wait(
        self, descriptors: Sequence[int], until: float = float("inf"), writing: Sequence[int] = ()
    ) -> None:
        """Wait for a descriptor or a message, at most until the next report is due or until a moment."""
        seconds = min(until - boottime(), self._reports.due_in)
        self._awake.select([*descriptors, self._channel.fileno()], writing, max(0.0, seconds))
        self._poll()

    def _open(self, body: Message) -> OpenStages:
        try:
            return open_stages(self._stages, body, self._channel, self._page)
        except StageFaultError as error:
            self._reports.fail(error)

    def _poll(self) -> None:
        """Handle the messages of the coordinator, and send a report if it is due."""
        try:
            while (received := self._channel.receive()) is not None:
                self._handle(*received)
        except EOFError:
            sys.exit(FAILED)
        if self._reports.due_in <= 0:
            self._report()

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        match message["do"]:
            case "input":
                self._attach_input(message, RingReceiver(socket.socket(fileno=descriptors[0])))
            case "output":
                sender = RingSender(socket.socket(fileno=descriptors[0]), message["slots"])
                outlet = self._end_named(self._outlets, message["edge"])
                outlet.attach(message["index"], sender, message["path"], message["links"], message["share"])
            case "restore":
                self._states.add(message, read_memory(descriptors[0]))
            case "epoch":
                self._begin_epoch(message)
            case "start":
                self._reads = True
            case "drain":
                self._draining = True
            case "hand_over":
                self._hands_over = True
            case "switch" | "commit" | "cancel":
                self._change_paths(message)
            case "end":
                for runner in self._runners:
                    runner.close()
                self._report()
                sys.exit(0)

    def _attach_input(self, message: Message, receiver: RingReceiver) -> None:
        intake = self._end_named(self._intakes, message["edge"])
        if intake.attach(message["index"], receiver, message["path"], message["links"]):
            self._channel.send({"event": "joined", "edge": intake.name, "path": message["path"]})

    def _change_paths(self, message: Message) -> None:
        """Begin a move at an output, or end one at every input and output."""
        if message["do"] == "switch":
            outlet = self._end_named(self._outlets, message["edge"])
            outlet.switch()
            if self._done:  # there is no further frame: the new path ends as it begins
                outlet.send_end(end_of(self._epoch))
        for end in self._ends:
            if message["do"] == "commit":
                end.commit()
            elif message["do"] == "cancel":
                end.cancel()

    def _on_switch(self, edge: str, path: int, sequence: int) -> None:
        self._channel.send({"event": "switched", "edge": edge, "path": path, "sequence": sequence})

    @staticmethod
    def _end_named(ends: Sequence[Any], name: str) -> Any:
        return next(end for end in ends if end.name == name)

    def _begin_epoch(self, message: Message) -> None:
        self._epoch = message["epoch"]
        start: dict[int, int] = {int(key): value for key, value in message["start"].items()}
        self._opened.restore(self._states.of_epoch(self._epoch))
        self._done = False
        for end in self._ends:
            end.commit()
        for intake in self._intakes:
            intake.start_epoch(self._epoch, start)
        if self._input is not None:
            self._input.reset()
        if self._batch is not None:
            self._batch.take(float("inf"))
        if self._source is not None:
            self._source.begin_epoch(start)

    def _read_source(self, source: SourceReader) -> None:
        """Read one frame when it is due, and send it through the stages."""
        if source.due > boottime() and not self._draining:
            self.wait([], source.due)
            return
        try:
            read = None if self._draining else source.read(self._epoch)
        except StageFaultError as error:
            self._reports.fail(error)
        if read is None:
            self._finish()
        elif isinstance(read, Pending):
            self._wait_for(read)
        else:
            if read.header.trace:
                self._tracer.on_stage(read.header, 0, read.began, boottime())
            self._pass_on(read.header, [read.value], 0)

    def _wait_for(self, pending: Pending) -> None:
        """Wait for a source that has no frame yet, and pass on what it says."""
        if pending.notice:
            self._channel.send({"event": "log", "line": f"stage {self._stages[0].name}: {pending.notice}"})
        self.wait([] if pending.descriptor is None else [pending.descriptor], pending.until)

    def _consume(self, source: JoinedInput) -> None:
        taken = None if self._batch is not None and self._batch.is_full else source.take()
        if taken is None:  # frames that are there join a batch, also one that is due
            if self._batch is not None and self._process_batch(self._batch, over=source.is_over):
                return
            if source.is_over:
                self._finish()
            else:
                due = min(source.due(), self._batch.due() if self._batch else float("inf"))
                self.wait(source.descriptors(), due)
            return
        header, frames = taken
        if self._is_dropped(source, header, frames):
            return
        if self._batch is not None:
            self._count_receive(frames)
            self._batch.add((header, frames[0]), boottime())
        else:
            values = [decode_value(frame) for frame in frames]
            self._count_receive(frames)
            self._pass_on(header, values, 0)
            self._free = time.perf_counter()

    def _count_receive(self, frames: Sequence[Frame]) -> None:
        """Count the time since the worker was free, until a frame was there."""
        free, self._free = self._free, time.perf_counter()
        self._runners[0].counters.receive.observe(self._free - free)
        for intake, frame in zip(self._intakes, frames, strict=True):
            if frame.header.trace:
                self._tracer.on_receive(frame.header, intake.name, intake.taken_at, boottime())

    def _exchange(self, program: ProgramRunner, source: JoinedInput) -> None:
        """Send a frame to the program if it takes one, and pass on what it has answered."""
        taken = source.take() if program.has_room else None
        if taken is not None:
            header, frames = taken
            if not self._is_dropped(source, header, frames):
                refused = program.offer(header, [decode_value(frame) for frame in frames])
                if refused is not None:
                    self._on_answer(program, refused)
        if program.oldest is not None:
            self._page.begin(0, program.oldest.stream, program.oldest.sequence, program.since)
        try:
            answers = program.exchange()
        except StageFaultError as error:
            self._reports.fail(error)
        for answer in answers:
            self._on_answer(program, answer)
        if taken is None and not answers:
            if source.is_over and program.oldest is None:
                self._finish()
                return
            reading, writing = program.descriptors()
            due = float("inf") if not program.has_room else source.due()
            self.wait([*reading, *(source.descriptors() if program.has_room else ())], due, writing)

    def _on_answer(self, program: ProgramRunner, answer: ProgramAnswer) -> None:
        header = answer.header
        if answer.fault:
            self._page.begin(0, header.stream, header.sequence, boottime())
            self._on_fault(StageFaultError(answer.fault), program, 1)
        self._page.end()
        self._emit(header, [] if answer.value is None else [answer.value])

    def _is_dropped(self, source: JoinedInput, header: FrameHeader, frames: Sequence[Frame]) -> bool:
        """Drop a frame that is not to come, or that this stage failed with before; False: it is another."""
        if frames and header.parts and (header.stream, header.sequence) not in self._skip:
            return False
        for intake, frame in zip(source.intakes, frames, strict=False):
            intake.discard(frame, "failed")
        self._emission.mark(header)
        return True

    def _process_batch(self, batch: StageBatches, *, over: bool) -> bool:
        """Process the batch if it is due; False: it is not."""
        taken = batch.take(float("inf") if over else boottime())
        if not taken:
            return False
        first = taken[0][0]
        now = boottime()
        self._page.begin(0, first.stream, first.sequence, now)
        try:
            results = batch.call(taken)
        except StageFaultError as error:
            self._on_fault(error, self._runners[0], len(taken))
            results = [None] * len(taken)
        self._page.end()
        end = boottime()
        for (header, _), result in zip(taken, results, strict=True):
            if header.trace:
                self._tracer.on_stage(header, 0, now, end)
            self._emit(header, [] if result is None else [result])
        return True

    def _pass_on(self, header: FrameHeader, values: list[Any], index: int) -> None:
        """Run the stages from one on with a value, or with the values of a join; send what they make."""
        if index == len(self._runners):
            self._emit(header, values)
            return
        runner = self._runners[index]
        assert not isinstance(runner, ProgramRunner)
        place = index + self._opened.first
        now = boottime()
        self._page.begin(place, header.stream, header.sequence, now)
        made: list[Any] = []
        try:
            if isinstance(runner, SinkRunner):
                runner.run(header, values[0])
            else:
                if isinstance(runner, StatefulRunner):
                    runner.begin_frame(header)
                made = runner.run(values)
        except StageFaultError as error:
            self._on_fault(error, runner, 1)
        self._page.end()
        if header.trace:
            self._tracer.on_stage(header, place, now, boottime())
        if isinstance(runner, SinkRunner):
            return
        if not made:
            self._emission.mark(header)
        for value in made:
            if self.is_stale(header.epoch):  # a new epoch began while an earlier value was being sent
                return
            self._pass_on(header, [value], index + 1)

    def _on_fault(self, error: StageFaultError, runner: StageRunner, frames: int) -> None:
        if runner.stage.on_error is not OnError.SKIP:
            self._reports.fail(error)
        runner.counters.failed += frames

    def _emit(self, header: FrameHeader, values: Sequence[Any]) -> None:
        begin = time.perf_counter()
        try:
            self._emission.send(header, values)
        except StageFaultError as error:
            self._page.begin(len(self._stages) - 1, header.stream, header.sequence, boottime())
            self._reports.fail(error)
        self._free = time.perf_counter()
        self._last.send.observe(self._free - begin)

    def _finish(self) -> None:
        """Pass the end on, and say that everything was passed on."""
        epoch = self._epoch
        self._emission.end(epoch)
        if not self.is_stale(epoch):
            self._done = True
            self._report()
            states = self._opened.hand_over() if self._hands_over else 0
            self._channel.send({"event": "done", "epoch": epoch, "states": states})

    def _report(self) -> None:
        self._reports.send(zip(self._stages, self._opened.counters(), strict=True), self._ends)
