"""One machine as a source of the dashboard."""

import asyncio

from fairlead.dashboard.row_types import DeviceRow, WorkloadRow
from fairlead.inventory import Accelerator, Inventory, Machine, State
from fairlead.job import Assumed, JobKind, JobUse, LocalJob, LocalState, Requested
from fairlead.local.dashboard.source import MachineSource, Reading
from fairlead.local.status import ForeignProcess, LocalStatus
from fairlead.local.status_reader import StatusReader
from fairlead.local.view import DeviceView, MachineView, WaitDecision
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds, Watts

_GIB = 1 << 30
GPU = Accelerator(
    "gpu-0", "t4", "Tesla T4", "NVIDIA", "gpu", State.HEALTHY, "", 1.0, ("t4",), "pci:1", Bytes(16 * _GIB)
)
VIEW = MachineView(
    100.0,
    Machine("x86_64"),
    (DeviceView(GPU, Bytes(5 * _GIB), 0.4, Watts(55.0), temperature=61.0),),
    8000,
    2000,
    Bytes(32 * _GIB),
    Bytes(20 * _GIB),
)


def job(number: int, state: LocalState, **more: object) -> LocalJob:
    base: dict[str, object] = {"submitted": 900.0, "submitted_boot": 90.0, "boot": "b"}
    return LocalJob(f"j{number}", number, f"job-{number}", 0, "ann", JobKind.SUBMIT, state, **(base | more))  # type: ignore[arg-type]


RUNNING = job(
    1,
    LocalState.RUNNING,
    requested=Requested(gpu_memory=Bytes(4 * _GIB), model="resnet.onnx"),
    assumed=Assumed(gpus=1, need=Need.fixed(Bytes(3 * _GIB))),
    shares=(DeviceShare("gpu-0", Bytes(4 * _GIB)),),
    measured=JobUse(99.0, gpu_memory={"gpu-0": Bytes(2 * _GIB)}),
    started=950.0,
)
WAITING = job(2, LocalState.QUEUED, assumed=Assumed(gpus=1, source="stated"))
FAILED = job(3, LocalState.FAILED, exit_code=2, started=901.0, ended=902.0)
STATUS = LocalStatus(
    (RUNNING, WAITING),
    100.0,
    VIEW,
    waits={"j2": WaitDecision(1, "no accelerator has 14 GiB free", Seconds(60.0))},
    foreign=(ForeignProcess(77, "python3", 0, "root", {"gpu-0": Bytes(_GIB)}),),
)


def source() -> MachineSource:
    shown = MachineSource({}, lambda: 1000.0, reader=StatusReader(None, None), name="box")
    shown.show(Reading(STATUS, Inventory(Machine("x86_64")), (FAILED,)))
    return shown


def test_accelerator_shows_requested_predicted_and_measured_memory() -> None:
    row = source().board.tables["devices"].rows["box/gpu-0"]
    assert isinstance(row, DeviceRow)
    assert (row.memory_used_bytes, row.utilisation, row.power_watts) == (5 * _GIB, 0.4, 55.0)
    assert (row.temperature_celsius, row.measured) == (61.0, 1000.0)
    mine, foreign = row.shares
    assert (mine.holder, mine.requested_bytes, mine.predicted_bytes) == ("j1", 4 * _GIB, 3 * _GIB)
    assert mine.measured_bytes == 2 * _GIB
    assert (foreign.holder, foreign.name, foreign.measured_bytes) == (None, "python3 (77)", _GIB)


def test_jobs_show_their_state_and_why() -> None:
    rows = source().board.tables["workloads"].rows
    running, waiting, failed = (rows[name] for name in ("j1", "j2", "j3"))
    assert isinstance(running, WorkloadRow)
    assert isinstance(waiting, WorkloadRow)
    assert isinstance(failed, WorkloadRow)
    assert (running.state, running.devices, running.model) == ("running", ("box/gpu-0",), "resnet.onnx")
    assert (waiting.state, waiting.place, waiting.why) == ("waiting", 1, "no accelerator has 14 GiB free")
    assert (failed.state, failed.since, failed.why) == ("failed", 902.0, "exit code 2")


def test_why_a_job_waits_names_the_expected_wait() -> None:
    answer = asyncio.run(source().why("j2"))
    assert answer is not None
    assert (answer.fits, answer.summary) == (False, "no accelerator has 14 GiB free")
    assert answer.notes == ("its size: stated", "it starts in about 60s")
    assert asyncio.run(source().why("j9")) is None


def test_measured_values_are_kept_for_a_while() -> None:
    series = source().series.read("box/gpu-0", 0.0, "fairlead top")
    assert (series.times, series.utilisation, series.power_watts) == ([1000.0], [0.4], [55.0])
