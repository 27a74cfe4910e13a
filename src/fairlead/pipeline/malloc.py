"""The allocator of processes that frames pass through: what a frame leaves is kept for the next one."""

import ctypes
from collections.abc import Mapping
from typing import Final

_SET_BY_USER: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MAPPED: Final = 32 << 20
"""Bytes from which an allocation is mapped alone: the most that glibc takes."""
_KEPT: Final = 128 << 20
"""Free bytes at the end of a heap that are kept: some frames of 4K."""


def keep_freed_memory(environ: Mapping[str, str]) -> bool:
    """Have malloc keep freed frames in this process; return whether it does.

    By default it returns what large arrays leave to the kernel, so that every page of every frame is a page
    fault. What a user has set stays; other C libraries than glibc are left as they are.
    """
    if any(name in environ for name in _SET_BY_USER) or "glibc.malloc" in environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT))
