"""The inputs of a worker: one edge, or several whose frames are joined by sequence number."""

from collections.abc import Sequence

from fairlead.pipeline.frame import Frame, FrameHeader
from fairlead.pipeline.work.intake import Intake
from fairlead.pipeline.work.values import mark_of


class JoinedInput:
    """The frames of all input edges of a worker, one from each with the same sequence number."""

    def __init__(self, intakes: Sequence[Intake]) -> None:
        self.intakes = intakes
        self._heads: list[Frame | None] = [None] * len(intakes)

    def take(self) -> tuple[FrameHeader, tuple[Frame, ...]] | None:
        """Return the next frames and the header of the first; without frames: the mark of one not to come."""
        while True:
            for index, intake in enumerate(self.intakes):
                if self._heads[index] is None:
                    self._heads[index] = intake.take()
            heads = [frame for frame in self._heads if frame is not None]
            if len(heads) < len(self.intakes):
                if heads and self._is_unmatchable():
                    self.reset("unmatched")
                    continue
                return None
            newest = max(frame.header.sequence for frame in heads)
            if all(frame.header.sequence == newest for frame in heads):
                return self._match(heads)
            for index, frame in enumerate(heads):
                if frame.header.sequence < newest:
                    self._discard(index)

    @property
    def is_over(self) -> bool:
        """Whether every frame was taken, and none can come."""
        return all(intake.is_over for intake in self.intakes) and not any(self._heads)

    def reset(self, reason: str = "stale") -> None:
        """Drop the frames that wait for others."""
        for index in range(len(self._heads)):
            self._discard(index, reason)

    def _is_unmatchable(self) -> bool:
        """Return whether an input has ended, so that the others wait for nothing."""
        pairs = zip(self.intakes, self._heads, strict=True)
        return any(head is None and intake.is_over for intake, head in pairs)

    def due(self) -> float:
        """Return when a missing frame is passed over."""
        return min(intake.due() for intake in self.intakes)

    def descriptors(self) -> list[int]:
        """Return what a selector waits for."""
        missing = [intake for intake, head in zip(self.intakes, self._heads, strict=True) if head is None]
        return [descriptor for intake in missing for descriptor in intake.descriptors()]

    def _match(self, heads: list[Frame]) -> tuple[FrameHeader, tuple[Frame, ...]]:
        self._heads = [None] * len(self.intakes)
        header = heads[0].header
        if all(frame.header.parts for frame in heads):
            return header, tuple(heads)
        for intake, frame in zip(self.intakes, heads, strict=True):
            intake.discard(frame, "unmatched")
        return mark_of(header), ()

    def _discard(self, index: int, reason: str = "unmatched") -> None:
        head, self._heads[index] = self._heads[index], None
        if head is not None:
            self.intakes[index].discard(head, reason)
