"""Frames of files and live streams through PyAV."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from fairlead.pipeline.endpoints.codec.library import pyav, reason, threads

_GRAY: Final = ("gray", "gray10", "gray12", "gray16", "monob", "monow", "ya8")


class DecodeError(ValueError):
    """A file or a stream cannot be decoded; the message is one line without passwords."""


@dataclass(frozen=True, slots=True)
class FrameSize:
    """The size that images are scaled to; None: as it comes, or by the other one."""

    width: int | None = None
    height: int | None = None

    def of(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and the height for an image of a size; one of them alone keeps the ratio."""
        if self.width and self.height:
            return self.width, self.height
        if self.width:
            return self.width, max(1, round(height * self.width / width))
        if self.height:
            return max(1, round(width * self.height / height)), self.height
        return width, height


class ToArray:
    """Decoded frames as arrays of height, width and 3; keeps the scaler, which is costly to make."""

    def __init__(self, size: FrameSize) -> None:
        self._size = size
        self._scaler = pyav("video").video.reformatter.VideoReformatter()

    def __call__(self, frame: Any, pixels: str = "rgb24") -> Any:
        """Return the array of a frame, in RGB or `gray`."""
        width, height = self._size.of(frame.width, frame.height)
        scaled = (width, height) != (frame.width, frame.height)
        image = self._scaler.reformat(
            frame,
            width=width,
            height=height,
            format=pixels,
            interpolation="AREA" if scaled else "BILINEAR",
            threads=1,
        )
        return image.to_ndarray()


class VideoFile:
    """A video file that is open: its frames, in the order of their presentation."""

    def __init__(self, path: str) -> None:
        av = pyav("a video file")
        self._path = path
        self._errors, self._damage = av.error.FFmpegError, av.error.InvalidDataError
        try:
            self._container = av.open(path)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            raise DecodeError(f"{path} cannot be read as a video: {reason(error)}") from None
        videos = self._container.streams.video
        if not videos:
            raise DecodeError(f"{path} holds no video")
        self._stream = videos[0]
        if self._stream.codec_context is None:
            raise DecodeError(f"{path}: no decoder for its codec: convert it to H.264")
        self._stream.thread_type = "AUTO"
        self._stream.codec_context.thread_count = threads()
        self.stated: int = self._stream.frames
        """The number of frames that the file states; 0: it states none."""

    def frames(self) -> Iterator[Any]:
        """Yield the frames from the current place on; a packet that cannot be decoded is passed over."""
        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                frames = packet.decode()
            except self._damage:
                continue
            except self._errors as error:
                raise DecodeError(f"{self._path} is damaged: {reason(error)}") from None
            yield from frames

    def go_to(self, timestamp: int) -> None:
        """Go on with the key frame at or before a timestamp."""
        try:
            self._container.seek(timestamp, stream=self._stream)
        except self._errors as error:
            raise DecodeError(f"{self._path} cannot be read again: {reason(error)}") from None

    def close(self) -> None:
        """Close the file."""
        self._container.close()


def read_picture(path: str) -> Any:
    """Return the array of a JPEG or PNG file; gray ones have one channel."""
    file = VideoFile(path)
    with closing(file):
        frame = next(file.frames(), None)
        if frame is None:
            raise DecodeError(f"{path} holds no image")
        if frame.format.name in _GRAY or frame.format.name.startswith("gray"):
            return ToArray(FrameSize())(frame, "gray")[:, :, None]
        return ToArray(FrameSize())(frame)


@dataclass(frozen=True, slots=True)
class LiveInput:
    """A camera or a stream: what is opened, and how."""

    address: str
    shown: str
    """The address as messages name it, without a password."""
    kind: str | None
    """The name of the demuxer; None: by the address."""
    options: Mapping[str, str]
    timeout: float
    """Seconds to connect, and to wait for data."""


def live_frames(source: LiveInput) -> Iterator[Any]:
    """Connect and yield the frames as they come; DecodeError when there are none for too long."""
    av = pyav("a camera")
    try:
        container = av.open(
            source.address,
            format=source.kind,
            options=dict(source.options),
            timeout=(source.timeout, source.timeout),
        )
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise DecodeError(_live_reason(av, error, source)) from None
    with closing(container):
        if not container.streams.video:
            raise DecodeError("it sends no video")
        stream = container.streams.video[0]
        if stream.codec_context is None:
            raise DecodeError("no decoder for its codec: let it send H.264 or MJPEG")
        stream.thread_type = "SLICE"  # threads by frame would hold frames back
        stream.codec_context.thread_count = threads()
        try:
            for packet in container.demux(stream):
                try:
                    yield from packet.decode()
                except av.error.InvalidDataError:  # lost packets: the decoder goes on at the next key frame
                    continue
        except (av.error.FFmpegError, OSError) as error:
            raise DecodeError(_live_reason(av, error, source)) from None


def _live_reason(av: Any, error: Exception, source: LiveInput) -> str:
    """Return why a camera gives no frames."""
    if isinstance(error, av.error.ExitError | TimeoutError):
        return f"no answer within {source.timeout:g} s"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if getattr(error, "errno", None) == 16:  # EBUSY
        return "another program uses it"
    return reason(error)
