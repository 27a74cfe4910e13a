"""Arrays as JPEG or PNG images, and as video files, through PyAV."""

from fractions import Fraction
from typing import Any, Final

from fairlead.pipeline.endpoints.codec.library import pyav, reason

QUALITY: Final = 90
_CODECS: Final = {"jpeg": ("mjpeg", "yuvj420p", "yuvj420p"), "png": ("png", "rgb24", "gray")}
"""By kind of image: the encoder, and the pixels of a colour image and of a gray one."""


def encode_image(array: Any, kind: str, quality: int = QUALITY) -> bytes:
    """Return an array of uint8 with the shape (height, width, 1 or 3) as a JPEG or PNG file."""
    av = pyav(f"{kind} images")
    codec, colour, gray = _CODECS[kind]
    frame = _to_frame(av, array)
    height, width = array.shape[:2]
    encoder = av.CodecContext.create(codec, "w")
    encoder.width, encoder.height = width, height
    encoder.pix_fmt = gray if array.shape[2] == 1 else colour
    encoder.time_base = Fraction(1, 1)
    encoder.thread_count = 1
    if kind == "jpeg":
        encoder.color_range = 2  # AVCOL_RANGE_JPEG: the full range, as the format has it
        scale = max(1, round(31 - 0.3 * quality))  # FFmpeg's scale runs from 31, the worst, to 2
        encoder.qmin = encoder.qmax = max(2, scale)
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


class VideoWriter:
    """A video file that is written; readable up to its last key frame, however the process ends."""

    def __init__(self, path: str, rate: float, codec: str) -> None:
        self._av = pyav("sink video")
        self._path = path
        self._options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
        self._container: Any = None
        self._stream: Any = None
        self._rate = Fraction(rate).limit_denominator(1001)
        self._codec = codec
        self._number = 0

    def write(self, array: Any) -> None:
        """Append one image; the first one decides on the size. ValueError for an image that does not fit."""
        if self._container is None:
            self._open(array.shape[1], array.shape[0])
        size = (array.shape[1], array.shape[0])
        if size != (self._stream.width, self._stream.height):
            raise ValueError(f"an image of {size[0]}x{size[1]} in a video of another size: scale it before")
        frame = _to_frame(self._av, array)
        frame.pts, frame.time_base = self._number, 1 / self._rate
        self._number += 1
        self._mux(frame)

    def close(self) -> None:
        """Write what the encoder holds, and close the file."""
        if self._container is not None:
            self._mux(None)
            self._container.close()

    def _open(self, width: int, height: int) -> None:
        if width % 2 or height % 2:
            raise ValueError(f"an image of {width}x{height}: video needs an even width and height")
        try:
            self._container = self._av.open(self._path, "w", format="mp4", container_options=self._options)
            self._stream = self._container.add_stream(self._codec, rate=self._rate)
        except (self._av.error.FFmpegError, ValueError) as error:
            raise ValueError(f"{self._path} cannot be written: {reason(error)}") from None
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"
        self._stream.codec_context.gop_size = max(1, round(self._rate))
        self._stream.codec_context.thread_count = 1

    def _mux(self, frame: Any) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


def _to_frame(av: Any, array: Any) -> Any:
    if array.shape[2] == 1:
        return av.VideoFrame.from_ndarray(array[:, :, 0], "gray")
    return av.VideoFrame.from_ndarray(array, "rgb24")
