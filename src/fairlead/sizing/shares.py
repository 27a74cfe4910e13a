"""The share of an elastic pod: the limit that its framework gets when it is placed.

An elastic workload runs in its least size and is content with more. So it is placed by its least size, and
takes what is free up to its full size, as long as enough remains for the pods that may come beside it.
"""

from typing import Final

from fairlead.units import Bytes

PLACES: Final = 8
"""Pods for which an accelerator keeps room at their least size. More contexts than these gain nothing by
time-slicing: on one H200, eight engines were no faster than four."""


def offered_share(least: Bytes, full: Bytes, free: int, holders: int) -> Bytes:
    """Return the limit of a pod that is placed with `free` bytes left, beside that many other pods.

    `least` fits into `free`: the pod was placed by it.
    """
    others = max(0, PLACES - holders - 1)
    return Bytes(max(least, min(full, free - others * least)))
