"""Device selectors: Kubernetes' CEL for Dynamic Resource Allocation, compiled, type-checked and bounded.

`compile_selector` refuses what does not compile with a `CompileError`; `Selector.matches` says whether a
device matches, or raises an `EvaluationError`, which is never a match.
"""

from fairlead.cel.device import Device
from fairlead.cel.errors import CompileError, EvaluationError
from fairlead.cel.selector import Selector, compile_selector
from fairlead.cel.semver import Version
from fairlead.units import Quantity

__all__ = [
    "CompileError",
    "Device",
    "EvaluationError",
    "Quantity",
    "Selector",
    "Version",
    "compile_selector",
]
