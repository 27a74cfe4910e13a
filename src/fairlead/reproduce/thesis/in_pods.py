"""The thesis's application as a pipeline of pods: an edge and a server are nodes, each with a claim. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.reproduce.thesis.application import (
    EDGE,
    LOCAL,
    OUTPUT,
    StageArrangement,
    ThesisWorkload,
    edge_lines,
    stage_lines,
)

DATA: Final = "/data"
"""Where a pod has its claim: the times of frames are on the edge, the results on the server."""


LEAST_FAST: Final = 30
"""Queues of pods hold up to a dozen frames, which the source makes faster than the pipeline takes them."""


@dataclass(frozen=True, slots=True)
class MeasuredFrames:
    """What the source makes: frames as fast as they are taken, then frames at half of that rate."""

    fast: int
    calm: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.fast + self.calm


def pods_text(
    workload: ThesisWorkload,
    arrangement: StageArrangement,
    frames: MeasuredFrames,
    pods: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the pipeline; `pods` are the keys of the pods of the edge and of the coordinator (`local`)."""
    cluster = {"schedulerName": "default-scheduler", "imagePullPolicy": "Never", "local": pods[LOCAL]}
    arguments = {
        "fast": frames.fast,
        "calm": frames.calm,
        "height": workload.height,
        "width": workload.width,
        "folder": DATA,
    }
    source = {"function": f"{workload.kernel}.py:fast_then_calm", "arguments": arguments}
    lines = [
        f"pipeline: thesis-{workload.kernel}",
        f"hosts: {json.dumps({EDGE: {'pod': pods[EDGE]}})}",
        f"cluster: {json.dumps(cluster)}",
        "stages:",
        f"  - {{name: camera, source: generator, options: {json.dumps(source)}, on: {EDGE}}}",
        *stage_lines(workload, arrangement),
        f"  - {{name: log, sink: jsonl, options: {{path: {DATA}/{OUTPUT}}}}}",
        *edge_lines(),
        "",
    ]
    return "\n".join(lines)
