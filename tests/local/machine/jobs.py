"""Jobs of tests: the fields that matter to a machine, the others filled in."""

from fairlead.job import Assumed, JobKind, LocalJob, LocalState, ProcessRef, Requested
from fairlead.share import DeviceShare


def running(
    *shares: DeviceShare,
    requested: Requested | None = None,
    assumed: Assumed | None = None,
    pid: int | None = None,
    uid: int = 0,
    number: int = 1,
) -> LocalJob:
    """Return a running job with these shares."""
    return LocalJob(
        id=f"job-{number}",
        number=number,
        name="train",
        uid=uid,
        user="root",
        kind=JobKind.RUN,
        state=LocalState.RUNNING,
        submitted=0.0,
        submitted_boot=0.0,
        boot="boot",
        requested=requested or Requested(),
        assumed=assumed or Assumed(),
        shares=shares,
        command=None if pid is None else ProcessRef(pid, 1, "boot"),
    )
