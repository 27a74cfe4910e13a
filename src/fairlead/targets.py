"""Find the Python function or class that `module:name` or `file.py:name` names."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any


class LoadError(ValueError):
    """A target cannot be imported; the message is one line."""


def load_target(target: str, folder: str) -> Callable[..., Any]:
    """Return the function or class that a target names; modules are looked for in `folder` first."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise LoadError(f"{target!r} is not a function: write module:function or file.py:function")
    module = _load_file(place, folder) if place.endswith(".py") else _load_module(place, folder)
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        raise LoadError(f"{place} has no function or class {name!r}")
    return value  # type: ignore[no-any-return]  # callable() narrows to object's own type


def _load_module(name: str, folder: str) -> Any:
    place = os.path.abspath(folder or ".")
    if place not in sys.path:
        sys.path.insert(0, place)
    try:
        return importlib.import_module(name)
    except Exception as error:  # the user's module may raise anything
        raise LoadError(f"{name} cannot be imported: {_one_line(error)}") from error


def _load_file(path: str, folder: str) -> Any:
    place = os.path.join(os.path.abspath(folder or "."), path)
    name = f"fairlead_stage_{os.path.basename(place)[:-3]}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", "") == place:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, place)
    if specification is None or specification.loader is None:
        raise LoadError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:  # the user's file may raise anything
        del sys.modules[name]
        raise LoadError(f"{path} cannot be imported: {_one_line(error)}") from error
    return module


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
