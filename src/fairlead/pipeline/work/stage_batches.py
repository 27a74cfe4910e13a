"""The batches of a stage: frames that are processed together, and what their calls say about the next."""

import math
from collections.abc import Sequence
from typing import Any

from fairlead.pipeline.frame import Frame, FrameHeader, boottime
from fairlead.pipeline.spec import BatchSpec, StageSpec
from fairlead.pipeline.work.batch import Batcher
from fairlead.pipeline.work.batch_size import BatchSizer
from fairlead.pipeline.work.intake import Intake
from fairlead.pipeline.work.opening import StageRunner
from fairlead.pipeline.work.runners import FunctionRunner
from fairlead.pipeline.work.values import decode_value
from fairlead.units import Seconds

BatchItem = tuple[FrameHeader, Frame]


class StageBatches(Batcher[BatchItem]):
    """The frames of one batch at a time; with `batch: auto` a sizer plans each."""

    def __init__(self, spec: BatchSpec, runner: FunctionRunner, intake: Intake) -> None:
        super().__init__(spec.most, spec.wait)
        self._runner = runner
        self._intake = intake
        self._sizer: BatchSizer | None = None
        if spec.latency is not None:
            held = math.inf if intake.contract.is_lossless else intake.contract.capacity
            self._sizer = BatchSizer(spec.most, _bounded(spec.latency, runner.stage), held)
            self.follow(self._sizer.plan())
        self._count()

    def call(self, batch: Sequence[BatchItem]) -> list[Any]:
        """Return the results of a batch that was taken, one for each frame; StageFaultError."""
        behind = len(batch) >= self.plan.most and not self.has_waited
        began = boottime()
        if self._sizer is not None:
            self._sizer.on_arrivals(self._intake.arrived, began)
        results = self._runner.run_batch([decode_value(frame) for _, frame in batch])
        if self._sizer is not None:
            self._sizer.on_call(len(batch), boottime() - began, behind=behind)
            self.follow(self._sizer.plan())
            self._count()
        return results

    def _count(self) -> None:
        """Let the next report show the plan."""
        self._runner.counters.batch = {"size": self.plan.size, "most": self.plan.most, "wait": self.plan.wait}


def make_batches(
    stage: StageSpec, runners: Sequence[StageRunner], intakes: Sequence[Intake]
) -> StageBatches | None:
    """Return the batches of the first stage of a worker; None: it takes frames one by one."""
    if stage.batch is None:
        return None
    runner = runners[0]
    assert isinstance(runner, FunctionRunner)
    return StageBatches(stage.batch, runner, intakes[0])


def _bounded(latency: Seconds, stage: StageSpec) -> Seconds:
    """Return a latency with which a call that takes twice as long as expected is within the timeout."""
    return latency if stage.timeout is None else Seconds(min(latency, stage.timeout / 2))
