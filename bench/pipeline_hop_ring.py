"""Be one end of a hop through the ring, as a worker is: with its outlet, its intake and its way to wait.

Run by pipeline_hop.py: `pipeline_hop_ring.py ring END DESCRIPTOR`, as pipeline_hop_worker.py is.
"""

import json
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench.pipeline_hop_worker import Camera, Facts, Meter, check, ready
from fairlead.pipeline.awake import AwakeWait
from fairlead.pipeline.control import Channel
from fairlead.pipeline.edge import EdgeContract
from fairlead.pipeline.frame import FrameHeader, boottime
from fairlead.pipeline.ring.pair import RingReceiver, RingSender
from fairlead.pipeline.work.intake import Intake
from fairlead.pipeline.work.outlet import Outlet
from fairlead.pipeline.work.values import decode_value, encode_value, end_of

REPORT_PERIOD: Final = 0.5


class Loop:
    """What a worker does between frames: it waits for its rings and for the coordinator, silent here."""

    def __init__(self) -> None:
        self._coordinator, self._channel = Channel.pair()
        self._awake = AwakeWait()

    def wait(self, descriptors: Sequence[int], until: float = float("inf")) -> None:
        """Wait as `PipelineWorker.wait` does."""
        seconds = min(until - boottime(), REPORT_PERIOD - time.monotonic() % REPORT_PERIOD)
        self._awake.select([*descriptors, self._channel.fileno()], (), max(0.0, seconds))
        self.poll()

    def poll(self) -> None:
        """Look for messages, as a worker does before each frame."""
        assert self._channel.receive() is None


def send(facts: Facts, descriptor: int) -> dict[str, float]:
    """Be the worker before the edge."""
    loop, camera, meter = Loop(), Camera(facts), Meter(facts)
    outlet = Outlet("hop", 1, marked=False, wait=loop.wait, is_stale=lambda epoch: False)
    outlet.attach(0, RingSender(socket.socket(fileno=descriptor), facts["slots"]))
    for sequence in range(facts["frames"]):
        meter.count(sequence)
        loop.poll()
        parts, arrays = encode_value(camera.read(sequence))
        outlet.send(FrameHeader(0, sequence, boottime(), parts=parts), arrays)
    result = meter.result(facts["frames"])
    outlet.send_end(end_of(0))
    return result


def receive(facts: Facts, descriptor: int) -> dict[str, float]:
    """Be the worker behind the edge."""
    loop, meter = Loop(), Meter(facts)
    intake = Intake("hop", EdgeContract(depth=facts["depth"]), 1, merged=False, replayable=True)
    intake.attach(0, RingReceiver(socket.socket(fileno=descriptor)))
    ready()
    count = 0
    while True:
        loop.poll()
        frame = intake.take()
        if frame is None:
            if intake.is_over:
                return meter.result(count)
            loop.wait(intake.descriptors(), intake.due())
            continue
        meter.count(count)
        assert frame.header.sequence == count
        check(decode_value(frame), count)
        count += 1


if __name__ == "__main__":
    _, _, end, where = sys.argv
    facts = json.loads(sys.stdin.readline())
    print(json.dumps({"sender": send, "receiver": receive}[end](facts, int(where))), flush=True)
