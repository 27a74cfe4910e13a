"""The driver's capabilities: which MIG instance each node in /dev/nvidia-caps gives access to.

The numbers of these nodes also stand for other rights, such as the configuration of every GPU's instances and
the management of the fabric between machines. So a node is allowed only if the driver lists it for an
instance that exists.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fairlead.warden import folders

_FOLDER: Final = "proc/driver/nvidia/capabilities"
_NODE: Final = re.compile(r"/dev/nvidia-caps/nvidia-cap([0-9]{1,5})")
_MINOR: Final = re.compile(rb"^DeviceFileMinor:\s*([0-9]{1,5})\s*$", re.MULTILINE)
_LIMIT: Final = 4096


class InstanceAccess(NamedTuple):
    """What a node gives access to: a GPU instance, or a compute instance in it."""

    gpu: str
    gpu_instance: str
    compute_instance: str = ""
    """Empty for the GPU instance itself."""


def capability_number(path: str) -> int | None:
    """Return the number of a capability's node; None for any other node."""
    match = _NODE.fullmatch(path)
    return int(match[1]) if match else None


def read_capabilities(root: str) -> dict[int, InstanceAccess]:
    """Return what the driver lists, by the number of the node.

    A container's own /proc shows the driver of the machine; a root folder that shows another one comes first.
    """
    return dict(_read(f"{root if os.path.isdir(f'{root}/proc/driver') else ''}/{_FOLDER}"))


def capability_fault(path: str, root: str) -> str | None:
    """Return why a capability's node may not be granted; None where it may, and for any other node."""
    number = capability_number(path)
    if number is None or number in read_capabilities(root):
        return None
    return "it gives access to no MIG instance of this machine"


def instances_fault(paths: Iterable[str], root: str) -> str | None:
    """Return why the nodes of one device may not be granted together: they belong to several instances."""
    numbers = [number for path in paths if (number := capability_number(path)) is not None]
    if not numbers:
        return None
    known = read_capabilities(root)
    places = {known[number] for number in numbers if number in known}
    compute_instances = {each for each in places if each.compute_instance}
    if len({(each.gpu, each.gpu_instance) for each in places}) > 1 or len(compute_instances) > 1:
        return "its nodes give access to several MIG instances"
    return None


def _read(folder: str) -> Iterator[tuple[int, InstanceAccess]]:
    for gpu in _names(folder, "gpu"):
        place = f"{folder}/{gpu}/mig"
        for gpu_instance in _names(place, "gi"):
            yield from _access(f"{place}/{gpu_instance}", InstanceAccess(gpu, gpu_instance))
            for compute_instance in _names(f"{place}/{gpu_instance}", "ci"):
                access = InstanceAccess(gpu, gpu_instance, compute_instance)
                yield from _access(f"{place}/{gpu_instance}/{compute_instance}", access)


def _names(folder: str, prefix: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if re.fullmatch(rf"{prefix}[0-9]{{1,3}}", name)]
    except OSError:  # no such GPU, or no driver
        return []


def _access(folder: str, access: InstanceAccess) -> Iterator[tuple[int, InstanceAccess]]:
    try:
        match = _MINOR.search(folders.read(f"{folder}/access", _LIMIT) or b"")
    except OSError:
        return
    if match:
        yield int(match[1]), access
