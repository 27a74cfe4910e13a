"""The key `batch` of a stage, as files and Python write it: fixed batches, or `auto`."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.pipeline.keys.fields import Refusal, check_keys, read_count, read_flag, read_seconds
from fairlead.pipeline.spec import BatchSpec
from fairlead.pipeline.transport import MOST_DEPTH
from fairlead.units import Seconds

AUTO: Final = "auto"
AUTO_MOST: Final = 32
"""Beyond it most models gain little, and a batch and the edge before it hold more memory."""
AUTO_LATENCY: Final = Seconds(0.1)
"""Three frames of a camera."""
_KEYS: Final = ("auto", "most", "wait", "latency")


def read_batch(batch: Any, refusal: Refusal) -> BatchSpec:
    """Return the batches that a value states; PipelineError."""
    if isinstance(batch, BatchSpec):
        return batch
    if batch == AUTO:
        batch = {AUTO: True}
    if not isinstance(batch, Mapping):
        hint = "write batch: auto, or batch: {most: 8, wait: 10ms}"
        raise refusal(f"batch: {batch!r} is neither auto nor a mapping", hint)
    check_keys(batch, _KEYS, "a batch", refusal)
    if read_flag(batch, AUTO, False, refusal):
        return _read_auto(batch, refusal)
    if "latency" in batch:
        raise refusal("latency belongs to batches with auto: true", "add auto: true, or write wait: 10ms")
    most = read_count(batch, "most", 1, MOST_DEPTH, refusal)
    return BatchSpec(most, read_seconds(batch, "wait", refusal) or Seconds(0.0))


def _read_auto(batch: Mapping[str, Any], refusal: Refusal) -> BatchSpec:
    if "wait" in batch:
        raise refusal("wait beside auto: true, which chooses it", "remove it, or bound it: latency: 100ms")
    latency = read_seconds(batch, "latency", refusal)
    if latency is not None and not latency > 0:
        raise refusal("latency: a batch takes some time", "write latency: 100ms")
    most = read_count(batch, "most", AUTO_MOST, MOST_DEPTH, refusal)
    return BatchSpec(most, Seconds(0.0), latency or AUTO_LATENCY)
