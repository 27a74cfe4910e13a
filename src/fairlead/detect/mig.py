"""A GPU that is split by MIG: its instances are accelerators of their own, and it is none any more.

CUDA programs cannot use the whole of such a GPU. NVML names the instances; the driver's capabilities in /proc
name the device nodes that give access to each.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from fairlead.detect.sighting import Sighting
from fairlead.host import Host, printable
from fairlead.inventory import Accelerator, Evidence, MigPartition, State
from fairlead.nvml import Gpu, MigInstance
from fairlead.units import Bytes, Ops, Watts, pluralize

CAPABILITIES: Final = "/proc/driver/nvidia/capabilities"
CAPABILITY_NODE: Final = "/dev/nvidia-caps/nvidia-cap"
_MINOR: Final = re.compile(rb"^DeviceFileMinor:\s*([0-9]{1,5})\s*$", re.MULTILINE)
_RESERVED: Final = (1, 2)
"""Minor numbers that configure and watch every GPU's instances (mig/config, mig/monitor)."""
_LONGEST_ID: Final = 63
_LONGEST_PROFILE: Final = 24
_IDS: Final = 256
"""More ids than a GPU has; a captured file may contain any number."""
_EMPTY: Final = (
    "MIG is enabled but no instance exists: nvidia-smi mig -cgi PROFILE -C makes some, "
    "nvidia-smi -mig 0 disables MIG"
)


def split(host: Host, sighting: Sighting, parent: Accelerator) -> list[Accelerator]:
    """Return an accelerator, and the instances of a GPU that is split; then the GPU is not allocatable."""
    gpu, minor = sighting.gpu, _minor(sighting)
    in_proc = _count_in_proc(host, minor)
    if gpu is not None and gpu.instances:
        instances = [_describe(host, parent, gpu, each, minor) for each in gpu.instances]
        reason = f"split into {pluralize(len(instances), 'MIG instance')}"
        return [_not_allocatable(parent, reason, len(instances)), *instances]
    if in_proc:
        reason = f"split into {pluralize(in_proc, 'MIG instance')} that NVML does not show to this process"
        return [_not_allocatable(parent, reason)]
    if gpu is not None and gpu.mig_enabled:
        return [_not_allocatable(parent, _EMPTY)]
    return [parent]


def _not_allocatable(parent: Accelerator, reason: str, instances: int = 0) -> Accelerator:
    """Return a GPU that can only be measured; a worse state keeps its reason."""
    if not parent.state.allocatable:
        return replace(parent, mig_instances=instances)
    return replace(parent, state=State.DRIVER_BOUND, reason=reason, mig_instances=instances)


def _describe(
    host: Host, parent: Accelerator, gpu: Gpu, instance: MigInstance, minor: int | None
) -> Accelerator:
    """Return an instance as an accelerator: the model and state of its GPU, with its own part of it."""
    profile, share = printable(instance.profile), gpu.compute_share(instance)
    ids = f"GPU {gpu.index} GI {instance.gpu_instance} CI {instance.compute_instance}"
    memory = _memory(gpu, instance)
    access = dict(_access(host, minor, instance))
    return replace(
        parent,
        id=_identity(parent.id, profile, instance),
        name=f"{parent.name} MIG {profile}".rstrip(),
        memory=memory,
        peak=_part(parent.peak, share),
        effective=_part(parent.effective, share),
        power=None if parent.power is None or share is None else Watts(round(parent.power * share, 1)),
        product=printable(instance.name) or parent.product,
        uuid=printable(instance.uuid) or None,
        engines=(),
        evidence=(*parent.evidence, Evidence("nvml", ids, _says(gpu, instance, memory)), *access.values()),
        mig=MigPartition(
            profile=profile,
            gpu_instance=instance.gpu_instance,
            compute_instance=instance.compute_instance,
            parent=parent.id,
            parent_uuid=parent.uuid or "",
            compute_share=share,
            memory_share=min(1.0, memory / parent.memory) if memory and parent.memory else None,
            nodes=tuple(access),
        ),
    )


def _identity(parent: str, profile: str, instance: MigInstance) -> str:
    """Return an id from the GPU's id, the profile and both ids of the instance.

    It stays while the instance exists; an instance of another profile that gets the same ids later has
    another one. The UUID is not used: captures of machines do not contain it.
    """
    word = re.sub(r"[^a-z0-9]+", "-", profile.lower()).strip("-")[:_LONGEST_PROFILE].strip("-")
    ids = f"{instance.gpu_instance % _IDS}-{instance.compute_instance % _IDS}"
    end = f"-mig-{f'{word}-' if word else ''}{ids}"
    return f"{parent[: _LONGEST_ID - len(end)].rstrip('-')}{end}"


def _memory(gpu: Gpu, instance: MigInstance) -> Bytes | None:
    """Return the memory of an instance; compute instances of one GPU instance share its memory."""
    sharing = Counter(each.gpu_instance for each in gpu.instances)[instance.gpu_instance]
    return Bytes(instance.memory // sharing) or None if instance.memory else None


def _part(rates: Mapping[str, Ops], share: float | None) -> dict[str, Ops]:
    """Return an instance's part of the GPU's rates; none where its part is unknown."""
    return {} if share is None else {name: Ops(rate * share) for name, rate in rates.items()}


def _says(gpu: Gpu, instance: MigInstance, memory: Bytes | None) -> str:
    parts = [f"MIG {printable(instance.profile)}"]
    if instance.multiprocessors and gpu.multiprocessors:
        parts.append(f"{instance.multiprocessors} of {gpu.multiprocessors} multiprocessors")
    elif instance.slices and gpu.most_instances:
        parts.append(f"{instance.slices} of {gpu.most_instances} compute slices")
    if memory:
        shared = " as its part of the GPU instance's" if memory != instance.memory else ""
        parts.append(f"{memory >> 20} MiB{shared}")
    return ", ".join(parts)


def _minor(sighting: Sighting) -> int | None:
    """Return the number of the GPU's device node, by which the driver names its capabilities."""
    if sighting.minor is not None:
        return sighting.minor
    return sighting.gpu.index if sighting.gpu is not None and sighting.gpu.index >= 0 else None


def _count_in_proc(host: Host, minor: int | None) -> int:
    """Return how many instances of a GPU the driver's capabilities list."""
    if minor is None:
        return 0
    place = f"{CAPABILITIES}/gpu{minor}/mig"
    return sum(len(host.names(f"{place}/{name}", "ci*")) for name in host.names(place, "gi*"))


def _access(host: Host, minor: int | None, instance: MigInstance) -> Iterator[tuple[str, Evidence]]:
    """Yield the nodes that give access to a GPU instance and to a compute instance in it, if they exist."""
    place = f"{CAPABILITIES}/gpu{minor}/mig/gi{instance.gpu_instance}"
    for path in (f"{place}/access", f"{place}/ci{instance.compute_instance}/access"):
        match = _MINOR.search(host.read(path, 4096) or b"")
        number = int(match[1]) if match else 0
        node = f"{CAPABILITY_NODE}{number}"
        if match and number not in _RESERVED and (host.exists(node) or not host.exists("/dev")):
            yield node, Evidence("proc", path, f"access by {node}")
