"""The accelerators that a pod requests, in every supported spelling; contradictions are rejected."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead import keys
from fairlead.catalog import Catalog, CatalogDevice
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.amounts import MIB
from fairlead.manifest.pod import accelerators
from fairlead.request import WHOLE, Demand
from fairlead.units import Bytes

_PIECES: Final = frozenset({*keys.SIZES, *keys.WHOLE})
MEMORY_KEYS: Final = (
    keys.GPU_MEM,
    keys.GPU_MEM_GIB,
    keys.ALIYUN_MEM,
    keys.HAMI_MEM,
    keys.KAI_MEMORY,
    keys.HAMI_PERCENT,
    keys.KAI_FRACTION,
)
"""Resources and annotations that request memory, by amount or by fraction."""


@dataclass(frozen=True, slots=True)
class StatedDemand:
    """What a pod states about accelerators: total resources, annotations, and the pod's place for errors."""

    where: str
    resources: Mapping[str, int]
    annotations: Mapping[str, str]
    catalog: Catalog

    def annotation(self, key: str) -> str:
        """Return an annotation; empty where the pod has none."""
        return self.annotations.get(key, "").strip()

    def names(self, key: str) -> list[str]:
        """Return the names in an annotation."""
        return accelerators.split_names(self.at(key), self.annotation(key))

    def at(self, key: str) -> str:
        """Return the place of an annotation."""
        return f"{self.where}: metadata.annotations[{key}]"


def is_accelerator(resource: str) -> bool:
    """Return whether a resource is counted on accelerators, not on nodes."""
    return resource in _PIECES or resource == keys.ALIYUN_COUNT or resource.startswith(keys.PREFIX)


def demand(stated: StatedDemand) -> Demand:
    """Return the demand of a pod; without accelerators, an empty Demand."""
    own = _own_models(stated)
    memory, compute = _memory(stated), _compute(stated)
    part = fraction(stated)
    if memory and part:
        used = ", ".join(key for key in MEMORY_KEYS if stated.resources.get(key) or stated.annotation(key))
        raise ManifestError(
            f"{stated.where}: requests an amount and a fraction of the memory: {used}", "keep one of them"
        )
    if stated.resources.get(keys.ALIYUN_COUNT):
        raise ManifestError(
            f"{stated.where}: {keys.ALIYUN_COUNT} is a resource of nodes, not one that pods request",
            f"request {keys.ALIYUN_MEM}, or nvidia.com/gpu for whole GPUs",
        )
    count = _count(stated, own) or (1 if memory or compute or part or _by_model(stated) else 0)
    if not count and stated.resources.get(keys.SHARE):
        raise ManifestError(
            f"{stated.where}: {keys.SHARE} needs an annotation that states the share, and there is none",
            f"request {keys.GPU_MEM}, or add an annotation such as {keys.KAI_FRACTION}",
        )
    if not count:
        return Demand()
    return Demand(
        count,
        memory,
        compute,
        models=tuple(own)
        or accelerators.models(stated.at(keys.MODELS), stated.names(keys.MODELS), stated.catalog)
        or _hami(stated, keys.HAMI_USE),
        excluded=(
            *accelerators.models(stated.at(keys.NOT_MODELS), stated.names(keys.NOT_MODELS), stated.catalog),
            *_hami(stated, keys.HAMI_AVOID),
        ),
        vendors=_vendors(stated),
        precision=accelerators.precision(stated.at(keys.PRECISION), text)
        if (text := stated.annotation(keys.PRECISION))
        else "",
    )


def _by_model(stated: StatedDemand) -> bool:
    """Return whether the pod names the model that it runs: then it needs an accelerator, without a size."""
    return bool(stated.annotation(keys.MODEL))


def _own_models(stated: StatedDemand) -> dict[str, int]:
    """Return whole accelerators by model: `fairlead.dev/<model>`."""
    numbers: dict[str, int] = {}
    for resource, number in stated.resources.items():
        if resource.startswith(keys.PREFIX) and resource not in keys.SIZES and number:
            name = resource.removeprefix(keys.PREFIX)
            for model in accelerators.models(f"{stated.where}: {resource}", [name], stated.catalog):
                numbers[model] = number
    if len(set(numbers.values())) > 1 or (len(numbers) > 1 and not _one_resource(stated)):
        raise ManifestError(
            f"{stated.where}: requests several models at once: {', '.join(numbers)}",
            f"name them in the annotation {keys.MODELS}: any of them then matches",
        )
    return numbers


def _one_resource(stated: StatedDemand) -> bool:
    """Return whether one resource names all models, as a family's name does."""
    return sum(name.startswith(keys.PREFIX) and name not in keys.SIZES for name in stated.resources) == 1


def _count(stated: StatedDemand, own: Mapping[str, int]) -> int:
    asked = {name: stated.resources.get(name, 0) for name in keys.WHOLE}
    numbers = {number for number in (*own.values(), *asked.values()) if number}
    for key in (keys.COUNT, keys.KAI_DEVICES):
        if text := stated.annotation(key):
            numbers.add(_positive(stated.at(key), text))
    if len(numbers) > 1:
        listed = " and ".join(str(number) for number in sorted(numbers))
        raise ManifestError(f"{stated.where}: requests {listed} accelerators", "state the number once")
    return numbers.pop() if numbers else 0


def _positive(where: str, text: str) -> int:
    number = amounts.whole(where, text, 1024)
    if not number:
        raise ManifestError(f"{where}: 0 accelerators", "request at least 1, or leave it out")
    return number


def _memory(stated: StatedDemand) -> Bytes | None:
    sizes = {
        keys.GPU_MEM: stated.resources.get(keys.GPU_MEM, 0) * MIB,
        keys.GPU_MEM_GIB: stated.resources.get(keys.GPU_MEM_GIB, 0) * MIB * 1024,
        keys.ALIYUN_MEM: stated.resources.get(keys.ALIYUN_MEM, 0) * _aliyun_unit(stated),
        keys.HAMI_MEM: stated.resources.get(keys.HAMI_MEM, 0) * MIB,
        keys.KAI_MEMORY: amounts.mebibytes(
            stated.at(keys.KAI_MEMORY), stated.annotation(keys.KAI_MEMORY) or 0
        ),
    }
    by_key = {name: size for name, size in sizes.items() if size}
    if len(set(by_key.values())) > 1:
        raise ManifestError(
            f"{stated.where}: {' and '.join(by_key)} request different amounts", "keep one of them"
        )
    return Bytes(next(iter(by_key.values()))) if by_key else None


def _aliyun_unit(stated: StatedDemand) -> int:
    """Return the bytes of one `aliyun.com/gpu-mem`: gpushare counts GiB unless it is configured for MiB."""
    unit = stated.annotation(keys.UNIT)
    if unit not in ("", "GiB", "MiB"):
        raise ManifestError(f"{stated.at(keys.UNIT)}: unknown unit {unit[:40]!r}", "write GiB or MiB")
    number = stated.resources.get(keys.ALIYUN_MEM, 0)
    return MIB if unit == "MiB" or (not unit and number > keys.ALIYUN_GIB_AT_MOST) else MIB * 1024


def fraction(stated: StatedDemand) -> int | None:
    """Return the requested fraction of each accelerator's memory, in thousandths; None: there is none."""
    return _part(stated, keys.KAI_FRACTION) or _percent(stated, keys.HAMI_PERCENT) or None


def _compute(stated: StatedDemand) -> int | None:
    compute = _percent(stated, keys.HAMI_CORES) or _part(stated, keys.COMPUTE)
    # The engine takes no fraction of memory beside one of compute: the larger then counts for compute.
    return max(compute, fraction(stated) or 0) if compute else None


def _part(stated: StatedDemand, key: str) -> int:
    text = stated.annotation(key)
    if not text and key not in stated.annotations:
        return 0
    part = amounts.fraction(stated.at(key), text)
    if not part:
        raise ManifestError(f"{stated.at(key)}: {text} is not above 0", "write it like 0.25 or 25%")
    return part


def _percent(stated: StatedDemand, resource: str) -> int:
    percent = stated.resources.get(resource, 0)
    if percent * 10 > WHOLE:
        raise ManifestError(
            f"{stated.where}: {resource}: {percent} % of an accelerator is more than 100 %",
            "write at most 100",
        )
    return percent * 10


def _vendors(stated: StatedDemand) -> tuple[str, ...]:
    listed = accelerators.vendors(stated.at(keys.VENDORS), stated.names(keys.VENDORS), stated.catalog)
    by_resource = [vendor for name, vendor in keys.WHOLE.items() if stated.resources.get(name)]
    nvidia = ["NVIDIA"] if any(stated.resources.get(name) for name in _NVIDIA) else []
    return listed or tuple(dict.fromkeys([*by_resource, *nvidia]))


_NVIDIA: Final = (keys.ALIYUN_MEM, keys.HAMI_MEM, keys.HAMI_PERCENT, keys.HAMI_CORES)


def _hami(stated: StatedDemand, key: str) -> tuple[str, ...]:
    """Return the models with one of HAMi's words in the product name, as HAMi compares them."""
    words = [word.upper() for word in stated.names(key)]
    if not words:
        return ()
    rows = stated.catalog.devices.values()
    models = tuple(row.id for row in rows if any(word in _products(row) for word in words))
    if not models:
        raise ManifestError(
            f"{stated.at(key)}: no model of the catalog has such a name", "see: fairlead catalog list"
        )
    return models


def _products(row: CatalogDevice) -> str:
    return " / ".join((row.name, *row.match.nvml)).upper()
