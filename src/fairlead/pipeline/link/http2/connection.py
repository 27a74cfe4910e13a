"""One connection of HTTP/2: a thread reads frames, and streams write theirs, one frame at a time.

The reading thread never waits to write: what it has to say is kept, and goes with the next frame of a stream
or as soon as the socket takes it. So two sides that both send cannot wait for each other.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from hpack import Decoder
from hpack.exceptions import HPACKError

from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.http2 import frames, grpc
from fairlead.pipeline.link.http2.channel import Buffer, ChannelClosedError, SocketChannel
from fairlead.pipeline.link.http2.frames import FrameHead
from fairlead.pipeline.link.http2.grpc import GrpcStatus, Headers
from fairlead.pipeline.link.http2.headers import header_frame
from fairlead.pipeline.link.http2.stream import STREAM_WINDOW, Stream, StreamEndedError
from fairlead.pipeline.link.http2.windows import ReceiveAllowance, SendAllowance

MOST_STREAMS: Final = 64
"""Open streams of one connection."""
PING_AFTER: Final = 2.0
"""Seconds of silence after which the other side is asked whether it is there."""
DEAD_AFTER: Final = 3.0
"""Seconds that it may take to answer, once its kernel has everything that was sent."""
_TICK: Final = 0.5
_CONNECTION_WINDOW: Final = 1 << 26
_MOST_CONTROL: Final = 1 << 14
"""Bytes of any frame but data, and of all headers of a stream."""
_MOST_KEPT: Final = 1 << 18
"""Bytes that wait for a peer that sends without reading."""
_FRAME: Final = (1 << 22) + (1 << 14)
_PING: Final = b"fairlead"
_SETTINGS: Final = {
    frames.ENABLE_PUSH: 0,
    frames.INITIAL_WINDOW: STREAM_WINDOW,
    frames.FRAME_SIZE: _FRAME,
    frames.HEADER_LIST: _MOST_CONTROL,
}


class Http2Connection:
    """One connection; `run` reads it until its end."""

    def __init__(
        self,
        channel: SocketChannel,
        *,
        most_message: int,
        is_client: bool,
        on_request: Callable[[Stream], None] = lambda stream: None,
    ) -> None:
        """Take how long messages may be, and what is called with each stream that the other side opens."""
        self.is_client = is_client
        self.changed = threading.Condition()
        self.ended = ""
        """Why the connection is over."""
        self.opened = 0
        """Streams so far."""
        self.has_bytes = False
        """The other side has sent something."""
        self._channel = channel
        self._most_message = most_message
        self._on_request = on_request
        self._writing = threading.Lock()
        """Of the thread whose frame is being written."""
        self._keeping = threading.Lock()
        self._kept = bytearray()
        self._streams: dict[int, Stream] = {}
        self._last = 0
        """The last stream of the other side."""
        self._allowance = SendAllowance()
        self._received = ReceiveAllowance(_CONNECTION_WINDOW)
        self._first_window = frames.FIRST_WINDOW
        self._frame_size = frames.LEAST_FRAME
        self._decoder = Decoder(max_header_list_size=_MOST_CONTROL)
        self.send_control(
            (frames.PREFACE if is_client else b"")
            + frames.settings_frame(
                _SETTINGS if is_client else {frames.MOST_STREAMS: MOST_STREAMS, **_SETTINGS}
            )
            + frames.window_update(0, _CONNECTION_WINDOW - frames.FIRST_WINDOW)
        )

    def open(self, headers: Headers) -> Stream:
        """Begin a stream, as the client of the connection."""
        with self.changed:
            number = 2 * self.opened + 1
            self.opened += 1
            stream = Stream(self, number, self._first_window, self._most_message)
            self._streams[number] = stream
        self.send_headers(number, headers, ends=False)
        return stream

    def run(self) -> None:
        """Read until the connection ends, then end every stream."""
        reason = "the connection has ended"
        try:
            if not self.is_client:
                self._read_preface()
            while True:
                self._read_frame()
        except ChannelClosedError as error:
            reason = str(error)
        except (FrameError, HPACKError) as error:
            reason = f"not HTTP/2 as it should be: {error}"
            self.send_control(frames.goaway(self._last, frames.PROTOCOL_ERROR))
        finally:
            self._finish(reason)

    def shutdown(self) -> None:
        """End the connection, from any thread."""
        self._channel.shutdown()

    def forget(self, stream: Stream) -> None:
        """Forget a stream that both sides have ended."""
        with self.changed:
            self._streams.pop(stream.number, None)

    # Writing

    def send_control(self, data: bytes) -> None:
        """Write frames without waiting, or keep them until the socket takes them."""
        with self._keeping:
            self._kept += data
            if len(self._kept) > _MOST_KEPT:
                self.shutdown()  # a peer that lets this side answer without end, and reads nothing
        self._write_kept()

    def send_headers(self, number: int, headers: Headers, *, ends: bool) -> None:
        """Write headers: they depend on nothing that was sent before."""
        self.send_control(header_frame(number, headers, ends=ends))

    def send_data(self, stream: Stream, pieces: Sequence[Buffer], total: int) -> None:
        """Write data in frames as long as the other side allows; StreamEndedError where it is over."""
        views = [memoryview(piece) for piece in pieces]
        while total:
            size = self._take_allowance(stream, total)
            total -= size
            head = frames.frame_head(frames.DATA, 0, stream.number, size)
            try:
                with self._writing:
                    self._flush()
                    self._channel.write([head, *_first_bytes(views, size)])
            except ChannelClosedError as error:
                raise StreamEndedError(str(error)) from error
            self._write_kept()

    def _take_allowance(self, stream: Stream, wanted: int) -> int:
        with self.changed:
            self.changed.wait_for(lambda: self.ended or not stream.may_send or self._allowed(stream) > 0)
            if self.ended or not stream.may_send:
                raise StreamEndedError(self.ended or "the other side has ended the stream")
            size = min(wanted, self._frame_size, self._allowed(stream))
            self._allowance.take(size)
            stream.allowance.take(size)
            return size

    def _allowed(self, stream: Stream) -> int:
        return min(self._allowance.left, stream.allowance.left)

    def _flush(self) -> None:
        """Write what was kept; the caller is the one that writes."""
        with self._keeping:
            kept, self._kept = self._kept, bytearray()
        if kept:
            self._channel.write([kept])

    def _write_kept(self) -> None:
        """Write what was kept as far as it goes without waiting, unless another thread writes: it will."""
        while (self._kept or self._channel.has_unsent) and self._writing.acquire(blocking=False):
            try:
                with self._keeping:
                    count = self._channel.write_soon(bytes(self._kept))
                    del self._kept[:count]
            except ChannelClosedError:
                return
            finally:
                self._writing.release()
            if not count:
                return

    # Reading: the methods below run in the thread that reads

    def _finish(self, reason: str) -> None:
        with self.changed:
            self.ended = reason
            streams = list(self._streams.values())
            self.changed.notify_all()
        self._channel.shutdown()
        for stream in streams:
            stream.on_ended(GrpcStatus(grpc.UNAVAILABLE, reason))
        with self._writing:
            self._channel.close()

    def _read_preface(self) -> None:
        if self._read_exactly(len(frames.PREFACE)) != frames.PREFACE:
            raise FrameError("a connection that does not begin as HTTP/2")

    def _read_into(self, view: memoryview) -> int:
        silent = unheard = 0.0
        while not (count := self._channel.read_into(view, _TICK)):
            self._write_kept()
            silent += _TICK
            if silent >= PING_AFTER > silent - _TICK:
                self.send_control(frames.frame(frames.PING, 0, 0, _PING))
            if silent > PING_AFTER:
                unheard = 0.0 if self._channel.unsent() else unheard + _TICK
            if unheard >= DEAD_AFTER:
                raise ChannelClosedError("the other side does not answer")
        self.has_bytes = True
        return count

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            view = view[self._read_into(view) :]
        return bytes(data)

    def _read_frame(self) -> None:
        head = frames.read_head(self._read_exactly(frames.HEAD_BYTES))
        if head.kind == frames.DATA:
            self._read_data(head)
            return
        if head.length > _MOST_CONTROL:
            raise FrameError(f"a frame of kind {head.kind} with {head.length} bytes")
        payload = self._read_exactly(head.length)
        match head.kind:
            case frames.HEADERS:
                self._on_headers(head, frames.header_block(head, payload))
            case frames.RST_STREAM:
                self._on_reset(head.stream, frames.read_number(payload))
            case frames.SETTINGS:
                self._on_settings(head, payload)
            case frames.PING:
                if not head.flags & frames.ACK:
                    self.send_control(frames.frame(frames.PING, frames.ACK, 0, payload[:8].ljust(8, b"\0")))
            case frames.GOAWAY:
                self._on_goaway(frames.read_number(payload))
            case frames.WINDOW_UPDATE:
                self._on_window(head.stream, frames.read_number(payload))
            case frames.PUSH_PROMISE | frames.CONTINUATION:
                raise FrameError(f"a frame of kind {head.kind} where none may be")
            case _:
                pass  # priorities, and kinds of later versions

    def _read_data(self, head: FrameHead) -> None:
        if head.length > _FRAME:
            raise FrameError(f"{head.length} bytes of data in a frame")
        self._received.take(head.length)
        stream = self._streams.get(head.stream)
        if stream is None or stream.status is not None:  # what was under way when this side ended it
            self._require_known(head.stream)
            self._skip(head.length)
        else:
            stream.take(head.length)
            self._fill(stream, head)
        if increment := self._received.consume(head.length):
            self.send_control(frames.window_update(0, increment))
        if stream is not None and head.flags & frames.END_STREAM:
            stream.on_half_end()

    def _fill(self, stream: Stream, head: FrameHead) -> None:
        padding = self._read_exactly(1)[0] if head.flags & frames.PADDED and head.length else 0
        extra = padding + bool(head.flags & frames.PADDED)
        left = head.length - extra
        if left < 0:
            raise FrameError("more padding than payload")
        while left and stream.status is None:
            count = self._read_into(stream.room()[:left])
            left -= count
            stream.filled(count)
        self._skip(left + padding)
        if extra:
            stream.on_padding(extra)

    def _skip(self, size: int) -> None:
        while size:
            size -= len(self._read_exactly(min(size, frames.LEAST_FRAME)))

    def _on_headers(self, head: FrameHead, block: bytes) -> None:
        flags = head.flags
        while not flags & frames.END_HEADERS:
            following = frames.read_head(self._read_exactly(frames.HEAD_BYTES))
            if following.kind != frames.CONTINUATION or following.stream != head.stream:
                raise FrameError("headers that are not continued")
            if len(block) + following.length > _MOST_CONTROL or not following.length:
                raise FrameError(f"headers of more than {_MOST_CONTROL} bytes")
            block += self._read_exactly(following.length)
            flags = following.flags
        # Also of a stream that is refused or over: the tables of both sides depend on every block.
        headers = grpc.header_map((str(name), str(value)) for name, value in self._decoder.decode(block))
        stream = self._streams.get(head.stream)
        if stream is None and not self.is_client and head.stream > self._last:
            stream = self._accept(head.stream, headers)
        elif stream is None:
            self._require_known(head.stream)
        if stream is not None:
            stream.on_headers(headers, ends=bool(head.flags & frames.END_STREAM))

    def _accept(self, number: int, headers: dict[str, str]) -> Stream | None:
        """Take a stream that the other side opens."""
        if not number % 2:
            raise FrameError(f"stream {number} of a client")
        self._last = number
        refusal = grpc.refusal_of(headers)
        if refusal is not None:
            self.send_headers(number, (*grpc.RESPONSE_HEADERS, *grpc.trailers(refusal)), ends=True)
            return None
        with self.changed:
            if len(self._streams) >= MOST_STREAMS:
                self.send_control(frames.reset(number, frames.REFUSED_STREAM))
                return None
            self.opened += 1
            stream = Stream(self, number, self._first_window, self._most_message)
            stream.headers = headers
            self._streams[number] = stream
        self._on_request(stream)
        return stream

    def _require_known(self, number: int) -> None:
        """Refuse frames of streams that never were; those of streams that are over come late."""
        limit = 2 * self.opened if self.is_client else self._last
        if not number or number > limit:
            raise FrameError(f"a frame of stream {number}, which is not open")

    def _on_reset(self, number: int, code: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            self._require_known(number)
            return
        self.forget(stream)
        stream.on_ended(GrpcStatus(grpc.UNAVAILABLE, f"the other side has reset the stream (code {code})"))

    def _on_settings(self, head: FrameHead, payload: bytes) -> None:
        if head.flags & frames.ACK:
            return
        values = frames.read_settings(payload)
        with self.changed:
            self._frame_size = min(values.get(frames.FRAME_SIZE, self._frame_size), _FRAME)
            first = values.get(frames.INITIAL_WINDOW, self._first_window)
            for stream in self._streams.values():
                stream.allowance.take(self._first_window - first)
            self._first_window = first
            self.changed.notify_all()
        self.send_control(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def _on_goaway(self, last: int) -> None:
        with self.changed:
            streams = [stream for number, stream in self._streams.items() if self.is_client and number > last]
        for stream in streams:
            stream.on_ended(GrpcStatus(grpc.UNAVAILABLE, "the other side takes no more streams"))

    def _on_window(self, number: int, increment: int) -> None:
        with self.changed:
            if not number:
                self._allowance.add(increment)
            elif number in self._streams:
                self._streams[number].allowance.add(increment)
            else:
                self._require_known(number)
            self.changed.notify_all()


def _first_bytes(views: list[memoryview], size: int) -> list[memoryview]:
    """Take the first bytes of some pieces out of them."""
    taken = []
    while size:
        view = views[0]
        if len(view) > size:
            taken.append(view[:size])
            views[0] = view[size:]
            break
        taken.append(view)
        size -= len(view)
        del views[0]
    return taken


def start_reading(connection: Http2Connection, name: str) -> threading.Thread:
    """Read a connection in a thread of its own."""
    thread = threading.Thread(target=connection.run, name=name, daemon=True)
    with suppress(RuntimeError):  # no more threads: the streams notice that nothing comes
        thread.start()
    return thread
