"""The folders of this user's labs, and their locks.

    ~/.local/state/fairlead/lab/
      NAME/lab.json   the state: programs by PID and start time, ports, namespaces
      NAME/kubeconfig the administrator's
      NAME/keys NAME/logs NAME/etcd NAME/nodes

A folder is locked while its lab is started or ended; the kernel releases the lock when its holder dies.
So a lab in the phase `starting` whose lock is free was left behind by a starter that was killed.
"""

import fcntl
import os
import random
import re
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.run.state import Lab, LabPhase, load
from fairlead.userstate import state_folder

DEFAULT_NAME: Final = "lab"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_STAGING: Final = "."
"""What the name of a folder begins with until its lab is recorded and locked; no name of a lab does."""
_PORTS: Final = range(20_000, 32_000)
"""Below the ephemeral range, whose ports outgoing connections take by the thousand."""


@dataclass(frozen=True, slots=True)
class LabHome:
    """The folder of one user's labs."""

    root: Path

    def folder(self, name: str) -> Path:
        """Return the folder of a lab, whether or not it exists."""
        if not _NAME.fullmatch(name):
            raise LabError(
                f"{name!r} cannot name a lab",
                hint="use up to 32 lowercase letters, digits and dashes, like demo-1",
            )
        return self.root / name

    def labs(self) -> list[Lab]:
        """Return every lab that has a state file, by name."""
        return [lab for folder in self.folders() if (lab := load(folder))]

    def folders(self) -> list[Path]:
        """Return the folder of every lab: complete, half started, or left behind."""
        try:
            return sorted(
                path for path in self.root.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)
            )
        except OSError:
            return []

    def get(self, name: str) -> Lab:
        """Return a lab; raise with the names of the existing ones if it does not exist."""
        lab = load(self.folder(name))
        if lab is None:
            known = ", ".join(lab.name for lab in self.labs())
            hint = f"there is: {known}" if known else "start one: fairlead lab up"
            raise LabError(f"there is no lab {name!r}", hint=hint)
        return lab


def default(environ: Mapping[str, str]) -> LabHome:
    """Return this user's labs, at the place that the XDG Base Directory specification names."""
    return LabHome(Path(state_folder(environ, "lab")))


@contextmanager
def hold_root_lock(home: LabHome) -> Iterator[None]:
    """Hold the lock under which one process at a time creates or removes folders of labs."""
    while True:
        try:
            home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(home.root, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # the end of the last lab removed it between the two calls
        except OSError as error:
            raise LabError(
                f"{home.root}: {error.strerror}", hint="set XDG_STATE_HOME to a folder that you can write to"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_same_file(home.root, handle):
                yield
                return
        finally:
            os.close(handle)


@contextmanager
def hold_lock(folder: Path, patience: float = 0.0) -> Iterator[bool]:
    """Hold a lab's lock; yield False if another process starts or ends the lab, or it is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield False
        return
    try:
        yield _try_lock(handle, patience) and _is_same_file(folder, handle)
    finally:
        os.close(handle)


def make_staging(folder: Path) -> Path:
    """Create the folder of a lab under a name that no lab has; the caller holds the lock of all labs."""
    staging = folder.with_name(f"{_STAGING}{folder.name}")
    shutil.rmtree(staging, ignore_errors=True)  # of a starter that was killed
    staging.mkdir(mode=0o700)
    return staging


def is_unused(folder: Path) -> bool:
    """Return whether a lab is unused: half started or orphaned; the caller holds its lock."""
    lab = load(folder)
    return lab is None or lab.phase is LabPhase.STARTING or lab.is_orphaned()


def remove(home: LabHome, folder: Path) -> None:
    """Remove a lab's folder, and with the last one the folder of all labs."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(0.05)  # a process that is just ending wrote another file
    with hold_root_lock(home), suppress(OSError):  # not empty: other labs are there
        for staging in home.root.glob(f"{_STAGING}*"):
            shutil.rmtree(staging, ignore_errors=True)
        home.root.rmdir()
        home.root.parent.rmdir()


def free_ports(names: Iterable[str], taken: Iterable[int]) -> dict[str, int]:
    """Return a free loopback port for each name, none of those that other labs have taken."""
    avoid, chosen = set(taken), dict[str, int]()
    candidates = iter(random.SystemRandom().sample(_PORTS, len(_PORTS)))
    for name in names:
        chosen[name] = next((port for port in candidates if port not in avoid and _is_free(port)), 0)
        if not chosen[name]:
            raise LabError(f"no free port between {_PORTS.start} and {_PORTS.stop}", hint="see: ss -ltn")
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _try_lock(handle: int, patience: float) -> bool:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        else:
            return True


def _is_same_file(path: Path, handle: int) -> bool:
    """Return whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False
