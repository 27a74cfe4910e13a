"""The arm64 images under an emulator: their own programs, and tests of the working tree with their Python.

    python -m tests.arm64 [PYTEST'S ARGUMENTS]

runs all tests of the core, or the named ones. The emulator is Debian's qemu-user-static, unpacked into the
cache. It runs in a user namespace: it needs no privileges, and no other program sees it. Child processes are
emulated as well if the kernel lets a user namespace register an emulator (Linux 6.7), or if the machine has
one registered; otherwise only tests that start no program can pass.

Python, the C library and the packages are the image's; fairlead is the working tree's. The tests' own
packages, and the modules that the image leaves out of the standard library, are searched last.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.image import archive, packages, pythons
from deploy.image.contents import USER
from deploy.image.recipes import RECIPES
from fairlead.errors import FairleadError
from fairlead.lab.build import cache as caches
from fairlead.lab.build.debian import ensure_tools
from tests.images import HOUSE, image_archive, unpack_image

CORE: Final = (
    *("tests/catalog", "tests/detect", "tests/kubelet", "tests/measure", "tests/publish", "tests/warden"),
    *(
        "tests/analyze",
        "tests/calibrate",
        "tests/estimate",
        "tests/manifest",
        "tests/serve/agent",
        "tests/zoo",
    ),
    *(
        "tests/cli/model/test_analyze.py",
        "tests/cli/model/test_calibrate.py",
        "tests/cli/shell/test_contract.py",
    ),
    *(
        "tests/cli/model/test_estimate.py",
        "tests/test_calibration.py",
        "tests/test_host.py",
        "tests/test_hosts.py",
    ),
    *("tests/test_inventory.py", "tests/test_metrics.py", "tests/test_nvml.py", "tests/test_placement.py"),
    *("tests/test_prediction.py", "tests/test_settings.py", "tests/test_units.py"),
)
"""The core's tests; they run with the scheduler's image, which has more packages than the agent's."""
TIMED: Final = (
    "tests/analyze/test_hostile.py::test_bounds_hold",
    "tests/detect/test_hostile.py::test_thousands_of_devices_are_scanned_in_time",
    "tests/detect/test_hostile.py::test_a_device_tree_of_any_shape_is_scanned_in_time",
)
"""Tests that bound processor time; an emulator takes several times as much."""
DIFFERENT: Final = (
    # The program of a virtual environment; an image has it elsewhere.
    "tests/cli/shell/test_contract.py::test_the_installed_program_runs",
    # The emulator prints why a program ended.
    "tests/calibrate/test_trial.py::test_an_exit_without_an_outcome_is_a_reason",
)
"""Tests of behaviour that differs in an image, or under an emulator."""
_TESTS_NEED: Final = frozenset(
    {
        *("pytest", "iniconfig", "packaging", "pluggy", "pygments", "hypothesis", "sortedcontainers"),
        *("pytest-xdist", "execnet", "prometheus-client", "psutil", "pyyaml"),
        *("cryptography", "cffi", "pycparser", "grpclib", "h2", "hpack", "hyperframe", "typing-extensions"),
        *("numpy", "onnxruntime", "flatbuffers", "protobuf", "ml-dtypes"),
    }
)

_MAGIC: Final = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK: Final = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
"""The first bytes of an executable for 64-bit ARM, and the mask of the bits that count (binfmt_misc)."""
_PATH: Final = "/run/house/src:/run/house:/usr/lib/fairlead:/run/beside:/run/late"
_LATE: Final = 'import sys; sys.path += ["/run/standard", "/run/standard/lib-dynload"]\n'
"""Appends the modules that the image leaves out of the standard library, after the image's own."""


@dataclass(frozen=True, slots=True)
class Board:
    """An image's root file system on an emulated machine."""

    root: Path
    qemu: Path
    environ: Mapping[str, str]
    """The environment of the image's configuration."""

    def run(self, *argv: str, bind: Mapping[Path, str] | None = None) -> str:
        """Return the output of the image's Python; `bind` mounts folders of the host at paths below /run."""
        return output_of(self.command(argv, self.environ, bind or {}))

    def command(self, argv: Sequence[str], environ: Mapping[str, str], bind: Mapping[Path, str]) -> list[str]:
        """Return the command that runs the image's Python in a user namespace, which ends with it."""
        root, qemu = shlex.quote(str(self.root)), shlex.quote(str(self.qemu))
        mounts = [(shlex.quote(str(path)), shlex.quote(f"{self.root}{to}")) for path, to in bind.items()]
        variables = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in environ.items())])
        lines = [
            f"mount -t tmpfs none {root}/run",
            f"mkdir {root}/run/binfmt {root}/run/late",
            f"echo {shlex.quote(_LATE)} > {root}/run/late/sitecustomize.py",
            f"cp {qemu} {root}/run/qemu",
            # If the kernel is too old for it, programs that tests start are not emulated.
            f"! mount -t binfmt_misc none {root}/run/binfmt 2>/dev/null ||"
            f" printf %s ':fairlead:M::{_MAGIC}:{_MASK}:{self.qemu}:F' > {root}/run/binfmt/register",
            f"mount -t tmpfs none {root}/tmp",
            f"mount --rbind /proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            *(f"mkdir -p {to} && mount --rbind {path} {to}" for path, to in mounts),
            # The image's own user: a nested user namespace gives the program no privileges at all.
            f'exec {variables} "$(command -v unshare)" --user --map-user={USER} --map-group={USER}'
            f" --root={root} --wd=/ /run/qemu /usr/bin/python3 {shlex.join(argv)}",
        ]
        return ["unshare", "--user", "--map-root-user", "--mount", "bash", "-euc", "\n".join(lines)]


def output_of(command: Sequence[str]) -> str:
    """Return the output of a command, which must succeed."""
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def obstacle() -> str:
    """Return why arm64 cannot be emulated here; empty if it can."""
    if not sys.platform.startswith("linux"):
        return f"arm64 is emulated on Linux only, this is {sys.platform}"
    if platform.machine() == "aarch64":
        return "this machine is arm64: its ordinary test run covers this"
    if shutil.which("unshare") is None:
        return "no unshare on this machine (on Debian: apt-get install util-linux)"
    trial = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    done = subprocess.run(trial, capture_output=True, check=False, text=True)
    return f"no user namespaces for an emulated arm64: {done.stderr.strip()}" if done.returncode else ""


def board(recipe: str, root: Path) -> Board:
    """Unpack an arm64 image into a folder, and return the board that runs it."""
    unpack_image(image_archive(recipe, "arm64"), root)
    variables = archive.config(RECIPES[recipe])["Env"]
    qemu = ensure_tools(packages=("qemu-user-static",)).program("qemu-aarch64-static")
    return Board(root, qemu, dict(variable.split("=", 1) for variable in variables))


def with_tree(board: Board, argv: Sequence[str]) -> list[str]:
    """Return the command that runs an image's Python and packages on the working tree, with pytest."""
    python = pythons.choose("arm64")
    beside = packages.ensure_packages(HOUSE / "requirements" / "dev.txt", python, only=_TESTS_NEED)
    compiled = caches.default(os.environ).root / "arm64-pycache"
    compiled.mkdir(exist_ok=True)
    mounts = {HOUSE: "/run/house", beside: "/run/beside", python.modules: "/run/standard"}
    mounts |= {compiled: "/run/pycache"}  # under the emulator, compiling takes longer than testing
    environ = {**board.environ, "PYTHONPATH": _PATH, "PYTHONPYCACHEPREFIX": "/run/pycache", "HOME": "/tmp"}
    environ |= {name: os.environ[name] for name in ("CI", "TERM") if name in os.environ}
    return board.command(argv, environ, mounts)


def pytest_command(board: Board, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs pytest on the working tree, with an image's Python and packages."""
    script = "import os, sys, pytest; os.chdir('/run/house'); sys.exit(pytest.main(sys.argv[1:]))"
    return with_tree(board, ["-c", script, "-q", "-p", "no:cacheprovider", *arguments])


def main(arguments: Sequence[str]) -> int:
    """Run the core's tests, or the named ones; return an exit code."""
    reason = obstacle()
    if reason:
        sys.stderr.write(f"arm64: {reason}\n")
        return 2
    chosen = arguments or ["-n", "2", *CORE, *(f"--deselect={name}" for name in (*TIMED, *DIFFERENT))]
    with tempfile.TemporaryDirectory(prefix="fairlead-arm64-") as folder:
        try:
            command = pytest_command(board("scheduler", Path(folder)), chosen)
        except FairleadError as error:
            sys.stderr.write(f"arm64: {error}\n  {error.hint}\n")
            return 2
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
