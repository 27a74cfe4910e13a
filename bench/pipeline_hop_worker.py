"""Be one end of a peer's hop in a process of its own, and print its wall and CPU seconds.

Run by pipeline_hop.py: `pipeline_hop_worker.py TRANSPORT END ADDRESS`, with the facts as JSON on standard
input. A receiver prints a line once a sender may start: the sender's address, or nothing. The last line of
either end is its result.
"""

import ctypes
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Facts = dict[str, Any]
PAGE, VARIANTS, STAMP = 4096, 4, 9
"""A stamp is a sequence number of eight bytes, and a checksum of one byte from every page."""


class Meter:
    """The time and CPU from the first frame that counts until the last."""

    def __init__(self, facts: Facts) -> None:
        self._warm, self._frames = facts["warm"], facts["frames"]
        self._wall = self._cpu = 0.0

    def count(self, sequence: int) -> None:
        """Start the clocks at the first frame after those that warm up."""
        if sequence == self._warm:
            self._wall, self._cpu = time.perf_counter(), time.process_time()

    def result(self, frames: int, seen: int | None = None) -> dict[str, float]:
        """Return the seconds of the frames that count; an error if one is missing, unless `seen` says so."""
        assert frames == self._frames, f"{frames} frames of {self._frames}"
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"frames": (frames if seen is None else seen) - self._warm, "wall": wall, "cpu": cpu}


class Camera:
    """Frames of random bytes, each with a stamp."""

    def __init__(self, facts: Facts) -> None:
        random = np.random.default_rng(7)
        self._frames = random.integers(0, 256, (VARIANTS, facts["size"]), np.uint8)
        self._sums = [int(frame[STAMP::PAGE].sum()) for frame in self._frames]

    def write(self, buffer: Any, sequence: int) -> None:
        """Write a frame into a buffer, as a decoder does."""
        view = np.frombuffer(buffer, np.uint8)
        view[:] = self._frames[sequence % VARIANTS]
        view[:STAMP] = self._stamp(sequence)

    def read(self, sequence: int) -> Any:
        """Return a frame, which the transport copies."""
        frame = self._frames[sequence % VARIANTS]
        frame[:STAMP] = self._stamp(sequence)
        return frame

    def _stamp(self, sequence: int) -> tuple[int, ...]:
        return *sequence.to_bytes(8, "little"), (self._sums[sequence % VARIANTS] + sequence) & 255


def check(view: Any, sequence: int) -> None:
    """Check that a frame is the next one, and touch every page of it."""
    there = int.from_bytes(view[:8].tobytes(), "little")
    assert there == sequence, f"frame {there} instead of {sequence}"
    assert view[8] == (int(view[STAMP::PAGE].sum()) + sequence) & 255, f"frame {sequence} is damaged"


def ready(address: object = "") -> None:
    """Let the sender start."""
    print(address, flush=True)


def iceoryx2_service(facts: Facts, name: str) -> tuple[Any, Any, Any]:
    """Return a node, a service that blocks a publisher instead of losing samples, and one of events."""
    iox2 = importlib.import_module("iceoryx2")
    iox2.set_log_level(iox2.LogLevel.Error)
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    service = (
        node.service_builder(iox2.ServiceName.new(name))
        .publish_subscribe(iox2.Slice[ctypes.c_uint8])
        .enable_safe_overflow(False)
        .subscriber_max_buffer_size(facts["depth"])
        .open_or_create()
    )
    events = node.service_builder(iox2.ServiceName.new(name)).event().open_or_create()
    return node, service, events


def iceoryx2_sender(facts: Facts, address: str) -> dict[str, float]:
    """Publish with iceoryx2: loan a sample, write into it, send it, and wake the subscriber."""
    iox2 = importlib.import_module("iceoryx2")
    _node, service, events = iceoryx2_service(facts, address)
    publisher = (
        service.publisher_builder()
        .initial_max_slice_len(facts["size"])
        .backpressure_strategy(iox2.BackpressureStrategy.RetryUntilDelivered)
        .create()
    )
    notifier = events.notifier_builder().create()
    camera, meter, memory = Camera(facts), Meter(facts), ctypes.c_uint8 * facts["size"]
    for sequence in range(facts["frames"]):
        meter.count(sequence)
        sample = publisher.loan_slice_uninit(facts["size"])
        camera.write(memory.from_address(sample.payload_ptr), sequence)
        sample.assume_init().send()
        notifier.notify()
    result = meter.result(facts["frames"])
    sys.stdin.readline()  # what a publisher has sent goes away with it
    return result


def iceoryx2_receiver(facts: Facts, address: str) -> dict[str, float]:
    """Subscribe with iceoryx2: sleep until an event, then take every sample."""
    _node, service, events = iceoryx2_service(facts, address)
    subscriber = service.subscriber_builder().create()
    listener = events.listener_builder().create()
    meter, count, memory = Meter(facts), 0, ctypes.c_uint8 * facts["size"]
    ready()
    while count < facts["frames"]:
        sample = subscriber.receive()
        if sample is None:
            listener.blocking_wait()
            continue
        meter.count(count)
        check(np.frombuffer(memory.from_address(sample.payload_ptr), np.uint8), count)
        sample.delete()
        count += 1
    return meter.result(count)


METHOD = "/fairlead.bench.Hop/Frames"


def chunk_type() -> Any:
    """Return the class of a protocol-buffers message with a number and bytes."""
    descriptors = importlib.import_module("google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorProto(name="hop.proto", package="fairlead.bench", syntax="proto3")
    message = file.message_type.add(name="Chunk")
    message.field.add(name="sequence", number=1, type=4, label=1)
    message.field.add(name="data", number=2, type=12, label=1)
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("fairlead.bench.Chunk")
    return importlib.import_module("google.protobuf.message_factory").GetMessageClass(found)


def grpcio_sender(facts: Facts, address: str) -> dict[str, float]:
    """Send over a bidirectional stream of grpcio; HTTP/2 alone holds the sender back."""
    grpc, chunk = importlib.import_module("grpc"), chunk_type()
    camera, meter, buffer = Camera(facts), Meter(facts), bytearray(facts["size"])

    def frames() -> Iterator[Any]:
        for sequence in range(facts["frames"]):
            meter.count(sequence)
            camera.write(buffer, sequence)
            yield chunk(sequence=sequence, data=bytes(buffer))

    with grpc.insecure_channel(f"127.0.0.1:{address}") as channel:
        stream = channel.stream_stream(METHOD, chunk.SerializeToString, chunk.FromString)
        counts = [reply.sequence for reply in stream(frames())]
    return meter.result(counts[-1])


def grpcio_receiver(facts: Facts, _address: str) -> dict[str, float]:
    """Serve the stream, and reply with the number of frames at its end."""
    grpc, chunk = importlib.import_module("grpc"), chunk_type()
    results = []

    def serve(requests: Iterator[Any], _context: object) -> Iterator[Any]:
        meter, count = Meter(facts), 0
        for request in requests:
            meter.count(count)
            assert request.sequence == count
            check(np.frombuffer(request.data, np.uint8), count)
            count += 1
        results.append(meter.result(count))
        yield chunk(sequence=count)

    handler = grpc.stream_stream_rpc_method_handler(serve, chunk.FromString, chunk.SerializeToString)
    service, method = METHOD.strip("/").split("/")
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ready(port)
    sys.stdin.readline()
    server.stop(None).wait()
    return dict(results[0])


ENDS: dict[tuple[str, str], Callable[[Facts, str], dict[str, float]]] = {
    ("iceoryx2", "sender"): iceoryx2_sender,
    ("iceoryx2", "receiver"): iceoryx2_receiver,
    ("grpcio", "sender"): grpcio_sender,
    ("grpcio", "receiver"): grpcio_receiver,
}


if __name__ == "__main__":
    _, transport, end, where = sys.argv
    print(json.dumps(ENDS[transport, end](json.loads(sys.stdin.readline()), where)), flush=True)
