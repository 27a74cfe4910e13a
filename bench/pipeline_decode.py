"""Decode a 720p H.264 file to RGB with PyAV, as pipelines do, and with OpenCV: frames a second and memory.

Each run is a process of its own, interleaved; the medians count. `--peers` names an environment with OpenCV.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Final

import numpy as np

FRAMES: Final = 300
OPENCV: Final = """
import sys, time
import cv2
video, count, begin = cv2.VideoCapture(sys.argv[1], cv2.CAP_FFMPEG), 0, time.perf_counter()
while True:
    more, image = video.read()
    if not more:
        break
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    count += 1
seconds = time.perf_counter() - begin
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(count, count / seconds, peak)
"""


def main() -> None:
    """Print the medians, their ratio and the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.prefix, help="the environment that has OpenCV")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--decode", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.decode:
        _decode(options.decode)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "clip.mp4")
        _write_clip(path)
        commands = {
            "pyav": [sys.executable, __file__, "--decode", path],
            "opencv": [os.path.join(options.peers, "bin", "python"), "-c", OPENCV, path],
        }
        results: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, command in commands.items():
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
                count, rate, memory = done.stdout.split()
                if int(count) != FRAMES:
                    sys.exit(f"{name} decoded {count} of {FRAMES} frames")
                results[name].append((float(rate), int(memory) // 1024))
    medians = {name: statistics.median(rate for rate, _ in runs) for name, runs in results.items()}
    for name, runs in results.items():
        rates = [rate for rate, _ in runs]
        peak = statistics.median(memory for _, memory in runs)
        print(f"{name:8}{medians[name]:7.0f} frames/s ({min(rates):.0f} to {max(rates):.0f}), {peak:.0f} MiB")
    ratio = medians["pyav"] / medians["opencv"]
    print(f"pyav/opencv {ratio:.2f} on {platform.machine()}, {os.cpu_count()} cores")


def _decode(path: str) -> None:
    from fairlead.pipeline.endpoints.sources import SOURCES  # noqa: PLC0415 - only the measured process

    source, count, begin = SOURCES["video"].open({"path": path}, ""), 0, time.perf_counter()
    while source.read() is not None:
        count += 1
    seconds = time.perf_counter() - begin
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    print(count, count / seconds, peak)


def _write_clip(path: str) -> None:
    from fairlead.pipeline.endpoints.codec.encode import VideoWriter  # noqa: PLC0415

    writer = VideoWriter(path, 30.0, "libx264")
    for number in range(FRAMES):
        writer.write(_image(number))
    writer.close()


def _image(number: int) -> Any:
    """Return a picture that moves: gradients, and a square of noise."""
    y, x = np.mgrid[:720, :1280]
    image = np.stack([x // 4 + number * 3, y // 3 + number * 2, (x + y) // 5 + number], -1).astype(np.uint8)
    left = number * 4 % 1000
    image[100:300, left : left + 200] = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    return image


if __name__ == "__main__":
    main()
