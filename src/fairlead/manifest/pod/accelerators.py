"""The accelerators that a pod names: models by catalog id, vendors by name; unknown names are rejected."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from fairlead.annotations import MIG
from fairlead.catalog import Catalog
from fairlead.catalog.device import PRECISIONS
from fairlead.errors import CatalogError, ManifestError

_OR: Final = "-or-"
_LONGEST: Final = 128
"""The most characters of a name."""
_MOST: Final = 256
"""The most names in one list."""


def models(where: str, names: Iterable[str], catalog: Catalog) -> tuple[str, ...]:
    """Return catalog ids for ids or aliases; a family's name stands for all of its models.

    A MIG instance is a model of its own: `h200-mig-1g.18gb`.

    A device that is not identified yet is named by its candidates, `hailo-8-or-hailo-8l`: any one matches.
    """
    ids: dict[str, None] = {}
    for name in names:
        family = [row.id for row in catalog.devices.values() if row.family == name]
        candidates = name.split(_OR) if _OR in name else []
        ids.update(dict.fromkeys([name] if candidates else []))
        ids.update(dict.fromkeys(family or [_model(where, model, catalog) for model in candidates or [name]]))
    return tuple(ids)


def _model(where: str, name: str, catalog: Catalog) -> str:
    base, mig, profile = name.partition(MIG)
    try:
        return f"{catalog.get(base).id}{mig}{profile}"
    except CatalogError as error:
        raise ManifestError(f"{where}: {error}", error.hint) from None


def vendors(where: str, names: Iterable[str], catalog: Catalog) -> tuple[str, ...]:
    """Return vendors as the catalog spells them; the case of the names does not matter."""
    listed = list(names)
    if not listed:
        return ()
    known = {row.vendor.lower(): row.vendor for row in catalog.devices.values()}
    vendors_by_name: dict[str, None] = {}
    for name in listed:
        if name.lower() not in known:
            near = get_close_matches(name.lower(), known, 1, 0.5)
            hint = (
                f"did you mean {known[near[0]]}?" if near else f"known: {', '.join(sorted(known.values()))}"
            )
            raise ManifestError(f"{where}: no vendor {name!r} in the catalog", hint)
        vendors_by_name[known[name.lower()]] = None
    return tuple(vendors_by_name)


def precision(where: str, name: str) -> str:
    """Return a precision, or reject one that is unknown."""
    if name not in PRECISIONS:
        raise ManifestError(
            f"{where}: unknown precision {name[:_LONGEST]!r}", f"known: {', '.join(PRECISIONS)}"
        )
    return name


def split_names(where: str, text: str) -> list[str]:
    """Return the names of a comma-separated list; a list too long to be written by hand is rejected."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if len(names) > _MOST:
        raise ManifestError(f"{where}: {len(names)} names", f"write {_MOST} at the most")
    longest = max((len(name) for name in names), default=0)
    if longest > _LONGEST:
        raise ManifestError(f"{where}: a name of {longest} characters", "see: fairlead catalog list")
    return names
