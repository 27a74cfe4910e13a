"""Another host, as a place where stages are measured."""

import os
from collections.abc import Iterator, Sequence

from fairlead import __version__
from fairlead.errors import PipelineError
from fairlead.pipeline.control import Message
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.link.wire import Chunk, Hello
from fairlead.pipeline.profile.facts import MachineFacts
from fairlead.pipeline.profile.link_rate import LinkRates
from fairlead.pipeline.profile.machine import MeasureRequest, StageSample, to_sample
from fairlead.pipeline.profile.messages import ProfileStream, file_chunks
from fairlead.pipeline.profile.record import read_frames
from fairlead.pipeline.spec import HostSpec


class ProfiledHost:
    """A host where `fairlead pipeline worker` listens."""

    def __init__(self, host: HostSpec, tls: HostTlsFiles | None) -> None:
        """Connect; FairleadError where the host cannot be reached, or has another version."""
        self.host = host
        self._tls = tls
        self.send_bytes: float = 1 << 26
        """How much of a record is sent; set it to what the link carries in good time."""
        with ProfileStream(host.address, tls, {"do": "machine"}) as stream:
            body = stream.receive_hello()
        if body.get("version") != __version__:
            what = f"host {host.name} has fairlead {body.get('version')}, this machine {__version__}"
            raise PipelineError(what, "install the same version on both")
        self.facts = MachineFacts(host.name, int(body["cores"]), int(body["memory_bytes"]), host.host_class)

    def measure(self, order: MeasureRequest, inputs: Sequence[str], output: str) -> StageSample:
        """Measure a stage there."""
        sizes = [_size_within(path, self.send_bytes / len(inputs)) for path in inputs]
        question = order.to_json() | {"do": "stage", "inputs": sizes}
        with ProfileStream(self.host.address, self._tls, question) as stream:
            for number, (path, size) in enumerate(zip(inputs, sizes, strict=True)):
                with open(path, "rb") as file:
                    for chunk in file_chunks(file, number, size):
                        stream.send(chunk)
            return to_sample(_receive(stream, output))

    def measure_link(self, other: HostSpec) -> LinkRates:
        """Let the host measure its link with another one; FairleadError."""
        with ProfileStream(self.host.address, self._tls, {"do": "link", "address": other.address}) as stream:
            body = stream.receive_hello()
        if body["problem"]:
            raise PipelineError(str(body["problem"]))
        return LinkRates(float(body["there"]), float(body["back"]), float(body["delay_s"]))


def _size_within(path: str, most: float) -> int:
    """Return the bytes of the first frames of a record that are at most `most`, or of its first frame."""
    size = 0
    with open(path, "rb") as file:
        for _ in read_frames(file, most):
            size = file.tell()
    return size


def _receive(stream: ProfileStream, output: str) -> Message:
    with open(output or os.devnull, "wb") as file:
        for message in _messages(stream):
            if isinstance(message, Hello):
                return message.body
            file.write(message.data)
    raise FrameError("an answer that makes no sense")


def _messages(stream: ProfileStream) -> Iterator[Chunk | Hello]:
    while isinstance(message := stream.receive(), Chunk | Hello):
        yield message
