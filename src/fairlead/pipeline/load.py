"""What a Python function or class declares of itself as a stage."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.pipeline.ports import ANY, PortType

ATTRIBUTE: Final = "__fairlead_stage__"
"""Where the decorator `stage` keeps the ports of a function or class."""


@dataclass(frozen=True, slots=True)
class DeclaredPorts:
    """The ports that the decorator `stage` was given."""

    inputs: PortType = ANY
    outputs: PortType = ANY


def declared_ports(function: object) -> DeclaredPorts:
    """Return the ports that a function was declared with; any type where it was not."""
    ports = getattr(function, ATTRIBUTE, None)
    return ports if isinstance(ports, DeclaredPorts) else DeclaredPorts()


def makes_several(function: Callable[..., Any]) -> bool:
    """Return whether a stage is a generator: it may make several values of one."""
    process = getattr(function, "process", None) if inspect.isclass(function) else function
    return inspect.isgeneratorfunction(process)


def keeps_state(function: Callable[..., Any]) -> bool:
    """Return whether a stage is a class with state for each stream: it has a method `checkpoint`."""
    return inspect.isclass(function) and callable(getattr(function, "checkpoint", None))
