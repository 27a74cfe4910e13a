"""Count the work of a call: lines and calls of Python are the same on a slow machine as on a fast one."""

import gc
import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(call: Callable[[], object]) -> int:
    """Return the number of Python lines that a call executes."""
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()  # finalizers of other tests' objects are no work of the call
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def calls(function: Callable[..., object], call: Callable[[], object]) -> int:
    """Return how often a call runs a Python function."""
    count = 0
    code = inspect.unwrap(function).__code__

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is code

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count
