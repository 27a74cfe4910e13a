"""Measure one hop of a Ray compiled graph: from one actor to the next, through a channel of shared memory.

Run by pipeline_hop.py with the facts as JSON on standard input; prints the result. Ray's processes listen on
loopback and end with this one. Its CPU time is that of the two actors; its daemons are left out.
"""

import importlib
import json
import os
import sys
from collections import deque
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from bench.pipeline_hop_worker import Camera, Facts, Meter, check

STORE: Final = 256 * 2**20
"""Bytes of the object store, in which the channels lie."""
WAIT: Final = 30.0
"""Seconds for one frame."""


class Sender:
    """The first actor: makes frames."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._camera, self._meter = facts, Camera(facts), Meter(facts)

    def make(self, sequence: int) -> Any:
        """Return a frame with the seconds until it; Ray copies it into the channel."""
        self._meter.count(sequence)
        buffer = np.empty(self._facts["size"], np.uint8)
        self._camera.write(buffer, sequence)
        is_last = sequence == self._facts["frames"] - 1
        return buffer, self._meter.result(self._facts["frames"]) if is_last else None


class Receiver:
    """The second actor: checks frames."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._meter, self._count = facts, Meter(facts), 0

    def take(self, made: tuple[Any, Any]) -> Any:
        """Check a frame, which is a view of the channel; return the results of both with the last one."""
        frame, sent = made
        self._meter.count(self._count)
        check(frame, self._count)
        self._count += 1
        return sent and (sent, self._meter.result(self._count))


def run_graph(ray: Any, facts: Facts) -> dict[str, float]:
    """Compile the graph of the two actors, and run it for each frame, a few frames at a time."""
    sender, receiver = (ray.remote(kind).remote(facts) for kind in (Sender, Receiver))
    with importlib.import_module("ray.dag").InputNode() as number:
        graph = receiver.take.bind(sender.make.bind(number))
    compiled = graph.experimental_compile(
        _buffer_size_bytes=facts["size"] + 2**16, _max_inflight_executions=facts["depth"]
    )
    pending: deque[Any] = deque()
    results = None
    for sequence in range(facts["frames"]):
        if len(pending) == facts["depth"]:
            ray.get(pending.popleft(), timeout=WAIT)
        pending.append(compiled.execute(sequence))
    while pending:
        results = ray.get(pending.popleft(), timeout=WAIT)
    assert results is not None, "the last frame carries the results"
    sent, received = results
    cpu = 1000 * (sent["cpu"] + received["cpu"]) / received["frames"]
    return {"rate": received["frames"] / received["wall"], "cpu": cpu}


def main(facts: Facts) -> None:
    """Start Ray on loopback, and end it."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1"}
    ray: Any = importlib.import_module("ray")
    with TemporaryDirectory(prefix="ray-") as folder:
        ray.init(
            num_cpus=2,
            object_store_memory=STORE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        # Its teardown of a graph does not always end, so the result comes first, and os._exit skips it.
        print(json.dumps(run_graph(ray, facts)), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.stdin.readline()))
