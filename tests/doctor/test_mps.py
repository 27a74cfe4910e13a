"""Whether jobs can ask for MPS here, and whether a daemon that fairlead did not start is in the way."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fairlead.doctor.finding import Severity
from fairlead.doctor.mps import MpsState, examine_mps, read_mps
from fairlead.ledger.users import user_name
from fairlead.limiter.mps import MpsFolder, daemon_variables
from fairlead.limiter.mps_daemon import MpsDaemon
from tests.limiter.control import write_control

GPUS = ("NVIDIA H200",)


def test_a_machine_without_such_a_gpu_has_no_finding() -> None:
    assert examine_mps(MpsState(program="/usr/bin/nvidia-cuda-mps-control")) == []


def test_what_is_said_of_a_machine_with_one() -> None:
    (finding,) = examine_mps(MpsState(GPUS, "/usr/bin/nvidia-cuda-mps-control"))
    assert finding.verdict is Severity.OK
    assert finding.text == "jobs can ask for --limiter mps on 1 GPU: NVIDIA H200"
    (finding,) = examine_mps(MpsState(GPUS))
    assert finding.text == "nvidia-cuda-mps-control is not installed: jobs cannot ask for --limiter mps"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[MpsDaemon]:
    """Start a daemon that fairlead did not start."""
    with TemporaryDirectory(prefix="mps") as folder:
        daemon = MpsDaemon(MpsFolder(folder), write_control(tmp_path))
        assert daemon.start(daemon_variables(daemon.folder, "GPU-1")) == ""
        yield daemon
        assert daemon.quit()


def test_a_daemon_outside_fairlead_is_found_where_programs_look(outside: MpsDaemon, tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    state = read_mps(GPUS, environ, outside.folder.pipe)
    assert state.program == outside.program
    process = f"process {outside.pid()} of user {user_name(tmp_path.stat().st_uid)}"
    assert state.outside == f"{process}, in {outside.folder.pipe}"
    (finding,) = examine_mps(state)
    assert finding.verdict is Severity.WARN
    assert read_mps(GPUS, environ, str(tmp_path)).outside == ""
    named = {**environ, "CUDA_MPS_PIPE_DIRECTORY": outside.folder.pipe}
    assert read_mps(GPUS, named, str(tmp_path)).outside == state.outside
