"""What a pod asks of accelerators, in every spelling that is understood; two that disagree are refused."""

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
_MEMORY: Final = (
    keys.GPU_MEM,
    keys.GPU_MEM_GIB,
    keys.ALIYUN_MEM,
    keys.HAMI_MEM,
    keys.KAI_MEMORY,
    keys.HAMI_PERCENT,
    keys.KAI_FRACTION,
)
"""What asks for memory, by amounts and by parts."""


@dataclass(frozen=True, slots=True)
class StatedDemand:
    """What a pod says of accelerators: resources in all, annotations, and the place to complain about."""

    where: str
    resources: Mapping[str, int]
    annotations: Mapping[str, str]
    catalog: Catalog

    def annotation(self, key: str) -> str:
        """Return an annotation, empty where there is none."""
        return self.annotations.get(key, "").strip()

    def names(self, key: str) -> list[str]:
        """Return the names in an annotation."""
        return accelerators.split_names(self.at(key), self.annotation(key))

    def at(self, key: str) -> str:
        """Return where an annotation is."""
        return f"{self.where}: metadata.annotations[{key}]"


def is_accelerator(resource: str) -> bool:
    """Return whether a resource is one of accelerators: counted on devices, not on nodes."""
    return resource in _PIECES or resource == keys.ALIYUN_COUNT or resource.startswith(keys.PREFIX)


def demand(said: StatedDemand) -> Demand:
    """Return what is asked for; nothing is a Demand of no accelerators."""
    own = _own_models(said)
    memory, compute = _memory(said), _compute(said)
    part = fraction(said)
    if memory and part:
        stated = ", ".join(name for name in _MEMORY if said.resources.get(name) or said.annotation(name))
        raise ManifestError(
            f"{said.where}: asks for an amount and for a part of the memory: {stated}", "keep one of them"
        )
    if said.resources.get(keys.ALIYUN_COUNT):
        raise ManifestError(
            f"{said.where}: {keys.ALIYUN_COUNT} is what nodes have, not what pods ask for",
            f"ask by {keys.ALIYUN_MEM}, or by nvidia.com/gpu for whole ones",
        )
    count = _count(said, own) or (1 if memory or compute or part or _by_model(said) else 0)
    if not count and said.resources.get(keys.SHARE):
        raise ManifestError(
            f"{said.where}: {keys.SHARE} stands for what annotations ask for, and none does",
            f"ask by {keys.GPU_MEM}, or add an annotation such as {keys.KAI_FRACTION}",
        )
    if not count:
        return Demand()
    return Demand(
        count,
        memory,
        compute,
        models=tuple(own)
        or accelerators.models(said.at(keys.MODELS), said.names(keys.MODELS), said.catalog)
        or _hami(said, keys.HAMI_USE),
        excluded=(
            *accelerators.models(said.at(keys.NOT_MODELS), said.names(keys.NOT_MODELS), said.catalog),
            *_hami(said, keys.HAMI_AVOID),
        ),
        vendors=_vendors(said),
        precision=accelerators.precision(said.at(keys.PRECISION), text)
        if (text := said.annotation(keys.PRECISION))
        else "",
    )


def _by_model(said: StatedDemand) -> bool:
    """Return whether the model to be run is named: then it wants an accelerator, though it names no size."""
    return bool(said.annotation(keys.MODEL))


def _own_models(said: StatedDemand) -> dict[str, int]:
    """Return whole accelerators by model: `fairlead.dev/<model>`."""
    found: dict[str, int] = {}
    for resource, number in said.resources.items():
        if resource.startswith(keys.PREFIX) and resource not in keys.SIZES and number:
            name = resource.removeprefix(keys.PREFIX)
            for model in accelerators.models(f"{said.where}: {resource}", [name], said.catalog):
                found[model] = number
    if len(set(found.values())) > 1 or (len(found) > 1 and not _one_resource(said)):
        raise ManifestError(
            f"{said.where}: asks for several models at once: {', '.join(found)}",
            f"name them in the annotation {keys.MODELS}: any of them will do",
        )
    return found


def _one_resource(said: StatedDemand) -> bool:
    """Return whether one resource named all models, as a family's name does."""
    return sum(name.startswith(keys.PREFIX) and name not in keys.SIZES for name in said.resources) == 1


def _count(said: StatedDemand, own: Mapping[str, int]) -> int:
    asked = {name: said.resources.get(name, 0) for name in keys.WHOLE}
    numbers = {number for number in (*own.values(), *asked.values()) if number}
    for key in (keys.COUNT, keys.KAI_DEVICES):
        if text := said.annotation(key):
            numbers.add(_positive(said.at(key), text))
    if len(numbers) > 1:
        raise ManifestError(
            f"{said.where}: asks for {' and '.join(str(each) for each in sorted(numbers))} accelerators",
            "say it once",
        )
    return numbers.pop() if numbers else 0


def _positive(where: str, text: str) -> int:
    number = amounts.whole(where, text, 1024)
    if not number:
        raise ManifestError(f"{where}: 0 accelerators", "ask for at least 1, or leave it out")
    return number


def _memory(said: StatedDemand) -> Bytes | None:
    sizes = {
        keys.GPU_MEM: said.resources.get(keys.GPU_MEM, 0) * MIB,
        keys.GPU_MEM_GIB: said.resources.get(keys.GPU_MEM_GIB, 0) * MIB * 1024,
        keys.ALIYUN_MEM: said.resources.get(keys.ALIYUN_MEM, 0) * _aliyun_unit(said),
        keys.HAMI_MEM: said.resources.get(keys.HAMI_MEM, 0) * MIB,
        keys.KAI_MEMORY: amounts.mebibytes(said.at(keys.KAI_MEMORY), said.annotation(keys.KAI_MEMORY) or 0),
    }
    stated = {name: size for name, size in sizes.items() if size}
    if len(set(stated.values())) > 1:
        raise ManifestError(
            f"{said.where}: {' and '.join(stated)} ask for different amounts", "keep one of them"
        )
    return Bytes(next(iter(stated.values()))) if stated else None


def _aliyun_unit(said: StatedDemand) -> int:
    """Return how many bytes one `aliyun.com/gpu-mem` is: gpushare counts GiB unless it was told MiB."""
    unit = said.annotation(keys.UNIT)
    if unit not in ("", "GiB", "MiB"):
        raise ManifestError(f"{said.at(keys.UNIT)}: unknown unit {unit[:40]!r}", "write GiB or MiB")
    number = said.resources.get(keys.ALIYUN_MEM, 0)
    return MIB if unit == "MiB" or (not unit and number > keys.ALIYUN_GIB_AT_MOST) else MIB * 1024


def fraction(said: StatedDemand) -> int | None:
    """Return the part of each accelerator's memory that is asked for, in thousandths; None: none is."""
    return _part(said, keys.KAI_FRACTION) or _percent(said, keys.HAMI_PERCENT) or None


def _compute(said: StatedDemand) -> int | None:
    stated = _percent(said, keys.HAMI_CORES) or _part(said, keys.COMPUTE)
    # The engine takes no part of memory beside one of compute: the larger then counts for compute.
    return max(stated, fraction(said) or 0) if stated else None


def _part(said: StatedDemand, key: str) -> int:
    text = said.annotation(key)
    if not text and key not in said.annotations:
        return 0
    part = amounts.fraction(said.at(key), text)
    if not part:
        raise ManifestError(f"{said.at(key)}: {text} is nothing", "write it like 0.25 or 25%")
    return part


def _percent(said: StatedDemand, resource: str) -> int:
    percent = said.resources.get(resource, 0)
    if percent * 10 > WHOLE:
        raise ManifestError(
            f"{said.where}: {resource}: {percent} % of an accelerator is more than all of it",
            "write 100 at the most",
        )
    return percent * 10


def _vendors(said: StatedDemand) -> tuple[str, ...]:
    listed = accelerators.vendors(said.at(keys.VENDORS), said.names(keys.VENDORS), said.catalog)
    by_resource = [vendor for name, vendor in keys.WHOLE.items() if said.resources.get(name)]
    theirs = ["NVIDIA"] if any(said.resources.get(name) for name in _NVIDIA) else []
    return listed or tuple(dict.fromkeys([*by_resource, *theirs]))


_NVIDIA: Final = (keys.ALIYUN_MEM, keys.HAMI_MEM, keys.HAMI_PERCENT, keys.HAMI_CORES)


def _hami(said: StatedDemand, key: str) -> tuple[str, ...]:
    """Return the models whose product names hold one of HAMi's words, as HAMi compares them."""
    words = [word.upper() for word in said.names(key)]
    if not words:
        return ()
    rows = said.catalog.devices.values()
    found = tuple(row.id for row in rows if any(word in _products(row) for word in words))
    if not found:
        raise ManifestError(
            f"{said.at(key)}: no model of the catalog is called so", "see: fairlead catalog list"
        )
    return found


def _products(row: CatalogDevice) -> str:
    return " / ".join((row.name, *row.match.nvml)).upper()
