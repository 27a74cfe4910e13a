"""Which accelerators are meant: models by their catalog ids, vendors by their names, unknown ones refused."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from fairlead.catalog import Catalog
from fairlead.catalog.device import PRECISIONS
from fairlead.errors import CatalogError, ManifestError

_OR: Final = "-or-"
_LONGEST: Final = 128
"""Characters of a name."""
_MOST: Final = 256
"""Names in one list."""


def models(where: str, names: Iterable[str], catalog: Catalog) -> tuple[str, ...]:
    """Return catalog ids for ids or aliases; a family's name means all of it.

    While a device is unsure it is called by its candidates, `hailo-8-or-hailo-8l`: any of them will do.
    """
    found: dict[str, None] = {}
    for name in names:
        family = [row.id for row in catalog.devices.values() if row.family == name]
        candidates = name.split(_OR) if _OR in name else []
        found.update(dict.fromkeys([name] if candidates else []))
        found.update(dict.fromkeys(family or [_model(where, each, catalog) for each in candidates or [name]]))
    return tuple(found)


def _model(where: str, name: str, catalog: Catalog) -> str:
    try:
        return catalog.get(name).id
    except CatalogError as error:
        raise ManifestError(f"{where}: {error}", error.hint) from None


def vendors(where: str, names: Iterable[str], catalog: Catalog) -> tuple[str, ...]:
    """Return vendors as the catalog spells them, whatever the case."""
    listed = list(names)
    if not listed:
        return ()
    known = {row.vendor.lower(): row.vendor for row in catalog.devices.values()}
    found: dict[str, None] = {}
    for name in listed:
        if name.lower() not in known:
            near = get_close_matches(name.lower(), known, 1, 0.5)
            hint = (
                f"did you mean {known[near[0]]}?" if near else f"known: {', '.join(sorted(known.values()))}"
            )
            raise ManifestError(f"{where}: no vendor {name!r} in the catalog", hint)
        found[known[name.lower()]] = None
    return tuple(found)


def precision(where: str, name: str) -> str:
    """Return a precision that is known."""
    if name not in PRECISIONS:
        raise ManifestError(
            f"{where}: unknown precision {name[:_LONGEST]!r}", f"known: {', '.join(PRECISIONS)}"
        )
    return name


def split_names(where: str, text: str) -> list[str]:
    """Return the names of a list with commas; a list that nobody writes by hand is refused unread."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if len(found) > _MOST:
        raise ManifestError(f"{where}: {len(found)} names", f"write {_MOST} at the most")
    long = max((len(name) for name in found), default=0)
    if long > _LONGEST:
        raise ManifestError(f"{where}: a name of {long} characters", "see: fairlead catalog list")
    return found
