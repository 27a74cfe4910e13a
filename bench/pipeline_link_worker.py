"""Be one end of a link, or of a stream of grpcio, in a process of its own; print its wall and CPU seconds.

Run by pipeline_link.py: `pipeline_link_worker.py TRANSPORT END`, with the facts as JSON on standard input. A
receiver prints its port once a sender may start. The last line of either end is its result.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from bench.pipeline_hop_worker import METHOD, Camera, Facts, Meter, check, chunk_type, ready
from fairlead.pipeline.frame import FrameHeader, PartHeader, boottime
from fairlead.pipeline.link.dial import Dialer, serve_session
from fairlead.pipeline.link.receiver import LinkReceiver
from fairlead.pipeline.link.rpc import Message
from fairlead.pipeline.link.rpc_server import RpcServer, ServerStream
from fairlead.pipeline.link.sender import LinkSender
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.transport import PeerGone

HELLO = {"run": "bench", "session": "1"}


def files(facts: Facts) -> HostTlsFiles | None:
    """Return the certificates of both ends; None: without TLS."""
    folder = Path(facts["keys"])
    paths = [str(folder / name) for name in ("ca.crt", "host.crt", "host.key")]
    return HostTlsFiles(*paths) if facts["keys"] else None


def link_sender(facts: Facts) -> dict[str, float]:
    """Send through the link of this project."""
    sender = LinkSender(HELLO, facts["depth"])
    dialer = Dialer(sender.session, f"127.0.0.1:{facts['port']}", files(facts), "Link")
    camera, meter, parts = Camera(facts), Meter(facts), (PartHeader(2, (facts["size"],), facts["size"]),)
    for sequence in range(facts["frames"]):
        meter.count(sequence)
        slot = sender.reserve((facts["size"],), None)
        assert slot is not None
        camera.write(slot.buffers[0], sequence)
        sender.send(FrameHeader(0, sequence, boottime(), parts=parts), slot)
    result = meter.result(facts["frames"])
    sender.close()
    dialer.join()
    return result


def link_receiver(facts: Facts) -> dict[str, float]:
    """Receive through the link of this project."""
    receiver = LinkReceiver(HELLO, facts["depth"])

    def serve(stream: ServerStream) -> Iterator[Message]:
        return serve_session(receiver.session, stream, next(iter(stream)))

    server = RpcServer({"Link": serve}, lambda line: None)
    port = server.listen("127.0.0.1:0", files(facts))
    server.start()
    ready(port)
    meter, count = Meter(facts), 0
    try:
        while frame := receiver.receive(None):
            meter.count(count)
            assert frame.header.sequence == count
            check(frame.buffers[0], count)
            frame.release()
            count += 1
    except PeerGone:
        result = meter.result(count)
    server.stop()
    return result


def grpcio_sender(facts: Facts) -> dict[str, float]:
    """Send over a bidirectional stream of grpcio with protobuf; HTTP/2 alone holds the sender back."""
    chunk, camera, meter = chunk_type(), Camera(facts), Meter(facts)
    buffer = bytearray(facts["size"])

    def frames() -> Iterator[Any]:
        for sequence in range(facts["frames"]):
            meter.count(sequence)
            camera.write(buffer, sequence)
            yield chunk(sequence=sequence, data=bytes(buffer))

    tls, target = files(facts), f"127.0.0.1:{facts['port']}"
    if tls is None:
        channel = grpc.insecure_channel(target)
    else:
        texts = tls.read()
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(texts.ca, texts.key, texts.cert))
    with channel:
        stream = channel.stream_stream(METHOD, chunk.SerializeToString, chunk.FromString)
        counts = [reply.sequence for reply in stream(frames())]
    return meter.result(counts[-1])


def grpcio_receiver(facts: Facts) -> dict[str, float]:
    """Serve the stream, and reply with the number of frames at its end."""
    chunk, done, results = chunk_type(), threading.Event(), []

    def serve(requests: Iterator[Any], _context: object) -> Iterator[Any]:
        meter, count = Meter(facts), 0
        for request in requests:
            meter.count(count)
            assert request.sequence == count
            check(np.frombuffer(request.data, np.uint8), count)
            count += 1
        results.append(meter.result(count))
        yield chunk(sequence=count)
        done.set()

    handler = grpc.stream_stream_rpc_method_handler(serve, chunk.FromString, chunk.SerializeToString)
    service, method = METHOD.strip("/").split("/")
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    tls = files(facts)
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        texts = tls.read()
        pairs = [(texts.key, texts.cert)]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pairs, texts.ca, True))
    server.start()
    ready(port)
    done.wait()
    server.stop(1).wait()
    return dict(results[0])


ENDS: dict[tuple[str, str], Callable[[Facts], dict[str, float]]] = {
    ("link", "sender"): link_sender,
    ("link", "receiver"): link_receiver,
    ("grpcio", "sender"): grpcio_sender,
    ("grpcio", "receiver"): grpcio_receiver,
}


if __name__ == "__main__":
    _, transport, end = sys.argv
    print(json.dumps(ENDS[transport, end](json.loads(sys.stdin.readline()))), flush=True)
