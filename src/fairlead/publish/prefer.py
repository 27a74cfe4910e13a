"""The units that a kubelet should allocate: a share on one accelerator, where it leaves the least memory."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from fairlead.offer import Offer


def prefer(offer: Offer, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
    """Return `size` units to allocate, `required` among them; none where no choice is valid.

    A share lies on one accelerator: the one with the fewest free units that still suffice, so that large
    shares stay possible elsewhere, and there the lowest numbers, because claims take from the top.
    """
    if size < len(required):
        return []
    if any(block.many for block in offer.blocks):
        return _share(offer, available, required, size)
    wanted, known = set(required), {block.prefix for block in offer.blocks}
    chosen = sorted(wanted) + sorted((set(available) & known) - wanted)
    return chosen[:size] if len(chosen) >= size else []


def _share(offer: Offer, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
    free = {*available, *required}
    wanted = {unit.rpartition("-")[0] for unit in required}
    owners = {block.prefix: block.accelerator for block in offer.blocks}
    counts = _counts(free, owners)
    fits = [
        (counts[prefix], owner, prefix)
        for prefix, owner in owners.items()
        if counts[prefix] >= size and wanted <= {prefix}
    ]
    if not fits:
        return []
    fewest = min(fits)[0]
    # Of several, the last: a scheduler that allocates claims begins with the first.
    _, _, prefix = max(fit for fit in fits if fit[0] == fewest)
    chosen = list(dict.fromkeys(required))
    taken = set(chosen)
    units = (unit for block in offer.blocks if block.prefix == prefix for unit in block.ids())
    for unit in units:
        if len(chosen) == size:
            break
        if unit in free and unit not in taken:
            chosen.append(unit)
    return chosen if len(chosen) == size else []


def _counts(free: Collection[str], prefixes: Iterable[str]) -> Counter[str]:
    """Return the number of free units by prefix: the text before the dash and the number.

    There are tens of thousands of units, and a kubelet asks for every container: slicing all of them at the
    same index is several times as fast as searching the dash in each.
    """
    counts: Counter[str] = Counter()
    for length in {len(prefix) for prefix in prefixes}:
        heads = Counter([unit[: length + 1] for unit in free])
        counts.update({head[:-1]: number for head, number in heads.items() if head.endswith("-")})
    return counts
