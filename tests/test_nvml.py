"""The NVML door with a library built for the test: a real dlopen, real structs, no GPU."""

import ctypes
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.nvml import Gpu, GpuProcess, GpuReading, Health, ProcessBusy, open_session
from fairlead.nvml.processes import MOST_PROCESSES
from fairlead.units import Bytes, Celsius, Hertz, Watts
from tests.worlds import World, pci

SOURCE = os.path.join(os.path.dirname(__file__), "nvml.c")
COMPILER = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)

SILENT = GpuReading(None, None, None, None, None, None, None, None, None, None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on PATH (CI has cc)")


def built(folder: Path, *options: str) -> str:
    """Compile the fake library and return its path."""
    library = str(folder / f"libnvml{len(options)}.so")
    command = [str(COMPILER), "-shared", "-fPIC", "-Wall", "-Werror", *options, "-o", library, SOURCE]
    subprocess.run(command, check=True)
    return library


@needs_compiler
def test_the_identity_of_each_gpu(tmp_path: Path) -> None:
    with open_session(built(tmp_path)) as nvml:
        assert nvml is not None
        assert nvml.gpus() == [
            Gpu(
                index=0,
                address="0000:3b:00.0",
                name="NVIDIA H200",
                uuid="GPU-01234567-89ab-cdef-0123-456789abcdef",
                memory=Bytes(150754820096),
                power_limit=Watts(700.0),
                driver_version="550.54.15",
                ecc_errors=0,
                remap_failed=False,
            ),
            Gpu(1, "", "Orin (nvgpu)", "", None, None, "550.54.15", None),
        ]


@needs_compiler
def test_the_measurements_of_a_gpu(tmp_path: Path) -> None:
    with open_session(built(tmp_path)) as nvml:
        assert nvml is not None
        assert nvml.reading(0) == GpuReading(
            memory_used=Bytes(1000),
            memory_free=Bytes(150_000_000_000),
            memory_total=Bytes(150754820096),
            busy_percent=42.0,
            memory_busy_percent=7.0,
            power=Watts(123.456),
            energy_joules=9876543210.123,
            temperature=Celsius(61),
            sm_clock=Hertz(1980e6),
            memory_clock=Hertz(3201e6),
            memory_reserved=Bytes(600 << 20),
            health=Health(
                corrected_volatile=3,
                uncorrected_volatile=0,
                corrected_aggregate=4,
                uncorrected_aggregate=5_000_000_000,
                rows_correctable=6,
                rows_uncorrectable=2,
                remap_pending=True,
                remap_failed=False,
                pages_single_bit=0,
                pages_double_bit=9,
                pages_pending=False,
                clocks_event_reasons=0x24,
                pcie_replays=8,
                links=((0, True), (2, False), (3, True)),
                link_crc_flit=6_000_000_000,
                link_crc_data=None,
                link_replay=12,
                link_recovery=0,
                link_sent=Bytes(1000 << 10),
                link_received=Bytes(2000 << 10),
            ),
        )
        assert nvml.reading(1) == SILENT
        assert nvml.reading(2) is None


@needs_compiler
def test_a_driver_without_the_second_memory_call_uses_the_first(tmp_path: Path) -> None:
    with open_session(built(tmp_path, "-DWITHOUT_MEMORY_V2")) as nvml:
        assert nvml is not None
        reading = nvml.reading(0)
        assert reading is not None
        assert (reading.memory_used, reading.memory_total) == (106127360, 16106127360)


@needs_compiler
def test_a_driver_without_event_reasons_uses_throttle_reasons(tmp_path: Path) -> None:
    with open_session(built(tmp_path, "-DOLDER_REASONS")) as nvml:
        assert nvml is not None
        reading = nvml.reading(0)
        assert reading is not None
        assert reading.health.clocks_event_reasons == 0x24


@needs_compiler
def test_xids_are_read_once_in_order_and_only_from_gpus_that_report_them(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        assert nvml.xids() == {0: []}
        stand_in.test_xid(ctypes.c_ulonglong(31))
        stand_in.test_xid(ctypes.c_ulonglong(79))
        assert nvml.xids() == {0: [31, 79]}
        assert nvml.xids() == {0: []}
        assert stand_in.test_sets() == 1
    assert stand_in.test_sets() == 0


@needs_compiler
def test_a_gpu_that_fell_off_the_bus_is_lost_and_an_absent_one_is_not(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        stand_in.test_lost(1)
        reading = nvml.reading(0)
        assert reading is not None
        assert "lost" in reading.health.fault
        gone = Gpu(-1, "0000:3b:00.0", "", "", None, None, "550.54.15", None, lost=True)
        assert nvml.gpus(["0000:3b:00.0", "0000:99:00.0"])[1:] == [gone]
        assert "lost" in gone.fault
        stand_in.test_lost(0)
        assert nvml.gpus(["0000:3b:00.0"])[0].fault == ""


@needs_compiler
def test_uncorrected_errors_and_failed_rows_are_faults(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        faults = []
        for uncorrected, failed in ((0, 0), (1, 0), (0, 1)):
            stand_in.test_uncorrected(ctypes.c_ulonglong(uncorrected))
            stand_in.test_failed_rows(failed)
            reading = nvml.reading(0)
            assert reading is not None
            assert reading.health.fault == nvml.gpus()[0].fault
            faults.append(reading.health.fault.split()[:2])
        assert faults == [[], ["uncorrected", "memory"], ["a", "row"]]


@needs_compiler
@pytest.mark.parametrize("version", ["", "-DPROCESSES_V1", "-DPROCESSES_V3"])
def test_the_processes_of_a_gpu_by_every_version_of_the_call(tmp_path: Path, version: str) -> None:
    library = built(tmp_path, *filter(None, [version]))
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        assert nvml.processes(0) == ()
        for pid, used, kind in (
            (7, 5 << 30, 1),
            (4, 1 << 20, 2),
            (7, 5 << 30, 2),
            (9, 2**64 - 1, 5),
            (0, 1, 1),
        ):
            stand_in.test_process(pid, ctypes.c_ulonglong(used), kind)
        expected = (GpuProcess(4, Bytes(1 << 20)), GpuProcess(7, Bytes(5 << 30)), GpuProcess(9, None))
        assert nvml.processes(0) == expected
        assert nvml.processes(1) is None  # not supported: not measured, and not empty
        assert nvml.processes(2) is None


@needs_compiler
def test_a_gpu_with_more_processes_than_can_be_read_is_not_measured(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        for pid in range(1, MOST_PROCESSES + 1):
            stand_in.test_process(pid, ctypes.c_ulonglong(pid), 1)
        assert len(nvml.processes(0) or ()) == MOST_PROCESSES
        stand_in.test_process(MOST_PROCESSES + 1, ctypes.c_ulonglong(1), 1)
        assert nvml.processes(0) is None


@needs_compiler
def test_the_busy_shares_of_processes_since_the_last_reading(tmp_path: Path) -> None:
    library = built(tmp_path)
    stand_in = ctypes.CDLL(library)
    with open_session(library) as nvml:
        assert nvml is not None
        assert nvml.busy(0, 0) == ProcessBusy(0, {})
        for which, (pid, percent, at) in enumerate(((7, 40, 100), (7, 60, 200), (8, 25, 150), (9, 101, 300))):
            stand_in.test_process(pid, ctypes.c_ulonglong(1), 1)
            stand_in.test_busy(which, percent, ctypes.c_ulonglong(at))
        assert nvml.busy(0, 0) == ProcessBusy(200, {7: 0.5, 8: 0.25})
        assert nvml.busy(0, 150) == ProcessBusy(200, {7: 0.6})
        assert nvml.busy(0, 300) == ProcessBusy(300, {})
        assert nvml.busy(1, 0) is None
    with open_session(built(tmp_path, "-DWITHOUT_PROCESSES", "-g")) as older:
        assert older is not None
        assert (older.processes(0), older.busy(0, 0)) == (None, None)


@needs_compiler
def test_a_session_is_closed_whatever_happens(tmp_path: Path) -> None:
    library = built(tmp_path)
    count = ctypes.CDLL(library).test_sessions
    with suppress(RuntimeError), open_session(library):
        assert count() == 1
        raise RuntimeError
    assert count() == 0


@needs_compiler
def test_a_library_without_a_driver_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVML_BROKEN", "1")
    with open_session(built(tmp_path)) as nvml:
        assert nvml is None


@needs_compiler
def test_another_library_is_none(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int something_else(void) { return 0; }\n")
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", tmp_path / "other.so", source], check=True)
    with open_session(str(tmp_path / "other.so")) as nvml:
        assert nvml is None


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF" + bytes(100)])
def test_a_missing_or_broken_library_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "junk.so").write_bytes(content)
    for library in (str(tmp_path / "junk.so"), str(tmp_path / "missing.so"), "libnot-there-at-all.so.9"):
        with open_session(library) as nvml:
            assert nvml is None


@needs_compiler
@pytest.mark.parametrize(("uncorrected", "state"), [("0", "healthy"), ("1", "driver-bound")])
def test_the_agent_treats_an_uncorrected_error_as_a_fault(
    tmp_path: Path, world: World, uncorrected: str, state: str
) -> None:
    address = "0000:3b:00.0"
    text = "Model: \t\t NVIDIA H200\nDevice Minor: \t 0\n"
    files = {
        **pci(address, "10de:2335", kind="0x030200", driver="nvidia"),
        f"/proc/driver/nvidia/gpus/{address}/information": text,
        "/dev/nvidia0": "",
    }
    root = world(files).root
    os.rename(built(tmp_path), tmp_path / "libnvidia-ml.so.1")
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "NVML_UNCORRECTED": uncorrected}
    command = [sys.executable, "-m", "fairlead", "serve", "agent", "--once", "--host-root", root]
    page = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=300).stdout
    lines = page.splitlines()
    assert f'fairlead_accelerator_state{{id="pci-0000-3b-00-0",model="h200",state="{state}"}} 1.0' in lines
    values = {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:5] == "DCGM_"}
    assert values["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] == float(uncorrected)
    assert values["DCGM_FI_DEV_XID_ERRORS"] == values["DCGM_FI_DEV_XID_ERROR"] == 0
    assert (values["DCGM_FI_DEV_SM_CLOCK"], values["DCGM_FI_DEV_SM_CLOCK_HERTZ"]) == (1980.0, 1.98e9)
    assert "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL" not in values  # not supported: absent, not 0
