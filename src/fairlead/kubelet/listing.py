"""Encode a device list for ListAndWatch from blocks of equal units.

A share of memory has one unit for each mebibyte. The units of a block whose numbers have the same length
differ only in these digits, so their encoding is the numbers joined by the constant bytes between them.
"""

from collections.abc import Iterator
from typing import Final

from fairlead import varint
from fairlead.offer import Block, Offer

LIST_LIMIT: Final = 4 * 1024 * 1024
"""The longest message that a kubelet accepts. With one byte more, it drops the plugin."""
_HEALTH: Final = {True: b"\x12\x07Healthy", False: b"\x12\x09Unhealthy"}


def encode_list(offer: Offer) -> bytes:
    """Return the encoded list of all units of an offer."""
    return b"".join(part for block in offer.blocks for part in _parts(block))


def encoded_size(offer: Offer) -> int:
    """Return the length of an offer's encoded list, without encoding it."""
    return sum(_size(block) for block in offer.blocks)


def check(offer: Offer) -> Offer:
    """Return the offer; ValueError where its list is too long for a kubelet."""
    size = encoded_size(offer)
    if size > LIST_LIMIT:
        raise ValueError(
            f"{offer.resource}: a list of {offer.units} units is {size} bytes long, and a kubelet accepts "
            f"{LIST_LIMIT}: offer fewer units"
        )
    return offer


def _parts(block: Block) -> Iterator[bytes]:
    if not block.many:
        head, tail = _around(block, len(block.prefix.encode()))
        yield head + block.prefix.encode() + tail
        return
    name = block.prefix.encode() + b"-"
    for first, end in _decades(block):
        head, tail = _around(block, len(name) + len(str(first)))
        yield head + name
        yield (tail + head + name).join([b"%d" % number for number in range(first, end)])
        yield tail


def _size(block: Block) -> int:
    name = len(block.prefix.encode())
    if not block.many:
        return name + sum(map(len, _around(block, name)))
    size = 0
    for first, end in _decades(block):
        length = name + 1 + len(str(first))
        size += (end - first) * (length + sum(map(len, _around(block, length))))
    return size


def _around(block: Block, length: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after an id of this length."""
    size, health = varint.encode(length), _HEALTH[block.healthy]
    return b"\x0a" + varint.encode(1 + len(size) + length + len(health)) + b"\x0a" + size, health


def _decades(block: Block) -> Iterator[tuple[int, int]]:
    """Yield a block's numbers as ranges, first and end, of equal length in digits."""
    first, end = block.first, block.first + block.count
    while first < end:
        stop = min(end, 10 ** len(str(first)))
        yield first, stop
        first = stop
