"""The processes on each device, as the driver reports them; a device that is absent is not measured."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Final, NamedTuple, Protocol

from fairlead.attribution import NVMAP
from fairlead.nvml import DRIVER_SIGNS, LIBRARY, Gpu, GpuProcess, ProcessBusy, open_session

_LIMIT: Final = 1024 * 1024
"""Bytes of a file that are read."""
_MOST_ENTRIES: Final = 4096
"""Entries of a folder that are read."""
_PROPERTY: Final = re.compile(r"(domain|location_id) ([0-9]{1,10})")
_CLIENT: Final = re.compile(r"user\s.*\s([0-9]{1,10})\s+([0-9]{1,15})K\s*")
"""A line of nvmap's clients: the program's name is in the middle, and may contain anything."""


class ProcessUse(NamedTuple):
    """What a process uses of a device; None: not measured."""

    memory: int | None
    """Bytes."""
    busy: float | None
    """The share of time with work, 0 to 1."""


class DeviceProcesses(NamedTuple):
    """A device, and the processes on it by pid."""

    uuid: str
    bus: str
    """As in an inventory: `pci:0000:3b:00.0`; `nvmap` for a Jetson's GPU."""
    processes: Mapping[int, ProcessUse]


class ProcessSource(Protocol):
    """A driver that reports the processes on its devices."""

    def read(self) -> list[DeviceProcesses]:
        """Return the devices that can be measured."""

    def close(self) -> None:
        """Release the driver."""


class NvmlProcesses(Protocol):
    """The part of an open NVML session that attribution uses."""

    def gpus(self) -> list[Gpu]:
        """Return every GPU."""

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        """Return the processes on one GPU; None if they are not reported."""

    def busy(self, index: int, since: int) -> ProcessBusy | None:
        """Return how busy processes kept one GPU since an earlier reading; None if that is not reported."""


class NvmlSource:
    """NVIDIA GPUs: a session that stays open while it shows GPUs, and is opened again after a failure."""

    def __init__(self, connect: Callable[[], AbstractContextManager[NvmlProcesses | None]]) -> None:
        self._connect = connect
        self._stack = ExitStack()
        self._session: NvmlProcesses | None = None
        self._gpus: Sequence[Gpu] = ()
        self._since: dict[int, int] = {}

    def read(self) -> list[DeviceProcesses]:
        """Return the GPUs that report their processes."""
        if self._session is None:
            self._session = self._stack.enter_context(self._connect())
            self._gpus = self._session.gpus() if self._session else ()
        elif any(gpu.mig_enabled for gpu in self._gpus):  # instances come and go while the session is open
            self._gpus = self._session.gpus()
        devices = [found for gpu in self._gpus for found in self._devices(gpu)]
        if not devices:
            self.close()
        return devices

    def close(self) -> None:
        """End the session."""
        self._session, self._gpus, self._since = None, (), {}
        self._stack.close()

    def _devices(self, gpu: Gpu) -> list[DeviceProcesses]:
        """Return a GPU, or the MIG instances of one that is split: it lists all their processes again."""
        return [found for place in nvml_places(gpu) if (found := self._device(*place))]

    def _device(self, index: int, uuid: str, bus: str) -> DeviceProcesses | None:
        assert self._session is not None
        listed = self._session.processes(index)
        if listed is None:
            return None
        busy = self._session.busy(index, self._since.get(index, 0))
        if busy is not None:
            self._since[index] = busy.at
        processes = {
            each.pid: ProcessUse(each.memory, None if busy is None else busy.shares.get(each.pid, 0.0))
            for each in listed
        }
        return DeviceProcesses(uuid, bus, processes)


def nvml_places(gpu: Gpu) -> list[tuple[int, str, str]]:
    """Return the number, UUID and bus of a GPU that is not split, or of each of its MIG instances."""
    bus = f"pci:{gpu.address}" if gpu.address else NVMAP
    return [(each.index, each.uuid, bus) for each in gpu.instances] or [(gpu.index, gpu.uuid, bus)]


class KfdSource:
    """AMD GPUs: the compute processes that amdkfd lists in sysfs, with their video memory."""

    def __init__(self, sys: str) -> None:
        self._kfd = f"{sys}/class/kfd/kfd"

    def read(self) -> list[DeviceProcesses]:
        """Return the GPUs of amdkfd's topology; none where it lists no processes."""
        pids = _names(f"{self._kfd}/proc")
        if pids is None:
            return []
        nodes = _names(f"{self._kfd}/topology/nodes") or []
        devices = [self._device(f"{self._kfd}/topology/nodes/{node}", pids) for node in nodes]
        return [device for device in devices if device]

    def close(self) -> None:
        """Do nothing: nothing stays open."""

    def _device(self, node: str, pids: Sequence[str]) -> DeviceProcesses | None:
        number = (_text(f"{node}/gpu_id") or "").strip()
        properties = {
            match[1]: int(match[2]) for match in _PROPERTY.finditer(_text(f"{node}/properties") or "")
        }
        if not number.isdecimal() or number == "0" or len(properties) < len(("domain", "location_id")):
            return None  # a processor
        domain, place = properties["domain"], properties["location_id"]
        bus = f"pci:{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 0x7}"
        used = {int(pid): _text(f"{self._kfd}/proc/{pid}/vram_{number}") for pid in pids if pid.isdecimal()}
        processes = {
            pid: ProcessUse(int(text), None)
            for pid, text in used.items()
            if text is not None and text.strip().isdecimal() and int(text)
        }
        return DeviceProcesses("", bus, processes)


class NvmapSource:
    """A Jetson's GPU: nvmap's clients in debugfs, where that is mounted and readable."""

    def __init__(self, debugfs: str) -> None:
        self._file = f"{debugfs}/nvmap/iovmm/clients"

    def read(self) -> list[DeviceProcesses]:
        """Return the GPU."""
        text = _text(self._file)
        if text is None:
            return []
        rows = [match.groups() for line in text.splitlines() if (match := _CLIENT.fullmatch(line))]
        used: dict[int, int] = {}
        for pid, kibibytes in rows:
            used[int(pid)] = used.get(int(pid), 0) + (int(kibibytes) << 10)
        return [DeviceProcesses("", NVMAP, {pid: ProcessUse(size, None) for pid, size in used.items()})]

    def close(self) -> None:
        """Do nothing: nothing stays open."""


def sources(nvml: str = "", sys: str = "/sys", debugfs: str = "") -> Iterator[ProcessSource]:
    """Yield every source; `nvml` is the library's path, by default that of the system."""
    yield NvmlSource(lambda: open_session(nvml or LIBRARY) if nvml or _nvidia_driver() else nullcontext())
    yield KfdSource(sys)
    if debugfs:
        yield NvmapSource(debugfs)


def _nvidia_driver() -> bool:
    """Say whether the driver is loaded: NVML would load it otherwise."""
    return any(map(os.path.exists, DRIVER_SIGNS))


def _names(folder: str) -> list[str] | None:
    try:
        return sorted(os.listdir(folder))[:_MOST_ENTRIES]
    except OSError:
        return None


def _text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None
