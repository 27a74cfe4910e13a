"""Read and write an agent's annotations and labels of its node: holders, accelerators, models.

Equal content is always written as equal text, so that a node object changes only when its content did.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from fairlead.errors import NewerFormatError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.keys import ALLOCATED, DEVICES, PREFIX
from fairlead.offer import Form, Holding

LIMIT: Final = 64 * 1024
"""The most bytes of the annotation; all annotations of an object together may have four times as many."""
ALL: Final = "*"
"""Stands for all holders, or all accelerators, where a full list would be too long."""

MIG: Final = "-mig-"
"""Stands in the model of a MIG instance before its profile, `h200-mig-1g.18gb`, and in its id."""

Amounts = dict[str, dict[Form, dict[str, int]]]
"""By accelerator, form and holder: MiB, or 0 for all of it."""


@dataclass(frozen=True, slots=True)
class AnnotatedAccelerator:
    """One accelerator of a node's list."""

    id: str
    model: str
    """The catalog id, or its candidates; of a MIG instance with its profile, `h200-mig-1g.18gb`."""
    vendor: str
    mebibytes: int
    healthy: bool = True
    shareable: bool = False
    unified: bool = False
    reason: str = ""
    """Why it is not healthy."""
    by_units: bool = False
    """Whether the node offers its memory in units of an extended resource, whose number is limited."""


@dataclass(frozen=True, slots=True)
class LabelledAccelerators:
    """The accelerators of one model, as a node's labels describe them."""

    model: str
    kind: str
    count: int
    usable: int
    state: str


def catalog_model(model: str) -> str:
    """Return the catalog id of a model: for a MIG instance, that of its GPU."""
    return model.partition(MIG)[0]


def holder_name(holding: Holding) -> str:
    """Return the holder's name: `namespace/pod/container`, `namespace/claim`, or `?` while it is unknown."""
    holder = holding.holder
    parts = (holder.namespace, holder.name, "" if holding.form is Form.CLAIM else holder.container)
    return "/".join(filter(None, parts)) or "?"


def allocated_text(holdings: Iterable[Holding]) -> str:
    """Return the annotation: accelerators, forms, holders and MiB, `0` for all of it.

        {"version":1,"accelerators":{"pci-0000-3b-00-0":{"claim":{"default/big":8192}}}}

    Where that is too long, `*` stands for all holders of an accelerator and the amount is their sum; where
    even that is too long, `*` stands for all accelerators as well.
    """
    every = list(holdings)
    keys: tuple[Callable[[Holding], tuple[str, str]], ...] = (
        lambda each: (each.accelerator, holder_name(each)),
        lambda each: (each.accelerator, ALL),
        lambda _: (ALL, ALL),
    )
    texts = (_encoded(every, key) for key in keys)
    return next(text for text in texts if len(text) <= LIMIT)


def parse_allocated(text: str) -> Amounts | None:
    """Parse an annotation; None for a text that this program did not write or cannot read."""
    try:
        return ALLOCATIONS.decode(text)
    except (ValueError, NewerFormatError):
        return None


def _decode_amounts(body: Mapping[str, Any]) -> Amounts:
    amounts: Amounts = {}
    for accelerator, forms in body["accelerators"].items():
        for form, holders in forms.items():
            for holder, amount in holders.items():
                if type(amount) is not int or amount < 0:
                    raise ValueError(f"{amount!r} is not an amount")
                amounts.setdefault(accelerator, {}).setdefault(Form(form), {})[holder] = amount
    return amounts


ALLOCATIONS: Final[VersionedFormat[Amounts]] = VersionedFormat(
    "allocated", JSON, {1: Codec(lambda amounts: {"accelerators": amounts}, _decode_amounts)}
)
"""The annotation of a node that says which containers and claims hold which accelerators."""


def devices_text(listed: Iterable[AnnotatedAccelerator]) -> str:
    """Return the annotation that lists a node's accelerators.

    {"version":1,"accelerators":[{"id":"pci-0000-3b-00-0","model":"t4","vendor":"NVIDIA","memory_mib":15360}]}
    """
    return DEVICE_LISTS.encode(tuple(listed))


def _encode_devices(listed: Iterable[AnnotatedAccelerator]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for each in listed:
        row = {"id": each.id, "model": each.model, "vendor": each.vendor, "memory_mib": each.mebibytes}
        flags = {
            "shareable": each.shareable,
            "unified": each.unified,
            "by_units": each.by_units,
            "unhealthy": not each.healthy,
        }
        reason = {} if each.healthy else {"reason": each.reason}
        rows.append({**row, **{name: True for name, value in flags.items() if value}, **reason})
    return {"accelerators": rows}


def _decode_devices(body: Mapping[str, Any]) -> tuple[AnnotatedAccelerator, ...]:
    return tuple(_listed(row) for row in body["accelerators"])


DEVICE_LISTS: Final[VersionedFormat[tuple[AnnotatedAccelerator, ...]]] = VersionedFormat(
    "devices", JSON, {1: Codec(_encode_devices, _decode_devices)}
)
"""The annotation of a node that lists its accelerators."""


@lru_cache(maxsize=4096)
def parse_devices(text: str) -> tuple[AnnotatedAccelerator, ...] | None:
    """Parse an annotation; None for a text that this program did not write or cannot read."""
    try:
        return DEVICE_LISTS.decode(text)
    except (ValueError, NewerFormatError):
        return None


def newer_format(annotations: Mapping[str, str]) -> NewerFormatError | None:
    """Return why the annotations of a node cannot be read: a newer agent wrote them; None where they can."""
    allocations = ALLOCATIONS.newer(annotations.get(ALLOCATED, ""))
    return allocations or DEVICE_LISTS.newer(annotations.get(DEVICES, ""))


def labelled_models(node_labels: Mapping[str, str]) -> list[LabelledAccelerators]:
    """Return the accelerators that a node's labels describe: the inverse of `publish.labels`."""
    described = []
    for key, count in sorted(node_labels.items()):
        name = key.removeprefix(PREFIX).removesuffix(".count")
        if f"{PREFIX}{name}.count" != key or f"{PREFIX}{name}.kind" not in node_labels:
            continue
        fields = {
            field: node_labels.get(f"{PREFIX}{name}.{field}", "") for field in ("kind", "state", "usable")
        }
        numbers = [
            int(text) if text.isdecimal() and len(text) < 6 else 0 for text in (count, fields["usable"])
        ]
        described.append(LabelledAccelerators(name, fields["kind"], numbers[0], numbers[1], fields["state"]))
    return described


def _encoded(holdings: Iterable[Holding], key: Callable[[Holding], tuple[str, str]]) -> str:
    amounts: Amounts = {}
    for holding in holdings:
        accelerator, holder = key(holding)
        holders = amounts.setdefault(accelerator, {}).setdefault(holding.form, {})
        holders[holder] = holders.get(holder, 0) + holding.mebibytes
    ordered = {
        accelerator: {form: dict(sorted(holders.items())) for form, holders in sorted(forms.items())}
        for accelerator, forms in sorted(amounts.items())
    }
    return ALLOCATIONS.encode(ordered)


def _listed(row: dict[str, Any]) -> AnnotatedAccelerator:
    size = row["memory_mib"]
    if type(size) is not int or not 0 <= size < 1 << 43:
        raise ValueError(f"{size!r} is not an amount of memory")
    return AnnotatedAccelerator(
        str(row["id"]),
        str(row["model"]),
        str(row["vendor"]),
        size,
        healthy=row.get("unhealthy") is not True,
        reason=str(row.get("reason", "")),
        shareable=row.get("shareable") is True,
        unified=row.get("unified") is True,
        by_units=row.get("by_units") is True,
    )
