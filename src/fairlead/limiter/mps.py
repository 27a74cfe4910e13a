"""CUDA's Multi-Process Service: the folders of a daemon, and the variables of it and of its clients.

One daemon serves one user and one device: a client of another user waits without end while the server of the
first is active. A client whose daemon is missing runs on without MPS and without its limits, and says
nothing: see that the daemon lives before a client starts.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PROGRAM: Final = "nvidia-cuda-mps-control"
PROCESS_NAME: Final = PROGRAM[:15]
"""The name of daemons and servers in /proc/PID/comm, which has at most 15 characters."""
PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
"""A program that sets it is a client of the daemon in that folder."""
LOG: Final = "CUDA_MPS_LOG_DIRECTORY"
MEMORY_LIMIT: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
COMPUTE_LIMIT: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
DEVICES: Final = "CUDA_VISIBLE_DEVICES"
DEFAULT_FOLDER: Final = "/tmp/nvidia-mps"  # noqa: S108  # where a daemon is that was started without a folder
LONGEST_SOCKET: Final = 107
"""Bytes of the path of a Unix socket."""
_PLACES: Final = ("/usr/bin", "/usr/local/nvidia/bin", "/usr/lib/nvidia", "/opt/nvidia/bin", "/bin")
"""Where drivers and container runtimes put the program, beside PATH."""
_LONGEST_SOCKET_NAME: Final = "control_privileged"


@dataclass(frozen=True, slots=True)
class MpsFolder:
    """The folder of one daemon."""

    path: str

    @property
    def pipe(self) -> str:
        """The folder of its sockets: a process that may enter it may be a client."""
        return os.path.join(self.path, "pipe")

    @property
    def log(self) -> str:
        """The folder of its logs."""
        return os.path.join(self.path, "log")

    @property
    def is_short(self) -> bool:
        """Whether the paths of its sockets are short enough for the kernel."""
        return len(os.fsencode(os.path.join(self.pipe, _LONGEST_SOCKET_NAME))) <= LONGEST_SOCKET


def control_program(environ: Mapping[str, str]) -> str | None:
    """Return the path of the program that is the daemon; None: it is not installed."""
    folders = [*environ.get("PATH", os.defpath).split(os.pathsep), *_PLACES]
    for path in (os.path.join(folder, PROGRAM) for folder in folders if os.path.isabs(folder)):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def daemon_variables(folder: MpsFolder, device_uuid: str) -> dict[str, str]:
    """Return the variables of a daemon for one GPU or MIG instance."""
    return {PIPE: folder.pipe, LOG: folder.log, DEVICES: device_uuid}


def client_variables(
    folder: MpsFolder, limit_bytes: int | None, percent: int | None, devices: int = 1
) -> dict[str, str]:
    """Return the variables of a client: its daemon, and what it may take of each of its devices.

    The memory limit counts everything that the client holds, its context included. None: no limit.
    """
    variables = {PIPE: folder.pipe, LOG: folder.log}
    if limit_bytes is not None:
        variables[MEMORY_LIMIT] = memory_limit(limit_bytes, devices)
    if percent is not None:
        variables[COMPUTE_LIMIT] = str(percent)
    return variables


def memory_limit(limit_bytes: int, devices: int = 1) -> str:
    """Return the memory limit of a client for each of its devices, as MPS reads it: `0=4096M,1=4096M`."""
    mebibytes = max(1, limit_bytes >> 20)
    return ",".join(f"{number}={mebibytes}M" for number in range(devices))
