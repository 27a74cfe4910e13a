"""Sampler: measures one GPU in a process of its own, so that nothing else delays a sample."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from fairlead.nvml import Gpu, GpuReading, open_session
from fairlead.sharebench.samples import EVERY, GpuSample

_MODULE: Final = "fairlead.sharebench.sampler"
_PATIENCE: Final = 30.0
"""Seconds for the first sample: a GPU without persistence mode takes about a second to wake up."""
_LIMIT: Final = 7200.0
"""Seconds after which a sampler ends by itself."""


def find_gpu() -> Gpu | None:
    """Return the first GPU that NVML can use; None: there is none."""
    with open_session() as session:
        gpus = session.gpus() if session is not None else []
    return next((gpu for gpu in gpus if gpu.index >= 0 and gpu.uuid and gpu.memory), None)


class Sampler:
    """The samples of one GPU from the start of a block to its end; without a GPU there are none."""

    def __init__(self, gpu: Gpu | None, path: str) -> None:
        self._gpu, self._path = gpu, path
        self._process: subprocess.Popen[bytes] | None = None
        self._samples: list[GpuSample] = []
        self._offset = 0

    def __enter__(self) -> "Sampler":
        if self._gpu is None:
            return self
        words = [sys.executable, "-m", _MODULE, "--gpu", str(self._gpu.index), "--out", self._path]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: S603 - our own
        self.wait_until(0.0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def wait_until(self, moment: float) -> None:
        """Wait for a sample of this moment or a later one, for as long as the sampler may give one."""
        end = time.monotonic() + _PATIENCE
        while self._process is not None and self._process.poll() is None and time.monotonic() < end:
            if any(sample.at >= moment for sample in self.samples()[-1:]):
                return
            time.sleep(0.02)

    def samples(self) -> Sequence[GpuSample]:
        """Return all samples until now."""
        if self._gpu is None or not os.path.exists(self._path):
            return self._samples
        with open(self._path, "rb") as stream:
            stream.seek(self._offset)
            whole, end, _ = stream.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        self._samples += [GpuSample(**json.loads(line)) for line in whole.splitlines()]
        return self._samples


def main(argv: Sequence[str] | None = None) -> int:
    """Write a sample every 0.2 s, until the parent ends."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("--gpu", type=int, required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args(argv)
    parent, began = os.getppid(), time.monotonic()
    with open_session() as session, open(options.out, "w", encoding="utf-8") as out:
        if session is None:
            return 1
        due = began
        while os.getppid() == parent and due - began < _LIMIT:
            sample = _sample(session.reading(options.gpu))
            out.write(json.dumps(asdict(sample)) + "\n")
            out.flush()
            due = max(due + EVERY, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return 0


def _sample(reading: GpuReading | None) -> GpuSample:
    now = time.time()
    if reading is None:
        return GpuSample(now)
    busy = None if reading.busy_percent is None else reading.busy_percent / 100
    return GpuSample(now, reading.memory_used, busy, reading.power, reading.energy_joules)


if __name__ == "__main__":
    sys.exit(main())
