"""A Python function or an ONNX model, called with one file and writing another."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from fairlead.outfile import atomic_write
from fairlead.targets import load_target

Call = Callable[[str, str], None]
"""Takes the path of an input and the path of its result."""


def function_call(target: str, folder: str) -> Call:
    """Return what calls a function: with the input's path alone, or with the paths of input and result.

    Of a function that takes one argument the result is what it returns: bytes and texts as they are,
    anything else as JSON.
    """
    function = load_target(target, folder)
    if _takes_two(function):
        return lambda source, target: _write_itself(function, source, target)
    return lambda source, target: _write(target, function(source))


def model_call(path: str, options: Mapping[str, Any]) -> Call:
    """Return what runs a model over a file."""
    from fairlead.pipeline.models.files import FileModel  # noqa: PLC0415 - functions need no NumPy

    return FileModel(path, options).run


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions in C say nothing of themselves
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in places and each.default is inspect.Parameter.empty]
    return len(needed) >= 2


def _write_itself(function: Callable[..., Any], source: str, target: str) -> None:
    function(source, target)


def _write(target: str, value: Any) -> None:
    with atomic_write(target) as out:
        out.write(as_bytes(value))


def as_bytes(value: Any) -> bytes:
    """Return what a function has returned as the content of a result; TypeError for what JSON cannot hold."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    return f"{json.dumps(value)}\n".encode()
