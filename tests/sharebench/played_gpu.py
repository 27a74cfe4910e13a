"""A machine with a played GPU: a mount namespace in which /dev has a driver, and NVML and MPS are played.

As a program: run one engine alone, then one with a stated share under each limiter, in the real queue.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fairlead.sharebench.comparison import Comparison
from fairlead.sharebench.enforce import cost
from fairlead.sharebench.sampler import find_gpu
from tests.limiter.control import write_control
from tests.sharebench.worlds import played_plan
from tests.test_nvml import built

_ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1/dev"
for name in null zero full random urandom tty fd stdin stdout stderr; do cp -a "/dev/$name" "$1/dev/"; done
mkdir "$1/dev/shm"
mount -t tmpfs tmpfs "$1/dev/shm"
: > "$1/dev/nvidiactl"
mount --bind "$1/dev" /dev
shift
exec "$@"
"""


def words(folder: Path) -> list[str]:
    """Prepare a folder, and return the words that start this program on a machine with a played GPU."""
    (folder / "dev").mkdir()
    os.rename(built(folder), folder / "libnvidia-ml.so.1")
    write_control(folder / "bin")
    program = [sys.executable, "-m", "tests.sharebench.played_gpu"]
    return ["unshare", "-m", "sh", "-c", _ENTER, "sh", str(folder), *program]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which NVML and MPS are played."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }


def main() -> None:
    """Print what was seen, as JSON."""
    gpu = find_gpu()
    assert gpu is not None
    with TemporaryDirectory(prefix="share-", ignore_cleanup_errors=True) as folder:
        comparison = Comparison(replace(played_plan(1), gpu=gpu), folder, lambda _: None)
        try:
            comparison.profile()
            result = cost(comparison, ("none", "mps"))
        finally:
            comparison.close()
        pipes = sorted(bool(events.mps) for events in comparison.events().values())
    print(json.dumps({"gpu": gpu.name, "under_mps": pipes, **result}))


if __name__ == "__main__":
    main()
