"""What a host measures for a coordinator: its size, a stage, its link with another host."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from fairlead import __version__
from fairlead.errors import FairleadError
from fairlead.pipeline.control import Message
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.hosts.settings import HostSettings
from fairlead.pipeline.link.rpc import StreamRefusedError
from fairlead.pipeline.link.rpc_server import ServerStream
from fairlead.pipeline.link.wire import Chunk, Hello, decode, encode
from fairlead.pipeline.profile.link_rate import answer_echo, measure_link
from fairlead.pipeline.profile.machine import machine_size, measure_here
from fairlead.pipeline.profile.messages import MOST_RECORDED, file_chunks

_ORDER: Final = ("stage", "frames", "seconds", "stream", "output_bytes")


class ProfileService:
    """Measures, one stage after another."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._measuring = threading.Lock()

    def serve(self, stream: ServerStream, question: dict[str, Any]) -> Iterator[bytes]:
        """Yield the answer to a question."""
        try:
            yield from self._answer(stream, question)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            raise StreamRefusedError(f"a question that makes no sense: {error}") from error

    def _answer(self, stream: ServerStream, question: dict[str, Any]) -> Iterator[bytes]:
        match question["do"]:
            case "machine":
                cores, memory = machine_size()
                yield encode(Hello({"version": __version__, "cores": cores, "memory_bytes": memory}))
            case "echo":
                yield encode(Hello({}))
                yield from answer_echo(stream)
            case "link":
                yield encode(Hello(self._measure_link(str(question["address"]))))
            case "stage":
                with self._measuring, tempfile.TemporaryDirectory() as folder:
                    yield from self._measure(stream, question, folder)
            case other:
                raise ValueError(f"{other!r}")

    def _measure_link(self, address: str) -> Message:
        try:
            rates = measure_link(address, self._settings.tls)
        except FairleadError as error:
            return {"problem": str(error)}
        return {"problem": "", "there": rates.there, "back": rates.back, "delay_s": rates.delay_s}

    def _measure(self, stream: ServerStream, question: dict[str, Any], folder: str) -> Iterator[bytes]:
        inputs = _receive_records(stream, [int(size) for size in question["inputs"]], folder)
        order = {key: question[key] for key in _ORDER}
        order["output_bytes"] = min(int(order["output_bytes"]), MOST_RECORDED)
        output = os.path.join(folder, "output") if order["output_bytes"] else ""
        result = measure_here(
            order, self._settings.folder, inputs, output, lambda child: stream.on_end(child.kill)
        )
        if output and os.path.exists(output):
            with open(output, "rb") as file:
                yield from file_chunks(file, 0, os.path.getsize(output))
        yield encode(Hello(result))


def _receive_records(stream: ServerStream, sizes: list[int], folder: str) -> list[str]:
    if min(sizes, default=1) < 1 or sum(sizes) > MOST_RECORDED:
        raise StreamRefusedError(f"records of {sum(sizes)} bytes: at most {MOST_RECORDED}, and none is empty")
    paths = [os.path.join(folder, str(number)) for number in range(len(sizes))]
    with ExitStack() as files:
        opened = [files.enter_context(open(path, "wb")) for path in paths]
        left = sum(sizes)
        while left:
            message = decode(next(iter(stream), b""))
            if not isinstance(message, Chunk) or message.number >= len(sizes):
                raise StreamRefusedError("a record that does not come")
            opened[message.number].write(message.data)
            left -= len(message.data)
            if left < 0:
                raise StreamRefusedError("more bytes than its records have")
    return paths
