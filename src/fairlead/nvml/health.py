"""The health of a GPU: memory errors, throttle reasons and NVLink, and the event set in which XIDs arrive."""

import ctypes
from collections.abc import Mapping
from typing import Final

from fairlead.nvml.library import NO_FUNCTION, SUCCESS, EventData, FieldValue, Handle, NvmlLibrary
from fairlead.nvml.mig import ANY_COMPUTE_INSTANCE, WHOLE_GPU, instance_index
from fairlead.nvml.types import Health
from fairlead.units import Bytes

_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_SINGLE_BIT, _DOUBLE_BIT = 0, 1
_INSUFFICIENT_SIZE: Final = 7
"""NVML_ERROR_INSUFFICIENT_SIZE: the result of a call that only asks for the count."""
_MOST_LINKS: Final = 36
_NO_SUCH_LINK: Final = 2
"""NVML_ERROR_INVALID_ARGUMENT."""
_ALL_LINKS: Final = 0xFFFFFFFF
_FIELDS: Final = {  # nvml.h's number of the field, and its scope: all links for some
    "link_crc_flit": (38, 0),
    "link_crc_data": (45, 0),
    "link_replay": (52, 0),
    "link_recovery": (59, 0),
    "link_sent": (138, _ALL_LINKS),
    "link_received": (139, _ALL_LINKS),
}
_UNSIGNED_INT, _UNSIGNED_SHORT, _DOUBLE = 1, 6, 0
_XID_CRITICAL: Final = 0x8
_MOST_EVENTS: Final = 256
"""Events per read; a GPU that reports without end must not block the agent."""


def read_health(library: NvmlLibrary, handle: Handle) -> Health:
    """Return the health of a GPU; the caller adds whether it is lost, after all other calls."""
    rows = _rows(library, handle)
    fields = _fields(library, handle)
    sent, received = fields["link_sent"], fields["link_received"]
    pending = library.number("nvmlDeviceGetRetiredPagesPendingStatus", handle)
    return Health(
        corrected_volatile=_ecc(library, handle, _CORRECTED, _VOLATILE),
        uncorrected_volatile=_ecc(library, handle, _UNCORRECTED, _VOLATILE),
        corrected_aggregate=_ecc(library, handle, _CORRECTED, _AGGREGATE),
        uncorrected_aggregate=_ecc(library, handle, _UNCORRECTED, _AGGREGATE),
        rows_correctable=rows[0] if rows else None,
        rows_uncorrectable=rows[1] if rows else None,
        remap_pending=bool(rows[2]) if rows else None,
        remap_failed=bool(rows[3]) if rows else None,
        pages_single_bit=_pages(library, handle, _SINGLE_BIT),
        pages_double_bit=_pages(library, handle, _DOUBLE_BIT),
        pages_pending=None if pending is None else bool(pending),
        clocks_event_reasons=_reasons(library, handle),
        pcie_replays=library.number("nvmlDeviceGetPcieReplayCounter", handle),
        links=_links(library, handle),
        link_crc_flit=fields["link_crc_flit"],
        link_crc_data=fields["link_crc_data"],
        link_replay=fields["link_replay"],
        link_recovery=fields["link_recovery"],
        link_sent=None if sent is None else Bytes(sent << 10),
        link_received=None if received is None else Bytes(received << 10),
    )


def uncorrected_errors(library: NvmlLibrary, handle: Handle) -> int | None:
    """Return the uncorrected memory errors since the driver was loaded."""
    return _ecc(library, handle, _UNCORRECTED, _VOLATILE)


def remap_failed(library: NvmlLibrary, handle: Handle) -> bool | None:
    """Return whether a row of the memory could not be remapped."""
    rows = _rows(library, handle)
    return bool(rows[3]) if rows else None


class XidEvents:
    """NVML's event set: it holds the XIDs since the last read, and none from before its creation."""

    def __init__(self, library: NvmlLibrary, handles: Mapping[int, Handle]) -> None:
        self._library = library
        self._set = ctypes.c_void_p()
        self._indices: dict[int | None, int] = {}
        if library.call("nvmlEventSetCreate", ctypes.byref(self._set)):
            self._indices = {handle.value: i for i, handle in handles.items() if self._register(handle)}

    def read(self) -> dict[int, list[int]]:
        """Return the XIDs of each GPU that can report any, in order; other GPUs are left out.

        An XID of one MIG instance is listed under the number of that instance.
        """
        xids: dict[int, list[int]] = {index: [] for index in self._indices.values()}
        event = EventData()
        for _ in range(_MOST_EVENTS if xids else 0):
            wait = ("nvmlEventSetWait_v2", self._set, ctypes.byref(event), ctypes.c_uint(0))
            if not self._library.call(*wait):
                break
            index = self._indices.get(event.device)
            if event.type == _XID_CRITICAL and index is not None:
                xids.setdefault(_place(index, event), []).append(int(event.data))
        return xids

    def close(self) -> None:
        """Free the event set."""
        if self._set:
            self._library.call("nvmlEventSetFree", self._set)

    def _register(self, handle: Handle) -> bool:
        supported = self._library.number("nvmlDeviceGetSupportedEventTypes", handle, wide=True) or 0
        types = ctypes.c_ulonglong(_XID_CRITICAL)
        return bool(supported & _XID_CRITICAL) and self._library.call(
            "nvmlDeviceRegisterEvents", handle, types, self._set
        )


def _place(gpu: int, event: EventData) -> int:
    """Return the number of what an event concerns: the GPU, or one of its MIG instances."""
    if event.gpu_instance == WHOLE_GPU:
        return gpu
    whole_instance = event.compute_instance == WHOLE_GPU
    compute_instance = ANY_COMPUTE_INSTANCE if whole_instance else event.compute_instance
    return instance_index(gpu, event.gpu_instance, compute_instance)


def _ecc(library: NvmlLibrary, handle: Handle, kind: int, counter: int) -> int | None:
    return library.number("nvmlDeviceGetTotalEccErrors", handle, kind, counter, wide=True)


def _rows(library: NvmlLibrary, handle: Handle) -> tuple[int, int, int, int] | None:
    """Return remapped rows: correctable, uncorrectable, pending, failed."""
    values = [ctypes.c_uint() for _ in range(4)]
    if not library.call("nvmlDeviceGetRemappedRows", handle, *(ctypes.byref(value) for value in values)):
        return None
    correctable, uncorrectable, pending, failed = (value.value for value in values)
    return correctable, uncorrectable, pending, failed


def _pages(library: NvmlLibrary, handle: Handle, cause: int) -> int | None:
    """Return how many pages are retired; the call has no buffer for their addresses."""
    count = ctypes.c_uint(0)
    code = library.code("nvmlDeviceGetRetiredPages", handle, cause, ctypes.byref(count), None)
    return count.value if code in (SUCCESS, _INSUFFICIENT_SIZE) else None


def _reasons(library: NvmlLibrary, handle: Handle) -> int | None:
    newer = library.number("nvmlDeviceGetCurrentClocksEventReasons", handle, wide=True)
    if newer is not None:
        return newer
    return library.number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, wide=True)


def _links(library: NvmlLibrary, handle: Handle) -> tuple[tuple[int, bool], ...]:
    """Return the state of every NVLink by its number; some numbers may have no link."""
    links: list[tuple[int, bool]] = []
    for link in range(_MOST_LINKS):
        state = ctypes.c_uint()
        code = library.code("nvmlDeviceGetNvLinkState", handle, ctypes.c_uint(link), ctypes.byref(state))
        if code in (_NO_SUCH_LINK, NO_FUNCTION):
            break
        if code == SUCCESS:
            links.append((link, bool(state.value)))
    return tuple(links)


def _fields(library: NvmlLibrary, handle: Handle) -> dict[str, int | None]:
    """Read all fields in one call; each has a return code of its own."""
    values = (FieldValue * len(_FIELDS))()
    for value, (field, scope) in zip(values, _FIELDS.values(), strict=True):
        value.field, value.scope = field, scope
    succeeded = library.call("nvmlDeviceGetFieldValues", handle, len(values), values)
    return {name: _value(value) if succeeded else None for name, value in zip(_FIELDS, values, strict=True)}


def _value(value: FieldValue) -> int | None:
    """Read the union by its type; only the low bytes of a short type are valid."""
    if value.code != SUCCESS or value.type == _DOUBLE:
        return None
    width = {_UNSIGNED_INT: 0xFFFFFFFF, _UNSIGNED_SHORT: 0xFFFF}.get(value.type)
    return int(value.value) if width is None else int(value.value) & width
