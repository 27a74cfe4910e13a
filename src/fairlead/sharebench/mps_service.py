"""An MPS daemon for engines that no queue starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.errors import MissingPartError, UserError
from fairlead.limiter.mps import MpsFolder, client_variables, control_program, daemon_variables
from fairlead.limiter.mps_daemon import MpsDaemon


def check_mps() -> None:
    """Raise if the driver's part for MPS is missing."""
    if control_program(os.environ) is None:
        raise MissingPartError(
            "nvidia-cuda-mps-control is not installed", "install it with the NVIDIA driver, or leave out mps"
        )


@contextmanager
def mps_service(path: str, gpu: str) -> Iterator[dict[str, str]]:
    """Run a daemon for one GPU during a block; yield the variables of its clients."""
    check_mps()
    folder = MpsFolder(path)
    daemon = MpsDaemon(folder, control_program(os.environ) or "")
    if problem := daemon.start(daemon_variables(folder, gpu)):
        raise UserError(f"MPS does not start: {problem}", "leave out mps, or read its log")
    try:
        yield client_variables(folder, None, None)
    finally:
        daemon.quit()
