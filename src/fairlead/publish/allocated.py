"""Who holds what, as a node's annotation says it: small, and always written the same way."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fairlead.offer import Form, Holding

LIMIT: Final = 64 * 1024
"""Bytes of the annotation; all annotations of an object together may have four times as many."""
ALL: Final = "*"
"""Stands for all holders, or all accelerators, where naming each would take too much room."""
_FORMS: Final = frozenset(Form)

Amounts = dict[str, dict[Form, dict[str, int]]]
"""By accelerator, form and holder: MiB, or 0 for all of it."""


def holder_name(holding: Holding) -> str:
    """Return the holder's name: `namespace/pod/container`, `namespace/claim`, or `?` while it is unknown."""
    holder = holding.holder
    parts = (holder.namespace, holder.name, "" if holding.form is Form.CLAIM else holder.container)
    return "/".join(filter(None, parts)) or "?"


def allocated(holdings: Iterable[Holding]) -> str:
    """Return the annotation: accelerators, forms, holders and MiB, `0` for all of it.

        {"pci-0000-3b-00-0":{"claim":{"default/big":8192},"memory":{"default/web/main":2048}}}

    When that is too long, `*` stands for all holders of an accelerator and the amount is their sum; when
    even that is too long, `*` stands for all accelerators as well.
    """
    found = list(holdings)
    ways: tuple[Callable[[Holding], tuple[str, str]], ...] = (
        lambda each: (each.accelerator, holder_name(each)),
        lambda each: (each.accelerator, ALL),
        lambda _: (ALL, ALL),
    )
    texts = (_written(found, way) for way in ways)
    return next(text for text in texts if len(text) <= LIMIT)


def parse_allocated(text: str) -> Amounts | None:
    """Return what an annotation says; None for one that no agent wrote."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    amounts: Amounts = {}
    for accelerator, forms in _table(document).items():
        for form, holders in _table(forms).items():
            for holder, amount in _table(holders).items():
                if form not in _FORMS or type(amount) is not int or amount < 0:
                    return None
                amounts.setdefault(accelerator, {}).setdefault(Form(form), {})[holder] = amount
    return amounts if isinstance(document, dict) else None


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _written(holdings: Iterable[Holding], names: Callable[[Holding], tuple[str, str]]) -> str:
    amounts: Amounts = {}
    for holding in holdings:
        accelerator, holder = names(holding)
        holders = amounts.setdefault(accelerator, {}).setdefault(holding.form, {})
        holders[holder] = holders.get(holder, 0) + holding.mebibytes
    return json.dumps(amounts, sort_keys=True, separators=(",", ":"))
