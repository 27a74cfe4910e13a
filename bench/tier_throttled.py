"""An application on a throttled slow volume: its IOPS without and with the mover, and as a replay predicts.

    python -m bench.tier_throttled [--accesses N] [--iops N] [--seed N]

The slow volume is a file system on a loop device whose reads the block-I/O cgroup (version 1) throttles; the
application and the mover are in that cgroup. The application opens a file of the fast folder, reads it whole
past the page cache (O_DIRECT), and closes it, one after another, by a Zipf distribution. What one read
takes on either volume is measured before; the replay of the same accesses at these speeds predicts the
IOPS, with the time that moves take from the same slow volume. Needs root. The cost of a link is measured
too: an open through one beside an open of the file.
"""

import argparse
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Final

from bench.tier import machine
from fairlead.access import Access, AccessOp
from fairlead.tiering.program.status import read_status
from fairlead.tiering.replay import TierResult, replay_all
from fairlead.tiering.speeds import TierSpeeds
from fairlead.units import Bytes, BytesPerSecond, Seconds

CGROUP: Final = Path("/sys/fs/cgroup/blkio")
SIZE: Final = 64 << 10
FILES: Final = 400
CAPACITY: Final = Bytes(FILES * SIZE // 4)
WITHIN: Final = 0.2
_ENDLESS: Final = BytesPerSecond(1e15)


@contextmanager
def slow_volume(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield a mounted file system on a loop device, and the device's numbers."""
    image, mounted = folder / "image", folder / "slow"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(4 * FILES * SIZE)
    device = subprocess.check_output(["losetup", "-f", "--show", image], text=True).strip()
    try:
        subprocess.check_call(["mkfs.ext4", "-q", "-m", "0", device])
        subprocess.check_call(["mount", "-o", "noatime", device, mounted])
        try:
            status = os.stat(device)
            yield mounted, f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        finally:
            subprocess.check_call(["umount", mounted])
    finally:
        subprocess.check_call(["losetup", "-d", device])


@contextmanager
def throttled(device: str, iops: int) -> Iterator[Path]:
    """Yield a cgroup whose reads of a device are throttled; this process is in it."""
    group = CGROUP / f"fairlead-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / "blkio.throttle.read_iops_device").write_text(f"{device} {iops}\n")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield group
    finally:
        (CGROUP / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


class DirectReader:
    """Reads whole files past the page cache."""

    def __init__(self) -> None:
        self._buffer = mmap.mmap(-1, SIZE)  # aligned, as O_DIRECT wants it

    def read(self, path: str) -> None:
        """Open, read, close."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            while os.readv(handle, [self._buffer]) == SIZE:
                pass
        finally:
            os.close(handle)


def run(reader: DirectReader, fast: Path, keys: Sequence[str]) -> float:
    """Read files one after another; return the IOPS."""
    started = time.monotonic()
    for key in keys:
        reader.read(f"{fast}/{key}")
    return len(keys) / (time.monotonic() - started)


def predicted(keys: Sequence[str], fast_s: float, slow_s: float, policy: str) -> tuple[float, TierResult]:
    """Return the IOPS that a replay predicts, and its result: the slow volume's time is the application's."""
    trace = [Access(Seconds(n), key, Bytes(SIZE), AccessOp.READ) for n, key in enumerate(keys)]
    speeds = TierSpeeds(BytesPerSecond(SIZE / fast_s), _ENDLESS, Seconds(slow_s))
    result = replay_all([trace], CAPACITY, speeds)[policy]
    return len(keys) / (len(keys) * slow_s - result.net_s), result


def link_cost(fast: Path, count: int = 30_000) -> tuple[float, float]:
    """Return the seconds of an open and close, of a file and through a link to it."""
    (fast / ".plain").write_bytes(b"x")
    (fast / ".link").symlink_to(fast / ".plain")
    seconds = []
    for name in (".plain", ".link"):
        best = 1.0
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(count // 5):
                os.close(os.open(f"{fast}/{name}", os.O_RDONLY))
            best = min(best, (time.perf_counter() - started) / (count // 5))
        seconds.append(best)
    for name in (".plain", ".link"):
        (fast / name).unlink()
    return seconds[0], seconds[1]


@contextmanager
def mover(fast: Path, slow: Path, policy: str) -> Iterator[None]:
    """Run the mover of two folders."""
    words = ("--fast", fast, "--slow", slow, "--capacity", str(CAPACITY), "--policy", policy)
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "serve", "tier", *words], stderr=subprocess.DEVNULL
    )
    try:
        while not (fast / ".fairlead" / "tier" / "status.json").exists():
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(30)


def prepare(slow: Path) -> None:
    """Write the files; they are older than a moment."""
    for number in range(FILES):
        path = slow / f"{number:04}"
        path.write_bytes(os.urandom(SIZE))
        os.utime(path, (1e9, 1e9))
        with path.open("rb") as file:  # the mover must not find it in the page cache
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(options: argparse.Namespace, folder: Path, slow: Path, device: str) -> int:
    """Measure and print; return the exit code."""
    random = Random(options.seed)
    weights = [1 / (rank + 1) for rank in range(FILES)]
    keys = random.choices(
        [f"{number:04}" for number in random.sample(range(FILES), FILES)], weights, k=options.accesses
    )
    prepare(slow)
    fast, spare = folder / "fast", folder / "spare"
    for each in (fast, spare):
        each.mkdir()
    shutil.copy(slow / keys[0], spare / "probe")
    os.sync()
    plain, link = link_cost(fast)
    reader = DirectReader()
    with throttled(device, options.iops):
        probes = [f"{number:04}" for number in random.sample(range(FILES), 300)]
        run(reader, slow, probes[:100])  # the throttle lets the first ones pass faster
        slow_s = 1 / run(reader, slow, probes[100:])
        fast_s = statistics.median(1 / run(reader, spare, ["probe"]) for _ in range(500))
        with mover(fast, slow, "none"):
            before = run(reader, fast, keys[: options.accesses // 3])
        before_predicted, _ = predicted(keys[: options.accesses // 3], fast_s, slow_s, "none")
        shutil.rmtree(fast / ".fairlead")
        shutil.rmtree(slow / ".fairlead")
        with mover(fast, slow, options.policy):
            after = run(reader, fast, keys)
            time.sleep(3)
            status = read_status(str(fast))
    after_predicted, result = predicted(keys, fast_s, slow_s, options.policy)
    rise, rise_predicted = after / before, after_predicted / before_predicted
    print(
        f"{machine()}\n{len(keys)} accesses to {FILES} files of 64 KiB, a quarter fits; the slow volume has "
        f"{options.iops} IOPS"
    )
    print(f"a read takes {1e3 * slow_s:.2f} ms on the slow volume, {1e3 * fast_s:.2f} ms on the fast one")
    print(f"an open and close takes {1e6 * plain:.2f} us, through a link {1e6 * link:.2f} us\n")
    print("| | measured | predicted |\n|---|---|---|")
    print(f"| IOPS without tiers | {before:.0f} | {before_predicted:.0f} |")
    print(f"| IOPS with {options.policy} | {after:.0f} | {after_predicted:.0f} |")
    print(f"| rise | {rise:.2f}x | {rise_predicted:.2f}x |")
    print(f"| hits | {100 * status['hits'] / status['accesses']:.1f} % | {100 * result.hit_ratio:.1f} % |")
    moves = status["moves"]
    print(f"| promotions | {moves['promoted']} | {result.promotions} |")
    print(f"| moves given up, tried again later | {moves['given_up']} | - |")
    print(f"| accesses seen | {status['accesses']} | {len(keys)} |")
    off = rise / rise_predicted - 1
    print(f"\nthe rise is {100 * off:+.1f} % off the prediction")
    print(f"repeat: {sys.executable} -m bench.tier_throttled")
    return 0 if abs(off) <= WITHIN else 1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accesses", type=int, default=6000)
    parser.add_argument("--iops", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default="lru-ghost")
    options = parser.parse_args()
    if os.geteuid() or not (CGROUP / "cgroup.procs").exists():
        print("skipped: needs root and the block-I/O cgroup of version 1 at /sys/fs/cgroup/blkio")
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        slow, device = stack.enter_context(slow_volume(folder))
        return measure(options, folder, slow, device)


if __name__ == "__main__":
    sys.exit(main())
